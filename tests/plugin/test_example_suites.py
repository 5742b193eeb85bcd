"""The suites that people copy: they pass as they are, offline and anywhere, and each of them can fail."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SUITES = ROOT / "example_suites"
FILES = {path.name for path in SUITES.glob("test_*.py")}
SECONDS = 120.0
"""Bound of one run of pytest."""
BROKEN = "latency.p99 < 1ms"
NEED_OPENAI = ("test_my_own_agent.py", "test_openai_sdk.py")
AGENTS = 50
"""Tasks of `test_my_own_agent`."""


@dataclass(frozen=True)
class Finished:
    """One run of pytest over all suites."""

    exit_code: int
    output: str
    tests: list[dict[str, Any]]
    """Of the JSON report."""

    def test(self, name: str) -> dict[str, Any]:
        (found,) = (test for test in self.tests if test["nodeid"].endswith(f"::{name}"))
        return found


def run(directory: Path, report: Path, *arguments: str, python_path: Path | None = None) -> Finished:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--swarm-json={report}", *arguments],
        cwd=directory,
        env=dict(os.environ) if python_path is None else {**os.environ, "PYTHONPATH": str(python_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert report.exists(), done.stdout
    return Finished(done.returncode, done.stdout, json.loads(report.read_text(encoding="utf-8"))["tests"])


@pytest.fixture(scope="module")
def as_they_are(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run(ROOT, tmp_path_factory.mktemp("as_they_are") / "report.json", "example_suites")


@pytest.fixture
def with_a_level_that_cannot_hold(tmp_path: Path) -> Finished:
    """All suites, copied to where there is no ini file, beside their systems."""
    copied = tmp_path / "copied"
    shutil.copytree(SUITES, copied, ignore=shutil.ignore_patterns("__pycache__"))
    systems = f"--swarm-systems={copied / 'faulty_systems.toml'}"
    return run(copied, tmp_path / "report.json", systems, f"--swarm-sla={BROKEN}")


@pytest.fixture
def front() -> Iterator[str]:
    """The simulated gateway as a gateway of somebody's, over HTTP: its base URL."""
    command = [sys.executable, "-m", "pytest_swarm.cli", "gateway", "--port=0", "--speed=20"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], SECONDS)[0], "the gateway said nothing"
        yield process.stdout.readline().split(" at ")[1].split(" ")[0]
    finally:
        process.terminate()
        process.communicate()


def article_tables(output: str) -> dict[str, dict[str, tuple[float, float]]]:
    """By system and metric, what stands under `article` and `measured`."""
    tables: dict[str, dict[str, tuple[float, float]]] = {}
    rows: dict[str, tuple[float, float]] = {}
    for line in output.splitlines():
        if head := re.fullmatch(r"(\S+) +article +measured", line):
            rows = tables[head[1]] = {}
        elif row := re.fullmatch(r"(\S+) +([\d.,]+) +([\d.,]+) +[-+]\d+\.\d%  \S+", line):
            rows[row[1]] = (float(row[2].replace(",", "")), float(row[3].replace(",", "")))
    return tables


ARTICLE = {
    "gpt-6-agent": (1840, 4720, 8950, 42.3, 96, 0.082, 2100),
    "kimi-k2.5-swarm": (2310, 5180, 11420, 38.7, 94, 0.041, 1050),
}
SCALES = {
    "latency.p50": 1000,
    "latency.p95": 1000,
    "latency.p99": 1000,
    "steady_throughput": 1,
    "success_rate": 100,
    "cost_per_100": 1,
    "output_tokens.mean": 1,
}


def test_all_pass_from_the_repository_and_say_that_they_are_simulated(as_they_are: Finished) -> None:
    assert as_they_are.exit_code == 0, as_they_are.output
    assert {Path(test["nodeid"].partition("::")[0]).name for test in as_they_are.tests} == FILES
    for test in as_they_are.tests:
        assert test["sla"], f"{test['nodeid']} has no service level"
        assert (test["verdict"], test["gateway"]["kind"], test["clock"]) == ("pass", "simulated", "virtual")
    assert "SIMULATED gateway" in as_they_are.output

    (overload,) = as_they_are.test("test_overload_is_bounded")["runs"]
    assert overload["load"]["shed"] > 50 < overload["load"]["backlogged"]
    assert as_they_are.test("test_agents_join_and_leave")["in_flight_max"] == 30
    (again,) = as_they_are.test("test_failed_tasks_are_run_again")["runs"]
    assert again["load"]["rescheduled"] >= 1
    settled = [
        as_they_are.test(f"test_what_the_system_takes[{model}]")["runs"][0]["load"]["settled"]["limit"]
        for model in ("gpt-6-agent", "kimi-k2.5-swarm")
    ]
    assert settled[0] < 50 < 100 < settled[1]

    tables = article_tables(as_they_are.output)
    assert {model: tuple(article for article, _ in rows.values()) for model, rows in tables.items()} == ARTICLE
    for model, rows in tables.items():
        test = as_they_are.test(f"test_benchmark_two_systems[{model}]")
        assert (test["plan"]["tasks"], test["plan"]["concurrency"], test["plan"]["repeat"]) == (1000, 100, 5)
        for metric, scale in SCALES.items():
            article, measured = rows[metric]
            assert measured == pytest.approx(test["metrics"][metric] * scale, rel=2e-3)
            assert measured == pytest.approx(article, rel=0.05)


def test_copied_elsewhere_a_broken_level_fails_each_and_nothing_else_does(
    with_a_level_that_cannot_hold: Finished,
) -> None:
    finished = with_a_level_that_cannot_hold
    assert finished.exit_code == pytest.ExitCode.TESTS_FAILED, finished.output
    assert {test["nodeid"].partition("::")[0] for test in finished.tests} == FILES
    for test in finished.tests:
        broken = [line["expression"] for line in test["sla"] if line["verdict"] != "pass"]
        assert (test["verdict"], broken) == ("fail", [BROKEN]), test["nodeid"]
    # Judged is not failed: pytest itself must have failed every one.
    failed = {line.split()[1] for line in finished.output.splitlines() if line.startswith("FAILED ")}
    assert failed == {test["nodeid"] for test in finished.tests}


def test_without_openai_its_suites_are_skipped_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "no_openai.py").write_text("import sys\nsys.modules['openai'] = None\n")
    suites = [f"example_suites/{name}" for name in (*NEED_OPENAI, "test_roi.py")]
    finished = run(ROOT, tmp_path / "report.json", "-p", "no_openai", *suites, python_path=tmp_path)
    assert finished.exit_code == 0, finished.output
    assert {Path(test["nodeid"].partition("::")[0]).name for test in finished.tests} == {"test_roi.py"}
    assert re.search(r"\d passed, 2 skipped in", finished.output)
    assert "the package openai is missing: pip install openai" in finished.output


def test_what_uses_the_sdk_runs_against_any_gateway(tmp_path: Path, front: str) -> None:
    gateway = [f"--swarm-base-url={front}", "--swarm-model=gpt-6-agent"]
    suites = [f"example_suites/{name}" for name in NEED_OPENAI]
    finished = run(ROOT, tmp_path / "report.json", *gateway, *suites)
    assert finished.exit_code == 0, finished.output
    assert {test["clock"] for test in finished.tests} == {"real"}
    assert {call["source"] for test in finished.tests for call in test["calls"]} == {"simulated"}


def test_every_call_of_an_agent_that_knows_nothing_of_it_is_counted(as_they_are: Finished) -> None:
    test = as_they_are.test("test_my_own_agent")
    calls = test["calls"]
    assert len(calls) == test["metrics"]["calls"]
    assert {call["task"] for call in calls} == set(range(AGENTS))
    assert 2 * AGENTS <= len(calls) <= 6 * AGENTS
    # Only its answer is streamed.
    assert sum(call["ttft"] is not None for call in calls) == AGENTS
    assert all(call["output_tokens"] for call in calls)
    assert all(call["ttft"] is None for call in as_they_are.test("test_chat")["calls"])
    assert {call["json"] for call in as_they_are.test("test_parse")["calls"] if call["outcome"] == "ok"} == {"valid"}
