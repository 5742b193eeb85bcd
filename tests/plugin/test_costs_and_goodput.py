"""Prices of public models, whose word a cost is, and what counts as a good task: from the marker to the report."""

from __future__ import annotations

from typing import Any

import pytest

SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}


def test_a_public_model_costs_its_list_price_and_another_word_of_the_gateway_is_noted(suite: Any, report: Any) -> None:
    code = """
@pytest.mark.parametrize("tier", [None, "flex", "priority"])
@pytest.mark.swarm(2)
async def test_it(gateway, tier): await gateway.chat("hi", service_tier=tier)
"""
    result = suite(code, "-o", "swarm_prices_date=2026-11-01", model="gpt-4o")
    result.assert_outcomes(passed=3)
    usual, flex, priority = report()["tests"]
    assert usual["metrics"]["cost"] == pytest.approx(2 * (10 * 2.5 + 5 * 10) / 1e6)
    assert usual["cost_sources"] == {"genai-prices": 2}
    assert usual["calls"][0]["reported_cost"] == 0.0001
    source, apart = usual["notes"]
    assert source.startswith("prices of public models as of 2026-11-01 (genai-prices ")
    assert apart.startswith("the gateway reported $0.0002, our prices give $0.00015 for the same calls (-25.0 %)")
    assert priority["cost_sources"] == {"genai-prices": 2}
    assert priority["metrics"]["cost"] > usual["metrics"]["cost"]
    # This model has no rates for flex: the gateway's word is all there is, and it is called that.
    assert flex["cost_sources"] == {"reported": 2}
    assert flex["metrics"]["cost"] == pytest.approx(0.0002)
    result.stdout.fnmatch_lines(["*as the gateway reports*"])


def test_a_cost_level_on_an_unknown_price_names_the_model_and_the_key_to_add(suite: Any, report: Any) -> None:
    code = """
@pytest.mark.sla("cost_per_100 <= $0.10")
@pytest.mark.swarm(2)
async def test_it(gateway): await gateway.chat("hi", service_tier=None)

@pytest.mark.sla("cost < $1")
@pytest.mark.swarm(2)
async def test_flex(gateway): await gateway.chat("hi", service_tier="flex")
"""
    result = suite(code, "-o", "swarm_prices_date=2026-11-01")
    result.assert_outcomes(failed=2)
    plain, flex = report()["tests"]
    assert (plain["verdict"], plain["metrics"]["cost"], plain["metrics"]["cost_per_task"]) == ("invalid", None, None)
    added = "cost_per_100 <= $0.10: no price for model 'echo': add [tool.pytest_swarm.prices.\"echo\"] (2 calls)"
    assert plain["reasons"] == [added]
    assert flex["verdict"] == "invalid"
    cost = report()["cost"]
    assert (cost["total"], cost["by_model"], cost["unpriced_calls"]) == (None, {"echo": None}, 4)


def test_a_task_is_good_when_it_meets_every_bound_of_its_own(suite: Any, report: Any) -> None:
    code = f"""
pytestmark = [pytest.mark.swarm(4), pytest.mark.json_output({SCHEMA})]
LIFTED = ("schema_valid_rate >= 0%", "json_valid_rate >= 0%")

@pytest.mark.sla("goodput_rate >= 90%", per_task=["latency < 60s", "json valid", "schema valid"])
async def test_json(gateway):
    await gateway.chat("give", model="json")

@pytest.mark.sla("goodput_rate >= 90%", *LIFTED, per_task=["latency < 60s", "schema valid"])
async def test_schema(gateway, agent):
    await gateway.chat("give", model="wrongjson" if agent.index else "json")

@pytest.mark.sla("goodput_rate == 0%", per_task=["ttft < 1ms"])
async def test_slow(gateway):
    await gateway.chat("give", model="json")

@pytest.mark.sla("goodput >= 5/s")
async def test_no_bounds(gateway):
    await gateway.chat("give", model="json")
"""
    suite(code, model="json")
    found = {test["nodeid"].rpartition("::")[2]: test for test in report()["tests"]}
    assert found["test_json"]["verdict"] == "pass", found["test_json"]["reasons"]
    assert found["test_json"]["metrics"]["goodput_rate"] == 1
    assert found["test_schema"]["verdict"] == "fail"
    assert found["test_schema"]["metrics"]["goodput_rate"] == 0.25
    (error,) = found["test_schema"]["json_errors"]
    assert error == {
        "error": "$.a: is not of type 'integer'",
        "count": 3,
        "example": "$.a: 'x' is not of type 'integer'",
    }
    assert [found[name]["verdict"] for name in ("test_slow", "test_no_bounds")] == ["invalid", "invalid"]
    assert found["test_slow"]["reasons"][0].endswith("no call was streamed, so 'ttft < 1ms' cannot be told")
    assert "nothing says what a good task is" in found["test_no_bounds"]["reasons"][0]


def test_goodput_per_second_is_judged_on_virtual_time(suite: Any, report: Any) -> None:
    code = """
@pytest.mark.swarm(tasks=300, concurrency=100)
@pytest.mark.sla("goodput >= 5/s", "goodput < 100/s", "success_rate >= 50%", per_task=["latency < 3s", "ttft < 2s"])
async def test_it(gateway): await gateway.chat("hi", stream=True)
"""
    suite(code, gateway=None).assert_outcomes(passed=1)
    metrics = report()["tests"][0]["metrics"]
    assert 5 <= metrics["goodput"] < metrics["throughput"]
    assert metrics["goodput_rate"] < metrics["success_rate"]
