"""The JSON report holds everything that was measured, in the form of `report.schema.json`."""

import json
import math
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from importlib import metadata
from pathlib import Path

import jsonschema
import pytest
import report_samples as samples

from pytest_swarm.errors import SettingError
from pytest_swarm.records import Attempt, Call, Task
from pytest_swarm.reports.json_file import cost_of, environment, exit_of, write_report
from pytest_swarm.rowfile import RowFile

SCHEMA = json.loads((Path(__file__).parent / "report.schema.json").read_text())
EVERY = [samples.PASSED, samples.FAILED, samples.INVALID, samples.SIMULATED, samples.SKIPPED, *samples.COMPARED]
CREATED = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)


def rows(path, many=3):
    """A file with the rows of so many tasks that made two calls each."""
    with RowFile(path) as file:
        for index in range(many):
            attempt = Attempt(0.1, 1.25, 200, "ok")
            for name in ("plan", "write"):
                file.call(
                    Call(index, 0, name=name, outcome="ok", status=200, latency=1 / 3, attempts=[attempt]).to_dict()
                )
            file.task(Task(index, 0, False, "passed", 0.0, 0.1, 2.0).to_dict())
    return str(path)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def report(path, records, **more):
    given = {"exit_status": exit_of(records), "environment": environment(), "cost": cost_of(records)}
    write_report(path, records, **{**given, "created": CREATED, **more})
    text = path.read_text(encoding="ascii")
    found = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the report"))
    jsonschema.validate(found, SCHEMA, cls=jsonschema.Draft202012Validator)
    return found


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_kind_of_test_is_in_the_report(tmp_path):
    found = report(tmp_path / "out.json", EVERY)
    assert [test["nodeid"] for test in found["tests"]] == [record["nodeid"] for record in EVERY]
    assert [test["verdict"] for test in found["tests"]] == [
        "pass",
        "fail",
        "invalid",
        "pass",
        "skipped",
        "pass",
        "pass",
    ]
    assert found["exit"] == "fail"
    assert found["created"] == "2026-03-01T12:00:05Z"
    [compared] = found["comparison"]
    assert compared["rows"][0] == {
        "metric": "latency.p50",
        "values": {"gpt-6-agent": 1.833, "kimi-k2.5-swarm": 2.315},
        "best": "gpt-6-agent",
        "advantage": "26% faster",
    }


def test_rows_are_in_the_report_in_the_order_in_which_they_ended(tmp_path):
    record = {**samples.PASSED, "rows": rows(tmp_path / "rows.jsonl")}
    [test] = report(tmp_path / "out.json", [record])["tests"]
    assert [task["index"] for task in test["tasks"]] == [0, 1, 2]
    assert [(call["task"], call["name"]) for call in test["calls"]] == [
        (index, name) for index in range(3) for name in ("plan", "write")
    ]
    assert test["calls"][0]["latency"] == 1 / 3


def test_a_torn_row_is_left_out(tmp_path):
    path = rows(tmp_path / "rows.jsonl")
    with Path(path).open("ab") as file:
        file.write(b'{"call": {"task": 7, "ru')
    [test] = report(tmp_path / "out.json", [{**samples.PASSED, "rows": path}])["tests"]
    assert (len(test["tasks"]), len(test["calls"])) == (3, 6)


def test_lost_rows_are_told_in_a_note(tmp_path):
    [test] = report(tmp_path / "out.json", [{**samples.PASSED, "rows": str(tmp_path / "gone.jsonl")}])["tests"]
    assert (test["tasks"], test["calls"]) == ([], [])
    assert test["notes"] == ["the rows of tasks and calls are lost"]


def test_figures_that_are_not_finite_become_null_and_others_keep_their_digits(tmp_path):
    record = {**samples.PASSED, "metrics": {"latency.p50": math.nan, "latency.p95": math.inf, "latency.p99": 0.1 + 0.2}}
    [test] = report(tmp_path / "out.json", [record])["tests"]
    assert test["metrics"] == {"latency.p50": None, "latency.p95": None, "latency.p99": 0.1 + 0.2}


def test_a_report_without_tests_is_valid_and_no_pass(tmp_path):
    found = report(tmp_path / "out.json", [])
    assert (found["tests"], found["exit"], found["comparison"]) == ([], "invalid", [])


def test_the_same_records_give_the_same_bytes(tmp_path):
    record = {**samples.PASSED, "rows": rows(tmp_path / "rows.jsonl")}
    report(tmp_path / "a.json", [record, *EVERY])
    report(tmp_path / "b.json", [record, *EVERY])
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_the_time_is_told_in_utc(tmp_path):
    local = CREATED.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert report(tmp_path / "out.json", [], created=local)["created"] == "2026-03-01T12:00:05Z"


def test_the_time_is_now_unless_given(tmp_path):
    before = datetime.now(UTC).replace(microsecond=0)
    found = report(tmp_path / "out.json", [], created=None)
    assert before <= datetime.fromisoformat(found["created"]) <= datetime.now(UTC)


def test_parent_directories_are_made_and_nothing_is_left_beside_the_report(tmp_path):
    report(tmp_path / "a" / "b" / "out.json", [samples.PASSED])
    assert names(tmp_path / "a" / "b") == ["out.json"]


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match=r"^the JSON report cannot be written to .*file/out\.json: (File|Not a)"):
        report(tmp_path / "file" / "out.json", [])
    (tmp_path / "folder").mkdir()
    with pytest.raises(SettingError, match=r"^the JSON report cannot be written to .*folder: Is a directory$"):
        report(tmp_path / "folder", [])
    assert names(tmp_path) == ["file", "folder"]


def test_a_report_that_fails_half_way_leaves_the_old_one(tmp_path):
    path = tmp_path / "out.json"
    path.write_text("old")
    incomplete = {key: value for key, value in samples.PASSED.items() if key != "verdict"}
    with pytest.raises(KeyError):
        write_report(path, [samples.FAILED, incomplete], exit_status="pass", environment={}, cost={})
    assert path.read_text() == "old"
    assert names(tmp_path) == ["out.json"]


def test_memory_does_not_grow_with_the_number_of_rows(tmp_path):
    def peak(many):
        record = {**samples.PASSED, "rows": rows(tmp_path / f"{many}.jsonl", many)}
        tracemalloc.start()
        try:
            write_report(tmp_path / "out.json", [record], exit_status="pass", environment={}, cost={})
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = peak(10), peak(1500)
    assert (tmp_path / "out.json").stat().st_size > 1_000_000
    assert many - few < 200_000


@pytest.mark.parametrize(
    ("verdicts", "interrupted", "expected"),
    [
        (["pass", "pass"], False, "pass"),
        (["pass", "skipped"], False, "pass"),
        (["pass", "invalid"], False, "invalid"),
        (["pass", "invalid", "fail"], False, "fail"),
        (["pass", "error"], False, "fail"),
        (["fail", "interrupted"], False, "interrupted"),
        (["pass"], True, "interrupted"),
        (["skipped"], False, "invalid"),
        ([], False, "invalid"),
    ],
)
def test_the_exit_is_the_worst_verdict_and_no_data_is_no_pass(verdicts, interrupted, expected):
    assert exit_of([{"verdict": verdict} for verdict in verdicts], interrupted) == expected


def spent(by_model, unpriced=0):
    return {"spent": {"by_model": by_model, "unpriced_calls": unpriced}}


def test_cost_is_summed_over_tests_by_model():
    assert cost_of([spent({"a": 0.5, "b": 1.0}), spent({"a": 0.25})]) == {
        "total": 1.75,
        "by_model": {"a": 0.75, "b": 1.0},
        "unpriced_calls": 0,
        "ceiling": None,
    }


@pytest.mark.parametrize("order", [1, -1])
def test_an_unpriced_call_makes_its_model_and_the_total_unknown(order):
    records = [spent({"a": 0.5, "b": 1.0}), spent({"a": None}, unpriced=3), spent({"a": 1.0})][::order]
    found = cost_of(records)
    assert (found["total"], found["by_model"]["a"], found["by_model"]["b"], found["unpriced_calls"]) == (
        None,
        None,
        1.0,
        3,
    )


def test_no_call_at_all_has_no_known_cost():
    assert cost_of([spent({})]) == {"total": None, "by_model": {}, "unpriced_calls": 0, "ceiling": None}


def test_the_environment_names_installed_packages_only(monkeypatch):
    versions = {"pytest": "9.2.0", "aiohttp": "3.14.0"}

    def version(name):
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", version)
    assert environment()["packages"] == {"pytest": "9.2.0", "aiohttp": "3.14.0"}
