"""`--swarm-max-cost` and `swarm(max_cost=...)`: nothing is sent that might pass them, with any number of workers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.small_gateway import SmallGateway

PRICES = """
[tool.pytest_swarm.prices]
echo = {input = 100, output = 10000}
verbose = {input = 0, output = 100}
unlisted = {input = 100, output = 10000}
"""
COST = 0.051
"""Of a reply of the small gateway: 10 tokens in at $100 a million, 5 out at $10,000."""


@pytest.fixture(autouse=True)
def prices(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyprojecttoml(PRICES)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def counted() -> Any:
    """A gateway of the test's own: what it was asked is what was spent."""
    with SmallGateway() as server:
        yield server


def test_four_workers_never_pass_the_one_ceiling(suite: Any, report: Any, counted: SmallGateway) -> None:
    code = """
@pytest.mark.parametrize("which", range(8))
@pytest.mark.swarm(tasks=20, concurrency=4)
async def test_it(gateway, which): await gateway.chat("hi", max_tokens=5)
"""
    result = suite(code, "-n4", "--swarm-max-cost=$2", gateway=counted.base_url)
    spent = len(counted.requests) * COST
    assert 1.5 < spent <= 2
    told = report()
    ceiling = told["cost"]["ceiling"]
    assert ceiling["spent"] == pytest.approx(spent)
    assert (ceiling["requests"], ceiling["reserved"], ceiling["overspent"]) == (len(counted.requests), 0, 0)
    assert ceiling["estimated"] > ceiling["spent"]
    outcomes = Counter(call["outcome"] for test in told["tests"] for call in test["calls"])
    assert outcomes == {"ok": len(counted.requests), "budget": ceiling["refused"]}
    assert told["exit"] == "invalid"
    result.stdout.fnmatch_lines(["all tests", "  ceiling * of $2.00 spent (--swarm-max-cost)*not sent"])


def test_the_ceiling_of_a_marker_holds_for_all_runs_of_its_swarm(
    suite: Any, report: Any, counted: SmallGateway
) -> None:
    code = """
@pytest.mark.swarm(tasks=5, concurrency=1, repeat=4, max_cost="$0.50")
@pytest.mark.sla("success_rate >= 10%", "p99 < 0.0001ms")
async def test_it(gateway): await gateway.chat("hi", max_tokens=5)

@pytest.mark.swarm(tasks=3, concurrency=1, max_cost=0.5)
def test_sync(gateway): gateway.chat("hi", max_tokens=5)
"""
    result = suite(code, gateway=counted.base_url)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "swarm INVALID: run 1 ended early: the cost ceiling of $0.5 (swarm(max_cost=...)) was reached: $0.459*",
            "  ceiling   $0.459 of $0.50 spent (swarm(max_cost=...))*9 requests, * at worst*1 not sent",
        ]
    )
    test, sync = report()["tests"]
    assert (test["verdict"], sync["verdict"]) == ("invalid", "pass")
    assert [level["verdict"] for level in test["sla"]] == ["pass", "fail"]
    assert [run["interrupted"] is None for run in test["runs"]] == [True, False]
    assert [call["outcome"] for call in test["calls"]] == [*["ok"] * 9, "budget"]
    assert test["ceiling"]["spent"] == pytest.approx(9 * COST)
    assert sync["ceiling"]["spent"] == pytest.approx(3 * COST)
    assert report()["cost"]["ceiling"] is None
    assert len(counted.requests) == 12


def test_a_simulated_swarm_is_held_to_the_prices_of_its_system(suite: Any, report: Any) -> None:
    code = """
@pytest.mark.swarm(tasks=200, concurrency=20)
async def test_it(gateway): await gateway.chat("hi", max_tokens=1000)

@pytest.mark.swarm(tasks=200, concurrency=20, max_cost="$0.004")
def test_sync(gateway): gateway.chat("hi", max_tokens=100)
"""
    suite(code, "--swarm-max-cost=$0.05", gateway=None).assert_outcomes(failed=2)
    told = report()
    for test in told["tests"]:
        assert test["verdict"] == "invalid"
        assert {call["source"] for call in test["calls"]} == {"simulated"}
    spent = sum(call["cost"] for test in told["tests"] for call in test["calls"])
    assert 0.03 < spent <= 0.05
    assert told["cost"]["ceiling"]["spent"] == pytest.approx(spent)
    assert told["tests"][1]["ceiling"]["spent"] <= 0.004


def test_a_model_without_a_price_is_refused_before_the_run(suite: Any, counted: SmallGateway) -> None:
    code = """
@pytest.mark.swarm(tasks=5)
async def test_it(gateway): await gateway.chat("hi")
"""
    result = suite(code, "--swarm-max-cost=1", gateway=counted.base_url, model="slow")
    result.stdout.fnmatch_lines(
        ["swarm: the price of model 'slow' is not known*: add [[]tool.pytest_swarm.prices.\"slow\"[]] with input and*"]
    )
    assert counted.requests == []


def test_a_model_without_a_price_that_turns_up_later_is_not_asked(
    suite: Any, report: Any, counted: SmallGateway
) -> None:
    code = """
@pytest.mark.swarm(tasks=5, concurrency=1, max_cost=1)
async def test_it(gateway):
    await gateway.chat("hi", max_tokens=5)
    await gateway.chat("hi", model="slow")
"""
    result = suite(code, gateway=counted.base_url)
    result.stdout.fnmatch_lines(["swarm INVALID: the run ended early: the price of model 'slow' is not known*"])
    assert [body["model"] for body in counted.requests] == ["echo"]
    assert [call["outcome"] for call in report()["tests"][0]["calls"]] == ["ok", "budget"]


def test_an_overspend_is_shown_with_its_reason(suite: Any, report: Any, counted: SmallGateway) -> None:
    code = """
@pytest.mark.swarm(tasks=5, concurrency=1)
async def test_it(gateway): await gateway.chat("hi")
"""
    result = suite(code, "--swarm-max-cost=0.5", gateway=counted.base_url, model="verbose")
    result.stdout.fnmatch_lines(
        ["*OVERSPENT by $0.50: the worst case of 1 request was a guess (no max_tokens, for example; *"]
    )
    assert report()["cost"]["ceiling"]["overspent"] == pytest.approx(0.5)
    assert len(counted.requests) == 1


def test_the_question_before_a_run_is_paid_too(suite: Any, report: Any, counted: SmallGateway) -> None:
    code = """
@pytest.mark.swarm(tasks=1)
async def test_it(gateway): await gateway.chat("hi", max_tokens=5)
"""
    suite(code, "--swarm-max-cost=$1", gateway=counted.base_url, model="unlisted").assert_outcomes(passed=1)
    ceiling = report()["cost"]["ceiling"]
    assert (len(counted.requests), ceiling["requests"], ceiling["unknown"]) == (2, 2, 1)
    suite(code, "--swarm-max-cost=$0.000001", gateway=counted.base_url, model="unlisted").assert_outcomes(failed=1)
    assert len(counted.requests) == 2
