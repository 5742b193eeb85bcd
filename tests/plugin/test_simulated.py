"""Without a gateway: simulated, on virtual time, and the same to the last byte."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

CODE = """
@pytest.mark.parametrize("model", ["gpt-6-agent", "kimi-k2.5-swarm"])
@pytest.mark.swarm(tasks=60, concurrency=30, repeat=2, retries=1)
@pytest.mark.sla("success_rate >= 50%")
async def test_it(gateway, agent, model):
    await gateway.chat(f"question {agent.rng.random()}", model=model, stream=bool(agent.index % 2))

@pytest.mark.swarm(tasks=20)
@pytest.mark.sla("success_rate >= 50%")
async def test_other(gateway): await gateway.chat("hi")
"""


def without_time_of_day(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text())
    del report["created"]
    return report


def test_the_same_seed_gives_the_same_report(suite: Any, pytester: pytest.Pytester) -> None:
    out = pytester.path / "out.json"
    reports = []
    for options in ([], [], ["-k", "test_other or kimi"], ["--swarm-seed=7"]):
        suite(CODE, *options, gateway=None)
        reports.append(without_time_of_day(out))
    first, second, chosen, reseeded = reports
    assert json.dumps(first) == json.dumps(second)
    by_id = {test["nodeid"]: test for test in first["tests"]}
    assert [test["nodeid"] for test in chosen["tests"]] == [name for name in by_id if "gpt" not in name]
    for test in chosen["tests"]:
        assert test == by_id[test["nodeid"]]
    assert reseeded["tests"] != first["tests"]
    runs = first["tests"][0]["runs"]
    assert runs[0]["metrics"] != runs[1]["metrics"]


def test_minutes_of_virtual_time_pass_in_a_moment_and_everything_says_simulated(suite: Any, report: Any) -> None:
    began = time.monotonic()
    result = suite(CODE, gateway=None)
    assert time.monotonic() - began < 20
    result.stdout.fnmatch_lines(
        ["swarm: 3 swarm tests, SIMULATED gateway*", "*SIMULATED: simulated gateway, virtual time*"]
    )
    test = report()["tests"][0]
    assert test["gateway"] == {"kind": "simulated", "base_url": None}
    assert test["clock"] == "virtual"
    assert {call["source"] for call in test["calls"]} == {"simulated"}
    assert max(task["end"] for task in test["tasks"]) > 1.0


def test_a_sync_body_takes_real_time(suite: Any, report: Any) -> None:
    code = '@pytest.mark.swarm(4)\ndef test_it(gateway): assert gateway.chat("hi", max_tokens=5).text\n'
    suite(code, gateway=None).assert_outcomes(passed=1)
    assert report()["tests"][0]["clock"] == "real"
    suite(code, "--swarm-clock=virtual", gateway=None).stdout.fnmatch_lines(
        ["swarm: --swarm-clock virtual needs an async test: a sync body runs in threads, on the real clock"]
    )


def test_the_real_clock_can_be_asked_for(suite: Any, report: Any) -> None:
    code = '@pytest.mark.swarm(4)\nasync def test_it(gateway): await gateway.chat("hi", max_tokens=5)\n'
    suite(code, "--swarm-clock=real", gateway=None).assert_outcomes(passed=1)
    assert report()["tests"][0]["clock"] == "real"


def test_a_virtual_clock_is_of_no_use_with_a_real_gateway(suite: Any) -> None:
    result = suite("@pytest.mark.swarm(4)\nasync def test_it(gateway): pass\n", "--swarm-clock=virtual")
    result.stdout.fnmatch_lines(["swarm: --swarm-clock virtual needs the simulated gateway or a replay*"])


def test_an_unknown_system_is_a_collection_error_that_lists_them(suite: Any) -> None:
    code = '@pytest.mark.swarm(4, model="gpt-6-agnt")\nasync def test_it(gateway): pass\n'
    result = suite(code, gateway=None)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        ["test_it.py::test_it: no simulated system is called 'gpt-6-agnt'; there are*did you mean 'gpt-6-agent'?"]
    )


def test_systems_of_the_user(suite: Any, report: Any, pytester: pytest.Pytester) -> None:
    (pytester.path / "mine.toml").write_text(
        '[[system]]\nname = "tiny"\nextends = "gpt-6-agent"\n[system.capacity]\nworkers = 1\n'
        "[system.faults]\ndoomed_rate = 0.0\n"
    )
    code = '@pytest.mark.swarm(8, model="tiny")\nasync def test_it(gateway): await gateway.chat("hi")\n'
    suite(code, "--swarm-systems=mine.toml", gateway=None).assert_outcomes(passed=1)
    starts = sorted(call["latency"] for call in report()["tests"][0]["calls"])
    assert starts[-1] > 4 * starts[0]
    assert report()["tests"][0]["model"] == "tiny"


REACH = """
import aiohttp
@pytest.mark.swarm(2)
async def test_it(gateway):
    async with aiohttp.ClientSession() as session:
        await session.get("http://somewhere.invalid/")
"""


def test_a_simulated_run_reaches_nothing_beyond_this_machine(suite: Any, pytester: pytest.Pytester) -> None:
    result = suite(REACH, gateway=None)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*a request to somewhere.invalid was stopped: this run is simulated*"])
    allowed = suite(REACH, "-o", "swarm_hosts=somewhere.invalid", gateway=None)
    assert "was stopped" not in allowed.stdout.str()
    allowed.stdout.fnmatch_lines(["*ClientConnector*"])


def test_a_run_that_can_never_end_is_ended_and_says_so(suite: Any, report: Any) -> None:
    code = """
import pytest_swarm.clock as clock
clock.GRACE_SECONDS = 0.1
@pytest.mark.swarm(3)
async def test_it(gateway): await asyncio.Event().wait()
"""
    suite(code, gateway=None).assert_outcomes(failed=1)
    test = report()["tests"][0]
    assert test["verdict"] == "invalid"
    assert "every task waits" in test["reasons"][0]
    assert {task["status"] for task in test["tasks"]} == {"cancelled"}
