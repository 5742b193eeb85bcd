"""Swarms as entries of pytest-benchmark: its table, its files, its comparisons and its options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.session import BenchmarkSession

CODE = """
@pytest.mark.parametrize("model", ["gpt-6-agent"])
@pytest.mark.swarm(tasks=40, concurrency=20)
@pytest.mark.sla("success_rate >= 50%")
async def test_good(gateway, model): await gateway.chat("hi", stream=True)

@pytest.mark.swarm(20)
@pytest.mark.sla("p50 < 1ms", "success_rate >= 50%")
async def test_bad(gateway): await gateway.chat("hi")

@pytest.mark.swarm(20)
@pytest.mark.sla("ttft.p50 < 1s", "success_rate >= 50%")
async def test_unknown(gateway): await gateway.chat("hi")

@pytest.mark.asyncio
async def test_inside(swarm):
    async def body(gateway): await gateway.chat("hi")
    for _ in range(2):
        (await swarm.run(body, tasks=20)).judge("success_rate >= 50%")

@pytest.mark.asyncio
async def test_one_call(gateway): assert gateway

def test_plain(): pass

def test_micro(benchmark): benchmark.pedantic(lambda: None, rounds=3)
"""
GOOD = "test_it.py::test_good[gpt-6-agent]"


@pytest.fixture
def bench(suite: Any) -> Any:
    def run(*options: str, code: str = CODE) -> Any:
        return suite(code, *options, gateway=None)

    return run


def saved(path: Path) -> dict[str, Any]:
    return {entry["fullname"]: entry for entry in json.loads(path.read_text())["benchmarks"]}


def test_samples_are_entries_of_the_saved_file_where_the_levels_were_met(
    bench: Any, report: Any, pytester: pytest.Pytester
) -> None:
    result = bench("--benchmark-json=bench.json")
    result.assert_outcomes(passed=5, failed=2)
    result.stdout.fnmatch_lines(
        ["*benchmark 'swarm latency (SIMULATED)': 5 tests*", "*benchmark 'swarm ttft (SIMULATED)': 1 tests*"]
    )
    # What failed or could not be judged is in the table, and in no file.
    result.stdout.fnmatch_lines(["test_bad latency *"])
    entries = saved(pytester.path / "bench.json")
    assert entries.keys() == {
        f"{GOOD} latency",
        f"{GOOD} ttft",
        "test_it.py::test_inside latency #1",
        "test_it.py::test_inside latency #2",
        "test_it.py::test_micro",
    }
    good = entries[f"{GOOD} latency"]
    test = next(test for test in report()["tests"] if test["nodeid"] == GOOD)
    taken = sorted(task["end"] - task["start"] for task in test["tasks"] if task["status"] == "passed")
    assert sorted(good["stats"]["data"]) == pytest.approx(taken)
    assert (good["name"], good["param"]) == ("test_good[gpt-6-agent] latency", "gpt-6-agent")
    about = good["extra_info"]["swarm"]
    assert about["p99"] == test["metrics"]["latency.p99"]
    assert about["plan"] == test["plan"]
    expected = {
        "tasks": 40,
        "concurrency": 20,
        "seed": 0,
        "model": "gpt-6-agent",
        "gateway": "simulated",
        "clock": "virtual",
        "simulated": "simulated gateway, virtual time",
        "verdict": "pass",
        "metric": "latency",
    }
    assert {name: about[name] for name in expected} == expected
    assert entries[f"{GOOD} ttft"]["extra_info"]["swarm"]["p50"] == test["metrics"]["ttft.p50"]


def test_nothing_is_added_to_a_run_that_does_not_ask(bench: Any) -> None:
    code = CODE.replace("def test_micro(benchmark): benchmark.pedantic(lambda: None, rounds=3)", "")
    result = bench(code=code)
    result.stdout.no_fnmatch_line("*benchmark '*")
    result = bench("-o", "swarm_benchmark=true", code=code)
    result.stdout.fnmatch_lines(["*benchmark 'swarm latency (SIMULATED)': 5 tests*"])


def test_only_skip_and_disable_mean_what_they_always_mean(bench: Any, pytester: pytest.Pytester) -> None:
    bench("--benchmark-only").assert_outcomes(passed=3, failed=2, skipped=2)
    bench("--benchmark-skip").assert_outcomes(passed=2, skipped=5)
    bench("--benchmark-skip", "-n", "2").assert_outcomes(passed=2, skipped=5)
    result = bench("--benchmark-disable", "--benchmark-json=bench.json")
    result.assert_outcomes(passed=5, failed=2)
    assert "swarm latency" not in result.stdout.str()
    assert not (pytester.path / "bench.json").exists()


def test_a_comparison_tells_slowdowns_and_what_was_not_the_same(bench: Any, pytester: pytest.Pytester) -> None:
    bench("-k", "good", "--benchmark-save=main").assert_outcomes(passed=1)
    (path,) = (pytester.path / ".benchmarks").rglob("*_main.json")
    compare = ("-k", "good", "--benchmark-compare", "--benchmark-compare-fail=median:5%")
    result = bench(*compare)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["test_good?gpt-6-agent? latency (NOW) *"])
    assert "is not what it was" not in result.stdout.str()
    result = bench(*compare, "--swarm-seed=4", "--swarm-concurrency=30")
    told = "swarm: test_it.py::test_good?gpt-6-agent? latency is not what it was in 0001_main.json: "
    result.stdout.fnmatch_lines([f"{told}concurrency (20 there, 30 here), seed (0 there, 4 here)"])
    text = json.loads(path.read_text())
    for entry in text["benchmarks"]:
        entry["stats"] = {
            name: value / 2 if isinstance(value, float) else value for name, value in entry["stats"].items()
        }
    path.write_text(json.dumps(text))
    result = bench(*compare)
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*Performance has regressed*"])


def test_a_capacity_search_is_no_entry(bench: Any) -> None:
    code = """
@pytest.mark.swarm(tasks=20)
@pytest.mark.swarm_search("concurrency", low=1, high=2, sla=["success_rate >= 10%"])
async def test_load(gateway): await gateway.chat("hi")
"""
    bench("--benchmark-enable", code=code).stdout.no_fnmatch_line("*benchmark '*")


def test_a_group_of_its_own_is_kept(bench: Any) -> None:
    code = """
@pytest.mark.swarm(20)
@pytest.mark.benchmark(group="chat")
@pytest.mark.sla("success_rate >= 50%")
async def test_good(gateway): await gateway.chat("hi")
"""
    bench("--benchmark-enable", code=code).stdout.fnmatch_lines(["*benchmark 'chat (SIMULATED)': 1 tests*"])


@pytest.mark.parametrize("options", [("-p", "no:benchmark", "-o", "swarm_benchmark=true"), ("-n", "2")])
def test_without_pytest_benchmark_and_with_workers_there_is_nothing(bench: Any, options: tuple[str, ...]) -> None:
    code = CODE.replace("def test_micro(benchmark): benchmark.pedantic(lambda: None, rounds=3)", "")
    result = bench(*options, code=code)
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.no_fnmatch_line("*benchmark '*")
    if hasattr(BenchmarkSession, "note_xdist_benchmark"):
        # Before, it said so of every run with workers.
        result.stderr.no_fnmatch_line("*Benchmarks are automatically disabled*")
