"""Whole runs: options of ours and of pytest, workers, JSON outputs, models side by side, swarms inside a test."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from tests.support.small_gateway import SmallGateway

CHAT = 'async def test_it(gateway, agent): await gateway.chat(f"hi {agent.index}")\n'
SCHEMA = '{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}'


def test_concurrency_alone_makes_as_many_tasks(suite: Any, report: Any) -> None:
    suite(f"@pytest.mark.swarm\n{CHAT}", "--swarm-concurrency=100").assert_outcomes(passed=1)
    test = report()["tests"][0]
    assert (test["plan"]["tasks"], test["plan"]["concurrency"]) == (100, 100)
    assert test["in_flight_max"] == 100
    assert len(test["calls"]) == 100


def test_concurrency_replaces_the_markers_and_leaves_its_tasks(suite: Any, report: Any) -> None:
    result = suite(f"@pytest.mark.swarm(tasks=20, concurrency=2)\n{CHAT}", "--swarm-concurrency=100")
    result.stdout.fnmatch_lines(["*20 in flight: tasks=20*"])
    assert report()["tests"][0]["metrics"]["tasks"] == 20
    assert report()["tests"][0]["in_flight_max"] == 20


def test_a_swarm_of_two_lanes_never_has_three_in_flight(suite: Any, report: Any) -> None:
    suite(f"@pytest.mark.swarm(tasks=9, concurrency=2)\n{CHAT}", model="slow").assert_outcomes(passed=1)
    assert report()["tests"][0]["in_flight_max"] == 2
    calls = report()["tests"][0]["calls"]
    assert min(call["latency"] for call in calls) >= 0.05


@pytest.mark.parametrize("workers", ["0", "2"])
def test_workers_report_the_same(suite: Any, report: Any, workers: str) -> None:
    code = "".join(
        f'@pytest.mark.swarm(4)\n@pytest.mark.sla("{level}")\n'
        f'async def test_{name}(gateway, agent): await gateway.chat(f"{{agent.index}}")\n'
        for name, level in {"good": "p99 < 30s", "bad": "p99 < 1ms", "unknown": "cost <= $1"}.items()
    )
    result = suite(code, "-n", workers, "-p", "xdist")
    result.assert_outcomes(passed=1, failed=2)
    tests = {test["nodeid"]: test for test in report()["tests"]}
    verdicts = {name.partition("::")[2]: test["verdict"] for name, test in tests.items()}
    assert verdicts == {"test_good": "pass", "test_bad": "fail", "test_unknown": "invalid"}
    assert [len(test["calls"]) for test in tests.values()] == [4, 4, 4]
    assert report()["exit"] == "fail"
    result.stdout.fnmatch_lines(["*LLM swarm*", "*test_it.py::test_*"])


def test_a_wrong_marker_is_one_error_under_workers_too(suite: Any) -> None:
    result = suite(f"@pytest.mark.swarm(concurency=2)\n{CHAT}", "-n", "2")
    assert result.ret != 0
    assert "did you mean 'concurrency'?" in result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in result.stdout.str()


def test_x_lf_k_and_collect_only_mean_what_they_always_mean(suite: Any, pytester: pytest.Pytester) -> None:
    bad = '@pytest.mark.swarm(2)\n@pytest.mark.sla("p99 < 1us")\n'.replace("1us", "0.001ms")
    code = (
        f"@pytest.mark.swarm(2)\nasync def test_a(gateway): await gateway.chat('a')\n{bad}{CHAT}@pytest.mark.swarm(2)\n"
    )
    code += "async def test_z(gateway): await gateway.chat('z')\n"
    suite(code, "-x").assert_outcomes(passed=1, failed=1)
    suite(code, "--lf").assert_outcomes(failed=1)
    suite(code, "-k", "test_z").assert_outcomes(passed=1, deselected=2)
    result = suite(code, "--collect-only", "-q")
    result.stdout.fnmatch_lines(
        ["test_it.py::test_a", "test_it.py::test_it", "test_it.py::test_z", "3 tests collected*"]
    )
    assert "LLM swarm" not in result.stdout.str()


def test_what_is_sent_is_what_was_asked_for(
    suite: Any, small_gateway: SmallGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "the-key-0123456789")
    code = """
async def test_it(gateway):
    await gateway.chat([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], max_tokens=7,
                       temperature=0, stream=True)
"""
    sent = len(small_gateway.requests)
    suite(code, "--swarm-api-key-env=MY_KEY", "--swarm-header=X-Team: blue").assert_outcomes(passed=1)
    body, headers = small_gateway.requests[sent], small_gateway.headers[sent]
    assert body == {
        "model": "echo",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "max_tokens": 7,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
    }
    lower = {name.lower(): value for name, value in headers.items()}
    assert lower["authorization"] == "Bearer the-key-0123456789"
    assert lower["x-team"] == "blue"
    assert lower["content-type"] == "application/json"


def test_secrets_are_in_no_output(suite: Any, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_API_KEY", "sk-swarm-0123456789abcdef")
    code = '@pytest.mark.swarm(2)\nasync def test_it(gateway): await gateway.chat("hi", model="status-503")\n'
    result = suite(code, "--swarm-header=X-Secret: hush-hush-hush", "-vv", "--showlocals", "--tb=long")
    result.assert_outcomes(failed=1)
    everything = result.stdout.str() + result.stderr.str() + (pytester.path / "out.json").read_text()
    assert "0123456789abcdef" not in everything
    assert "hush-hush" not in everything


JSON_CASES = [
    ("json", "", "pass", {"passed": 4}),
    ("notjson", "", "fail", {"json_invalid": 4}),
    ("wrongjson", "", "fail", {"schema_invalid": 4}),
    (
        "wrongjson",
        '@pytest.mark.sla("schema_valid_rate >= 0%", "json_valid_rate == 100%")',
        "pass",
        {"schema_invalid": 4},
    ),
    ("notjson", '@pytest.mark.sla("json_valid_rate >= 50%")', "fail", {"json_invalid": 4}),
]


@pytest.mark.parametrize(("model", "level", "verdict", "statuses"), JSON_CASES)
@pytest.mark.parametrize("reads", [True, False])
def test_json_outputs_are_checked(
    suite: Any, report: Any, model: str, level: str, verdict: str, statuses: dict[str, int], reads: bool
) -> None:
    use = "assert reply.json['a'] == 1" if reads else "pass"
    code = f"@pytest.mark.swarm(4)\n{level}\n@pytest.mark.json_output({SCHEMA})\nasync def test_it(gateway):\n"
    suite(f'{code}    reply = await gateway.chat("give")\n    {use}\n', model=model)
    test = report()["tests"][0]
    assert test["verdict"] == verdict, test["reasons"]
    counts: dict[str, int] = {}
    for task in test["tasks"]:
        counts[task["status"]] = counts.get(task["status"], 0) + 1
    assert counts == statuses


def test_a_schema_is_sent_unless_told_not_to(suite: Any, small_gateway: SmallGateway) -> None:
    sent = len(small_gateway.requests)
    code = f"""
@pytest.mark.json_output({SCHEMA})
async def test_it(gateway):
    await gateway.chat("give")
    await gateway.chat("give", response_format=None)
"""
    suite(code, model="json").assert_outcomes(passed=1)
    first, second = small_gateway.requests[sent:]
    assert first["response_format"]["type"] == "json_schema"
    assert first["response_format"]["json_schema"]["schema"]["required"] == ["a"]
    assert "response_format" not in second


def test_models_are_compared_side_by_side(suite: Any, report: Any) -> None:
    code = """
@pytest.mark.parametrize("model", ["echo", "slow"])
@pytest.mark.swarm(5)
async def test_it(gateway, model): await gateway.chat("hi", model=model)
"""
    result = suite(code)
    result.stdout.fnmatch_lines(["*LLM swarm: models side by side*", "*echo*slow*", "*p50*"])
    (compared,) = report()["comparison"]
    assert {row["metric"]: row["best"] for row in compared["rows"]}["latency.p50"] == "echo"
    assert [test["model"] for test in report()["tests"]] == ["echo", "slow"]


def test_costs_come_from_the_table_then_from_the_gateway(suite: Any, report: Any, pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml('[tool.pytest_swarm.prices.echo]\ninput = 1\noutput = "2"\n')
    code = """
@pytest.mark.parametrize("model", ["echo", "priced", "slow"])
@pytest.mark.swarm(2)
async def test_it(gateway, model): await gateway.chat("hi", model=model)
"""
    suite(code).assert_outcomes(passed=3)
    tests = {test["model"]: test for test in report()["tests"]}
    assert tests["echo"]["metrics"]["cost"] == pytest.approx(2 * (10 * 1 + 5 * 2) / 1e6)
    assert {call["cost_source"] for call in tests["echo"]["calls"]} == {"table"}
    assert tests["priced"]["metrics"]["cost"] == pytest.approx(0.002)
    assert {call["cost_source"] for call in tests["priced"]["calls"]} == {"reported"}
    assert tests["slow"]["metrics"]["cost"] is None
    assert report()["cost"]["total"] is None
    assert report()["cost"]["unpriced_calls"] == 2


def test_levels_of_the_command_line_apply_to_every_swarm(suite: Any) -> None:
    result = suite(f"@pytest.mark.swarm(2)\n{CHAT}", "--swarm-sla=p99 < 0.001ms", "--swarm-sla=tasks == 2")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*FAIL*latency.p99 < 0.001ms*"])


def test_repeat_takes_the_median_and_shows_every_run(suite: Any, report: Any) -> None:
    suite(f"@pytest.mark.swarm(4, repeat=3)\n{CHAT}").assert_outcomes(passed=1)
    test = report()["tests"][0]
    assert [run["index"] for run in test["runs"]] == [0, 1, 2]
    medians = sorted(run["metrics"]["latency.p50"] for run in test["runs"])
    assert test["metrics"]["latency.p50"] == medians[1]
    assert test["metrics"]["tasks"] == 12
    assert {call["run"] for call in test["calls"]} == {0, 1, 2}
    assert min(task["due"] for task in test["tasks"]) >= 0


def test_an_invalid_verdict_is_told_apart_everywhere(suite: Any, report: Any, pytester: pytest.Pytester) -> None:
    result = suite(f'@pytest.mark.swarm(2)\n@pytest.mark.sla("ttft.p50 < 1s")\n{CHAT}', "--junitxml=junit.xml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*swarm INVALID: *ttft*", "*INVALID*ttft.p50 < 1s*"])
    assert report()["tests"][0]["verdict"] == report()["exit"] == "invalid"
    case = ET.parse(pytester.path / "junit.xml").getroot().find(".//testcase")
    assert case is not None
    assert case.find("failure") is not None
    properties = {entry.get("name"): entry.get("value") for entry in case.iter("property")}
    assert properties["swarm.verdict"] == "invalid"


SWARM_FIXTURE = """
@pytest.mark.asyncio
async def test_it(swarm):
    async def body(agent, gateway):
        await gateway.chat(f"{agent.index}")
    async def slow(gateway):
        await gateway.chat("hi", model="slow")
    few = await swarm.run(body, tasks=4, concurrency=2)
    many = await swarm.run(slow, tasks=6)
    assert few.judge("p99 < 30s", "tasks == 4")
    assert not many.judge("p50 < 50ms")
    assert many["latency.p50"] >= 0.05 and few["ttft.p50"] is None
    with pytest.raises(Exception, match="did you mean"): many["latncy.p50"]
    with pytest.raises(Exception, match="no such argument"): await swarm.run(body, taks=1)
    with pytest.raises(Exception, match="coroutine function"): await swarm.run(print)
"""


def test_swarms_inside_a_test_are_judged_by_hand_and_reported(suite: Any, report: Any) -> None:
    suite(SWARM_FIXTURE).assert_outcomes(passed=1)
    assert [test["metrics"]["calls"] for test in report()["tests"]] == [4, 6]


def test_without_asyncio_an_async_swarm_is_refused_in_a_sentence(suite: Any) -> None:
    result = suite(f"@pytest.mark.swarm(2)\n{CHAT}", "-p", "no:asyncio")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["swarm: an async test needs pytest-asyncio*"])


def test_colour_is_for_terminals_only(suite: Any) -> None:
    plain = suite(f"@pytest.mark.swarm(2)\n{CHAT}")
    assert "\x1b[" not in plain.stdout.str()
    coloured = suite(f"@pytest.mark.swarm(2)\n{CHAT}", "--color=yes")
    assert re.search(r"\x1b\[\d+m.*PASS", coloured.stdout.str())


def test_a_run_without_a_swarm_says_nothing(suite: Any) -> None:
    result = suite("def test_plain(): pass\n")
    result.assert_outcomes(passed=1)
    assert "swarm:" not in result.stdout.str()
