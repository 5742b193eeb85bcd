"""A run that the testing process itself held up says so, and proves nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jsonschema import validate

from tests.plugin.conftest import Run

SCHEMA = json.loads((Path(__file__).parents[1] / "unit/reports/report.schema.json").read_text())
Report = Callable[[], dict[str, Any]]

BLOCKED = """
import time

def think():
    time.sleep(0.2)

@pytest.mark.swarm(tasks=10, concurrency=10)
@pytest.mark.sla("p99 < 1s", "success_rate >= 90%")
async def test_blocked(gateway):
    think()
    await gateway.chat("go")
"""
"""Ten bodies that block one after the other take 2 s: that is their latency, and it is the lag of the loop as well."""


def test_a_body_that_blocks_the_loop_is_named_and_no_latency_is_judged(suite: Run, report: Report) -> None:
    result = suite(BLOCKED)
    result.assert_outcomes(failed=1)
    (test,) = report()["tests"]
    validate(report(), SCHEMA)
    latency, success = test["sla"]
    assert (test["verdict"], latency["verdict"], success["verdict"]) == ("invalid", "invalid", "pass")
    assert "the event loop of the test was " in latency["reason"]
    assert "it was blocked at test_it.py:6 in think: await there" in latency["reason"]
    assert test["audit"]["lag_max"] > 1.5
    assert test["audit"]["blocked_at"] == "test_it.py:6 in think"
    result.stdout.re_match_lines(
        [r" +client +event loop late by p99 .*s, max .*s", r" +blocked at test_it.py:6 in think"]
    )


def test_a_level_that_is_missed_by_far_more_than_the_lag_is_missed(suite: Run, report: Report) -> None:
    suite(
        """
@pytest.mark.swarm(tasks=10, concurrency=10)
@pytest.mark.sla("p50 < 50ms")
async def test_slow(gateway):
    await gateway.chat("go")
    await asyncio.sleep(3)
"""
    ).assert_outcomes(failed=1)
    (test,) = report()["tests"]
    assert test["verdict"] == "fail"


def test_bodies_that_wait_or_are_in_threads_hold_nobody_up(suite: Run, report: Report) -> None:
    suite(
        """
import time

@pytest.mark.swarm(tasks=10, concurrency=10)
@pytest.mark.sla("p50 < 30s")
async def test_waits(gateway):
    await gateway.chat("go")
    await asyncio.sleep(0.4)

@pytest.mark.swarm(tasks=10, concurrency=10)
@pytest.mark.sla("p50 < 30s")
def test_in_threads(gateway):
    gateway.chat("go")
    time.sleep(0.4)
"""
    ).assert_outcomes(passed=2)
    waits, threads = (test["audit"] for test in report()["tests"])
    assert (waits["watched"], threads["watched"]) == ("event loop", "threads")
    for audit in (waits, threads):
        assert audit["blocked_at"] is None or "sleep" not in audit["blocked_at"]
        assert audit["lag_p50"] < 0.2
        assert audit["in_flight_max"] == 10
        assert 1 < audit["in_flight_mean"] <= 10
        assert audit["late_max"] is None
        assert audit["undelivered"] is None
        assert 0 < audit["calls_in_flight_mean"] < audit["little"] <= 10.01


def test_a_rate_that_the_process_cannot_deliver_proves_no_throughput(suite: Run, report: Report) -> None:
    suite(
        """
import time

@pytest.mark.swarm(tasks=50, rate="50/s", arrival="constant")
@pytest.mark.sla("throughput >= 45/s")
async def test_rate(gateway):
    time.sleep(0.05)
    await gateway.chat("go")
"""
    ).assert_outcomes(failed=1)
    (test,) = report()["tests"]
    (line,) = test["sla"]
    assert line["verdict"] == "invalid"
    assert "of the planned rate was not delivered: starts fell " in line["reason"]
    assert test["audit"]["undelivered"] > 0.3
    assert test["audit"]["late_max"] > 0.5


def test_tasks_that_waited_for_others_are_not_late_by_the_process(suite: Run, report: Report) -> None:
    suite(
        """
@pytest.mark.swarm(tasks=20, rate="100/s", arrival="constant", concurrency=1)
async def test_queue(gateway):
    await gateway.chat("go")
    await asyncio.sleep(0.1)
"""
    ).assert_outcomes(passed=1)
    (test,) = report()["tests"]
    assert test["metrics"]["user_latency.max"] > 1
    assert test["audit"]["late_max"] < 1


def test_on_the_virtual_clock_there_is_nothing_to_audit(suite: Run, report: Report) -> None:
    result = suite(BLOCKED.replace("p99 < 1s", "p99 < 100s"), gateway=None)
    (test,) = report()["tests"]
    assert (test["clock"], test["audit"], test["runs"][0]["audit"]) == ("virtual", None, None)
    assert not [line for line in result.outlines if line.startswith("  client")]
