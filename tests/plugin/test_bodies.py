"""What a test body may do, and what comes of it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.support.small_gateway import SmallGateway


def outcomes(result: pytest.RunResult, **expected: int) -> None:
    result.assert_outcomes(**expected)


def statuses(report: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for task in report()["tests"][0]["tasks"]:
        counts[task["status"]] = counts.get(task["status"], 0) + 1
    return counts


PASSING = {
    "plain": """
@pytest.mark.swarm(5)
async def test_it(gateway): assert (await gateway.chat("hi")).text == "hi"
""",
    "method": """
class TestIt:
    @pytest.mark.swarm(5)
    async def test_it(self, gateway): assert (await gateway.chat("hi")).text == "hi"
""",
    "class marker": """
@pytest.mark.swarm(5)
class TestIt:
    async def test_it(self, gateway): assert (await gateway.chat("hi")).text == "hi"
""",
    "module marker": """
pytestmark = pytest.mark.swarm(5)
async def test_it(gateway): assert (await gateway.chat("hi")).text == "hi"
""",
    "session loop": """
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.swarm(5)
async def test_it(gateway): assert (await gateway.chat("hi")).text == "hi"
""",
    "module loop": """
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.swarm(5)
async def test_it(gateway): assert (await gateway.chat("hi")).text == "hi"
""",
    "anyio": """
@pytest.fixture
def anyio_backend(): return "asyncio"
@pytest.mark.anyio
@pytest.mark.swarm(5)
async def test_it(gateway): assert (await gateway.chat("hi")).text == "hi"
""",
    "sync": """
@pytest.mark.swarm(5)
def test_it(gateway, agent):
    assert gateway.chat(f"hi {agent.index}").text == f"hi {agent.index}"
    assert "".join(gateway.stream("abcdef")) == "abcdef"
""",
    "parametrized": """
@pytest.mark.parametrize("word", ["hi"])
@pytest.mark.swarm(5)
async def test_it(gateway, word): assert (await gateway.chat(word)).text == word
""",
    "marker in param": """
@pytest.mark.parametrize("word", [pytest.param("hi", marks=[pytest.mark.swarm(5), pytest.mark.asyncio])])
async def test_it(gateway, word): assert (await gateway.chat(word)).text == word
""",
    "stream": """
@pytest.mark.swarm(5)
async def test_it(gateway):
    assert "".join([piece async for piece in gateway.stream("abcdef")]) == "abcdef"
""",
    "own names": """
@pytest.mark.swarm(5)
async def test_it(swarm_gateway, swarm_agent):
    assert (await swarm_gateway.chat(str(swarm_agent.index))).text == str(swarm_agent.index)
""",
}


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_every_form_of_a_test_runs_as_a_swarm(suite: Any, report: Any, pytester: pytest.Pytester, mode: str) -> None:
    for number, code in enumerate(PASSING.values()):
        pytester.makepyfile(**{f"test_form_{number}": f"import pytest\n{code}"})
    outcomes(suite("", "-o", f"asyncio_mode={mode}"), passed=len(PASSING))
    tests = report()["tests"]
    assert len(tests) == len(PASSING)
    for test in tests:
        assert [task["status"] for task in test["tasks"]] == ["passed"] * 5, test["nodeid"]


def test_single_call_without_marker_is_one_measured_task(suite: Any, report: Any) -> None:
    outcomes(suite('async def test_it(gateway): await gateway.chat("hi")\n', "--swarm-concurrency=7"), passed=1)
    assert statuses(report) == {"passed": 1}


def test_a_gateway_fixture_of_the_user_wins(suite: Any, pytester: pytest.Pytester) -> None:
    code = """
@pytest.fixture
def gateway(): return "mine"
@pytest.mark.swarm(3)
async def test_swarm(gateway): assert gateway == "mine"
@pytest.mark.asyncio
async def test_plain(gateway): assert gateway == "mine"
"""
    outcomes(suite(code), passed=2)


def test_fixtures_may_ask_the_gateway_outside_of_any_task(suite: Any, report: Any) -> None:
    code = """
import pytest_asyncio
@pytest_asyncio.fixture
async def greeting(gateway): return (await gateway.chat("outside")).text
@pytest.mark.swarm(2)
async def test_it(greeting, gateway): assert greeting == "outside"; await gateway.chat("inside")
"""
    outcomes(suite(code), passed=1)
    assert sorted(str(call["task"]) for call in report()["tests"][0]["calls"]) == ["0", "1", "None"]


FAILING = {
    "assertion": ("assert agent.index != 1", "failed", "AssertionError"),
    "pytest.fail": ('if agent.index == 1: pytest.fail("boom")', "failed", "boom"),
    "self-cancel": (
        "if agent.index == 1: asyncio.current_task().cancel()\n    await asyncio.sleep(0)",
        "failed",
        "cancelled its own task",
    ),
    "SystemExit": ("if agent.index == 1: sys.exit(3)", "failed", "SystemExit"),
    "return value": ("return 5 if agent.index == 1 else None", "failed", "returned int"),
    "hang": ("if agent.index == 1: await asyncio.sleep(60)", "timeout", "task_timeout=0.3"),
    "call failed": ('if agent.index == 1: await gateway.chat("x", model="status-503")', "failed", "server_error"),
}


@pytest.mark.parametrize("way", FAILING)
def test_one_task_that_fails_fails_the_test_and_is_counted(suite: Any, report: Any, way: str) -> None:
    code, status, text = FAILING[way]
    result = suite(f"@pytest.mark.swarm(5, task_timeout=0.3)\nasync def test_it(agent, gateway):\n    {code}\n")
    outcomes(result, failed=1)
    assert statuses(report) == {"passed": 4, status: 1}
    result.stdout.fnmatch_lines(["*FAILED*1 of 5 tasks*"])
    assert text in result.stdout.str()


def test_a_body_that_will_not_be_cancelled_is_left_behind(suite: Any, report: Any) -> None:
    code = """
import pytest_swarm.swarm.runner as runner
runner.GRACE_SECONDS = 0.2
@pytest.mark.swarm(2, task_timeout=0.2)
async def test_it(agent):
    for _ in range(20 if agent.index else 0):
        try: await asyncio.sleep(0.2)
        except asyncio.CancelledError: pass
"""
    outcomes(suite(code), failed=1)
    assert statuses(report) == {"passed": 1, "timeout": 1}


def test_a_hung_sync_body_does_not_hang_the_run(suite: Any, report: Any) -> None:
    code = """
import time
@pytest.mark.swarm(4, 2, task_timeout=0.3)
def test_it(agent):
    if agent.index == 1: time.sleep(100)
"""
    began = time.monotonic()
    result = suite(code)
    outcomes(result, failed=1)
    assert time.monotonic() - began < 100
    result.stdout.fnmatch_lines(
        ["swarm FAILED: 1 of 4 tasks did not pass*", "E   still running after task_timeout=0.3 s"]
    )
    assert statuses(report) == {"passed": 3, "timeout": 1}


def test_skip_in_one_task_leaves_the_others(suite: Any, report: Any) -> None:
    code = '@pytest.mark.swarm(4)\nasync def test_it(agent):\n    if agent.index == 1: pytest.skip("not me")\n'
    outcomes(suite(code), passed=1)
    assert report()["tests"][0]["metrics"]["success_rate"] == 1.0
    assert statuses(report) == {"passed": 3, "skipped": 1}


def test_skip_in_all_tasks_skips_the_test(suite: Any, report: Any) -> None:
    result = suite('@pytest.mark.swarm(4)\nasync def test_it(agent): pytest.skip("nobody")\n', "-rs")
    outcomes(result, skipped=1)
    result.stdout.fnmatch_lines(["*SKIPPED*nobody*"])
    assert report()["tests"][0]["verdict"] == "skipped"


def test_pytest_exit_ends_the_session_with_what_was_measured(suite: Any, report: Any) -> None:
    code = """
@pytest.mark.swarm(4, 1)
async def test_it(agent, gateway):
    await gateway.chat("hi")
    if agent.index == 2: pytest.exit("enough", returncode=7)
async def test_never(gateway): pass
"""
    result = suite(code)
    assert result.ret == 7
    result.stdout.fnmatch_lines(["*enough*"])
    assert report()["exit"] == "interrupted"
    assert len(report()["tests"][0]["calls"]) == 3


def test_xfail_is_honoured(suite: Any) -> None:
    code = """
@pytest.mark.xfail(raises=ZeroDivisionError, strict=True)
@pytest.mark.swarm(3)
async def test_raises(agent): 1 / 0
@pytest.mark.xfail(raises=KeyError, strict=True)
@pytest.mark.swarm(3)
async def test_raises_another(agent): 1 / 0
@pytest.mark.xfail(strict=True)
@pytest.mark.swarm(3)
async def test_passes(agent): pass
@pytest.mark.swarm(3)
async def test_imperative(agent): pytest.xfail("known")
@pytest.mark.xfail
@pytest.mark.swarm(3)
@pytest.mark.sla("success_rate >= 100%")
async def test_level(agent): assert agent.index
"""
    outcomes(suite(code), xfailed=3, failed=2)


def test_shared_fixtures_are_warned_about(suite: Any) -> None:
    result = suite("@pytest.mark.swarm(2)\nasync def test_it(monkeypatch, capsys): pass\n")
    outcomes(result, passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*agents of a swarm share capsys, monkeypatch*"])


REFUSED = {
    "unittest": (
        "import unittest\nclass TestIt(unittest.TestCase):\n    @pytest.mark.swarm(2)\n    def test_it(self): pass\n",
        "unittest.TestCase",
    ),
    "hypothesis": (
        (
            "import hypothesis, hypothesis.strategies as st\n@pytest.mark.swarm(2)\n"
            "@hypothesis.given(st.integers())\ndef test_it(x): pass\n"
        ),
        "hypothesis",
    ),
    "generator": ("@pytest.mark.swarm(2)\nasync def test_it(agent):\n    yield\n", "generator"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_items_that_cannot_be_swarms_are_refused_at_collection(suite: Any, kind: str) -> None:
    code, word = REFUSED[kind]
    result = suite(code)
    assert result.ret in {pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR}
    assert re.search(
        rf"test_it.*@pytest.mark.swarm needs a plain test function.*{word}", str(result.stdout) + str(result.stderr)
    )


def test_retries_of_one_call_are_attempts(suite: Any, report: Any) -> None:
    code = '@pytest.mark.swarm(6, 1, retries=3)\nasync def test_it(gateway): await gateway.chat("hi", model="flaky")\n'
    outcomes(suite(code), passed=1)
    metrics = report()["tests"][0]["metrics"]
    assert metrics["calls"] == 6
    assert metrics["attempts"] == 6 + metrics["retries"] > 6


def test_own_numbers_and_checks_can_be_judged(suite: Any, report: Any) -> None:
    code = """
@pytest.mark.swarm(10)
@pytest.mark.sla("my.hops.p50 == 4.5", "my.hops.max <= 9", "check.even == 50%")
async def test_it(agent):
    agent.record("hops", agent.index)
    agent.check("even", agent.index % 2 == 0)
"""
    outcomes(suite(code), passed=1)
    assert report()["tests"][0]["verdict"] == "pass"


def test_the_generator_of_an_agent_depends_on_seed_and_index_only(suite: Any, report: Any) -> None:
    code = """
@pytest.mark.swarm(3, repeat=2, seed=5)
async def test_it(agent): agent.record("draw", agent.rng.random())
"""
    for _ in range(2):
        outcomes(suite(code), passed=1)
    runs = report()["tests"][0]["runs"]
    assert runs[0]["metrics"]["my.draw.mean"] == runs[1]["metrics"]["my.draw.mean"]


def test_warmup_is_in_no_figure(suite: Any, report: Any) -> None:
    code = """
@pytest.mark.swarm(4, 2, warmup=3)
async def test_it(agent, gateway):
    await gateway.chat("hi")
    assert not agent.warmup or agent.index < 3
"""
    outcomes(suite(code), passed=1)
    test = report()["tests"][0]
    assert test["metrics"]["tasks"] == 4
    assert test["metrics"]["calls"] == 4
    assert sum(task["warmup"] for task in test["tasks"]) == 3
    assert sum(call["warmup"] for call in test["calls"]) == 3


INTERRUPTED = """
import asyncio, pytest
@pytest.mark.swarm(1000, 4)
async def test_it(gateway):
    await gateway.chat("hi")
    await asyncio.sleep(0.05)
"""


def interrupted_run(pytester: pytest.Pytester, gateway: SmallGateway, sig: signal.Signals, code: str) -> str:
    pytester.makepyfile(test_it=code)
    command = [sys.executable, "-m", "pytest", f"--swarm-base-url={gateway.base_url}", "--swarm-model=echo", "-s"]
    before = len(gateway.requests)
    process = subprocess.Popen(
        [*command, "--swarm-json=out.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=pytester.path,
    )
    deadline = time.monotonic() + 30
    while len(gateway.requests) < before + 12 and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.6)
    process.send_signal(sig)
    output, _ = process.communicate(timeout=30)
    return output


def test_ctrl_c_leaves_a_summary_and_the_report(
    pytester: pytest.Pytester, small_gateway: SmallGateway, report: Any
) -> None:
    output = interrupted_run(pytester, small_gateway, signal.SIGINT, INTERRUPTED)
    assert "KeyboardInterrupt" in output
    assert "interrupted" in output.lower()
    assert report()["exit"] == "interrupted"
    assert report()["tests"][0]["verdict"] == "interrupted"
    assert len(report()["tests"][0]["calls"]) >= 8


def test_a_kill_leaves_the_rows_and_the_next_run_names_them(
    pytester: pytest.Pytester, small_gateway: SmallGateway, suite: Any
) -> None:
    interrupted_run(pytester, small_gateway, signal.SIGKILL, INTERRUPTED)
    rows = list(pytester.path.glob(".pytest_cache/d/swarm/*/*.jsonl"))
    assert len(rows) == 1
    assert rows[0].read_text().count('"call"') >= 8
    result = suite("def test_nothing(): pass\n")
    result.stdout.fnmatch_lines(["*an earlier run ended early; its finished calls are in *swarm*"])
    assert "ended early" not in suite("def test_nothing(): pass\n").stdout.str()
