"""Whole runs against a former report: from the option to the verdict, the summary and the JSON report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

SCHEMA = {"$defs": json.loads((Path(__file__).parents[1] / "unit/reports/report.schema.json").read_text())["$defs"]}
CODE = """
@pytest.mark.swarm(tasks=200, concurrency=20)
@pytest.mark.sla("success_rate >= 80%")
async def test_it(gateway): await gateway.chat("hi", stream=True)
"""
LINE = "--swarm-sla=p50 <= baseline * 1.10"


@pytest.fixture(scope="module")
def first_report() -> list[str]:
    """The text of the report of a first run, once there was one."""
    return []


@pytest.fixture
def main(suite: Any, pytester: pytest.Pytester, first_report: list[str]) -> Path:
    """The report of a first run on the simulated gateway."""
    if not first_report:
        suite(CODE, gateway=None).assert_outcomes(passed=1)
        first_report.append((pytester.path / "out.json").read_text())
    path = pytester.path / "main.json"
    path.write_text(first_report[0])
    return path


def slower(path: Path, factor: float, **changed: Any) -> None:
    """Make the report at `path` one of a system that took `factor` times as long."""
    report = json.loads(path.read_text())
    for test in report["tests"]:
        test.update(changed)
        for one in test["tasks"]:
            one["end"] = one["start"] + (one["end"] - one["start"]) * factor
    path.write_text(json.dumps(report))


def test_a_run_is_shown_beside_its_baseline(suite: Any, report: Any, main: Path) -> None:
    result = suite(CODE, "--swarm-baseline=main.json", "--swarm-seed=5", gateway=None)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "  baseline  main.json of 20*Z",
            "*then*now*change*chance",
            "            latency.p50 * p = *",
            "            ttft.p50 * p = *",
            "            throughput * -",
            "            all of latency * p = *",
            "  note      not the same as in the baseline main.json: seed (0 there, 5 here)",
        ]
    )
    (test,) = report()["tests"]
    compared = test["baseline"]
    jsonschema.validate(compared, {**SCHEMA, "$ref": "#/$defs/baseline"})
    assert (compared["file"], compared["verdict"], compared["missing"]) == ("main.json", "pass", None)
    assert compared["metrics"]["latency.p50"]["now"] == test["metrics"]["latency.p50"]
    assert compared["distributions"]["ttft"]["values"] > 150


def test_the_same_run_is_the_same(suite: Any, report: Any, main: Path) -> None:
    suite(CODE, "--swarm-baseline=main.json", LINE, gateway=None).assert_outcomes(passed=1)
    (test,) = report()["tests"]
    assert {found["change"] for found in test["baseline"]["metrics"].values()} <= {0, None}
    assert test["baseline"]["differences"] == []
    assert test["sla"][1]["threshold"] == pytest.approx(1.1 * test["metrics"]["latency.p50"])


def test_a_regression_fails_in_a_worker_too(suite: Any, report: Any, main: Path) -> None:
    slower(main, 0.5)
    for options in ((), ("-n", "2")):
        result = suite(CODE, "--swarm-baseline=main.json", LINE, *options, gateway=None)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(
            ["*swarm FAILED: latency.p50 <= baseline * 1.10: it is *, 2.00 times the baseline of * (p = 0.00*)"]
        )
        (test,) = report()["tests"]
        assert test["verdict"] == "fail"
        assert test["baseline"]["metrics"]["latency.p50"]["significant"] is True


def test_a_line_without_a_baseline_is_invalid_and_says_what_to_do(suite: Any, report: Any) -> None:
    result = suite(CODE, LINE, gateway=None)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*swarm INVALID: latency.p50 <= baseline * 1.10: there is no baseline to compare with; write one with *"]
    )
    (test,) = report()["tests"]
    assert (test["verdict"], test["baseline"]) == ("invalid", None)


def test_a_test_that_the_baseline_lacks_is_noted_and_its_line_invalid(suite: Any, report: Any, main: Path) -> None:
    code = CODE + CODE.replace("test_it", "test_new")
    suite(code, "--swarm-baseline=main.json", LINE, gateway=None).assert_outcomes(passed=1, failed=1)
    new = report()["tests"][1]
    assert new["verdict"] == "invalid"
    missing = "main.json has no test 'test_it.py::test_new'; did you mean 'test_it.py::test_it'?; write a new one"
    assert new["reasons"][0].startswith(f"latency.p50 <= baseline * 1.10: {missing}")
    assert new["baseline"]["missing"].startswith(missing)
    result = suite(code, "--swarm-baseline=main.json", gateway=None)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["  baseline  main.json does not have this test"])


def test_another_gateway_and_a_failed_baseline_are_noted(suite: Any, report: Any, main: Path) -> None:
    slower(main, 1.0, verdict="fail", model="echo")
    suite(CODE.replace("tasks=200", "tasks=20"), "--swarm-baseline=main.json").assert_outcomes(passed=1)
    notes = report()["tests"][0]["notes"]
    (unlike,) = [note for note in notes if note.startswith("not the same as in the baseline main.json")]
    for told in (
        "gateway (simulated there, live here)",
        "clock (virtual there, real here)",
        "tasks (200 there, 20 here)",
    ):
        assert told in unlike
    assert "the baseline's own verdict is fail" in notes


def test_swarms_inside_a_test_have_baselines_of_their_own(suite: Any, report: Any, pytester: pytest.Pytester) -> None:
    code = """
@pytest.mark.asyncio
async def test_it(swarm):
    async def body(gateway): await gateway.chat("hi")
    for tasks in (60, 90):
        (await swarm.run(body, tasks=tasks)).judge("p50 <= baseline * 1.10", "success_rate >= 50%")
"""
    suite(code, gateway=None)
    (pytester.path / "out.json").rename(pytester.path / "main.json")
    suite(code, "--swarm-baseline=main.json", gateway=None)
    for test in report()["tests"]:
        assert test["verdict"] == "pass", test["reasons"]
        assert test["baseline"]["differences"] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "--swarm-baseline: 'main.json' does not exist; name a file that does"),
        ("{", "--swarm-baseline: */main.json is no JSON (*); name a file that --swarm-json wrote"),
        ("{}", "--swarm-baseline: */main.json has no schema, not 'pytest-swarm/report/1'; name a file*"),
    ],
)
def test_a_file_that_is_no_report_is_a_usage_error(
    suite: Any, pytester: pytest.Pytester, text: str | None, expected: str
) -> None:
    if text is not None:
        (pytester.path / "main.json").write_text(text)
    result = suite(CODE, "--swarm-baseline=main.json", gateway=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: swarm: {expected}"])
