"""Former reports read back: the same figures from their rows, and one sentence for a file that is none."""

import json
from array import array

import pytest

from pytest_swarm.errors import SettingError
from pytest_swarm.judging.baseline import Former, NoBaseline
from pytest_swarm.judging.metrics import SwarmMetrics
from pytest_swarm.judging.sla import parse_per_task
from pytest_swarm.judging.verdict import judge
from pytest_swarm.records import Call, Task
from pytest_swarm.reports.baseline_file import read_baseline, runs_of, runs_of_rows
from pytest_swarm.reports.json_file import write_report
from pytest_swarm.reports.record import test_record as record_of
from pytest_swarm.rowfile import RowFile
from tests.unit.judging.judging_samples import call, run_of, swarm_of, task


def measured():
    """Two runs with most of what can happen in them."""
    runs = []
    for index in range(2):
        tasks = [
            task(0, 0.0, 1.25, run=index),
            task(1, 0.5, 2.0, "failed", run=index),
            task(2, 0.25, 3.5, "json_invalid", run=index),
            task(3, 0.0, 9.0, "skipped", run=index),
            task(4, 0.0, 7.0, warmup=True, run=index),
        ]
        calls = [
            call(0, latency=1.2, attempt_latency=1.1, ttft=0.3, ttfo=0.4, tpot=0.01, input_tokens=10, output_tokens=20),
            call(1, "rate_limited", status=429, attempts=3, queued=0.2, latency=0.4, sent=0.6),
            call(2, latency=3.0, json_status="invalid", cost=0.25, cached_tokens=3, input_tokens=8, name="plan"),
            call(4, latency=6.0, warmup=True, cost=1.0),
            call(0, "other", latency=0.1),
            call(None, latency=0.1, finish_reason="tool_calls"),
        ]
        for one in calls:
            one.run = index
        runs.append((tasks, calls))
    return runs


@pytest.fixture
def written(tmp_path):
    """The result, and the report of it."""
    runs = measured()
    result = swarm_of(*(run_of(tasks, calls, index) for index, (tasks, calls) in enumerate(runs)))
    result.plan = {"tasks": 5, "seed": 3}
    with RowFile(tmp_path / "rows.jsonl") as rows:
        for tasks, calls in runs:
            for row in tasks:
                rows.task(row.to_dict())
            for row in calls:
                rows.call(row.to_dict())
    result.rows = str(rows.path)
    record = record_of(result, judge(result, []), test=result.nodeid)
    records = [record, {**record, "nodeid": "test_x.py::test_y"}, record]
    write_report(tmp_path / "main.json", records, exit_status="fail", environment={}, cost={})
    return result, tmp_path / "main.json"


def test_a_report_gives_back_every_figure(written):
    result, path = written
    found = read_baseline(path).find("test_x.py::test_x")
    assert isinstance(found, Former)
    assert (found.file, found.verdict, found.result.plan) == ("main.json", "fail", result.plan)
    assert (found.result.model, found.result.gateway_kind, found.result.clock) == ("m", "live", "real")
    bounds = [parse_per_task("latency < 2s"), parse_per_task("ttft < 1s")]
    expected, read = SwarmMetrics(result, bounds).table(), SwarmMetrics(found.result, bounds).table()
    assert read == expected
    assert expected["ttft.p50"] == 0.3
    assert expected["goodput_rate"] == pytest.approx(1 / 3)
    assert found.figures["latency.p50"] == expected["latency.p50"]


def test_rows_give_back_the_same_runs(written):
    result, _ = written
    read = swarm_of(*runs_of_rows(result.rows))
    assert SwarmMetrics(read).table() == SwarmMetrics(result).table()


def test_swarms_of_one_test_are_told_apart_by_their_number(written):
    report = read_baseline(written[1])
    first, second = report.find("test_x.py::test_x", 1), report.find("test_x.py::test_x", 2)
    assert first is not second
    assert first is report.find("test_x.py::test_x")
    missing = report.find("test_x.py::test_x", 3)
    assert isinstance(missing, NoBaseline)
    assert missing.reason.startswith("main.json has no swarm number 3 in 'test_x.py::test_x'; write a new one")


def test_a_test_that_is_not_in_it_is_named_with_the_nearest(written):
    missing = read_baseline(written[1]).find("test_x.py::test_z")
    assert isinstance(missing, NoBaseline)
    assert missing.file == "main.json"
    assert missing.reason.startswith("main.json has no test 'test_x.py::test_z'; did you mean 'test_x.py::test_")


def test_a_task_that_was_run_again_keeps_its_calls_apart():
    tasks = [task(0, 0.0, 1.0, "failed"), task(0, 2.0, 3.0)]
    tasks[0].rescheduled, tasks[1].attempt = True, 1
    calls = [call(0, "server_error", sent=0.1, status=500), call(0, sent=2.1, output_tokens=7)]
    (run,) = runs_of(tasks, calls)
    assert list(run.tasks.calls) == [1, 1]
    assert list(run.tasks.output_tokens)[1] == 7


def test_rows_of_an_older_form_are_read(tmp_path):
    row = Task(0, 0, False, "passed", 0.0, 0.0, 1.0).to_dict()
    for name in ("attempt", "rescheduled", "error"):
        row.pop(name, None)
    older = Call(0, 0, gaps=array("d")).to_dict()
    for name in ("tpot", "cost_reason", "json"):
        older.pop(name)
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"task": {json.dumps(row)}}}\n{{"call": {json.dumps(older)}}}\n')
    (run,) = runs_of_rows(path)
    assert (len(run.tasks), len(run.calls)) == (1, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is no JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))"),
        ("\xff", "is no JSON ("),
        ("[]", "has no schema, not 'pytest-swarm/report/1'"),
        ('{"benchmarks": []}', "has no schema, not 'pytest-swarm/report/1'"),
        ('{"schema": "pytest-swarm/report/9"}', "has the schema 'pytest-swarm/report/9', not 'pytest-swarm/report/1'"),
        ('{"schema": "pytest-swarm/report/1", "created": null}', "is no whole report (missing or unknown: 'tests')"),
        ('{"schema": "pytest-swarm/report/1", "created": null, "tests": 3}', "is no whole report ("),
        (
            '{"schema": "pytest-swarm/report/1", "created": null, "tests": [{}]}',
            "is no whole report (missing or unknown: 'nodeid')",
        ),
        ('[{"attempt_list": [], "task": 0}]', "is no whole report (missing or unknown: 'run')"),
    ],
)
def test_a_file_that_is_no_report_is_named_with_what_is_wrong(tmp_path, text, expected):
    path = tmp_path / "main.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingError) as error:
        read_baseline(path)
    assert str(error.value).startswith(f"--swarm-baseline: {path} {expected}")
    assert "--swarm-json" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_report_of_rows_that_cannot_be_is_refused(written):
    text = written[1].read_text()
    for right, wrong in (('"status": "failed"', '"status": "tired"'), ('"start": 0.5', '"start": "soon"')):
        written[1].write_text(text.replace(right, wrong))
        with pytest.raises(SettingError, match="is no whole report"):
            read_baseline(written[1])


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(SettingError, match=r"main\.json cannot be read: No such file"):
        read_baseline(tmp_path / "main.json")
