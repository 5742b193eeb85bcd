"""What the plugin measures is what the server did: checked against a server that notes when it wrote each token.

The figures are times, so they are compared by their median, and one of three runs has to be good: what must not happen
is that the plugin itself adds to them, and that would be in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.support.servers import ExactDelayServer, Served, exact_delays
from tests.support.suites import run_suite

pytestmark = pytest.mark.timing

TRIES = 3
BOUND = 0.003
"""Seconds by which the median call may be off."""

HUNDRED_STREAMS = """
import pytest

@pytest.mark.swarm(tasks=100, concurrency=100)
async def test_streams(gateway, agent):
    # First tokens spread over half a second; the tokens of all streams together come at 2,000 a second.
    await gateway.chat("go", stream=True, delay_us=300_000 + 5_000 * agent.index, gap_us=50_000, chunks=10)
"""

HUNDRED_PLAIN_REPLIES = """
import pytest

@pytest.mark.swarm(tasks=100, concurrency=100)
async def test_replies(gateway, agent):
    await gateway.chat("go", delay_us=300_000 + 5_000 * agent.index)
"""

SLOW_BODY = """
import asyncio
import pytest

@pytest.mark.swarm(tasks=10, concurrency=10)
async def test_slow(gateway, agent):
    async for piece in gateway.stream("go", delay_us=100_000 + 10_700 * agent.index, gap_us=5_000, chunks=20):
        await asyncio.sleep(0.02)
"""
SLOW_BODY_GAP = 0.005
SLOW_BODY_SECONDS = 0.02 * 20


@pytest.fixture
def server(exact_delay_program: Path) -> Iterator[ExactDelayServer]:
    with exact_delays(exact_delay_program) as running:
        yield running


@dataclass(frozen=True)
class Measured:
    """One run of a suite of one test: its report, and each call with what the server noted of it."""

    test: dict[str, Any]
    calls: list[tuple[dict[str, Any], Served]]

    def median_error(self, figure: str, exact: str) -> float:
        errors: list[float] = [abs(call[figure] - getattr(served, exact)) for call, served in self.calls]
        return median(errors)


Measure = Callable[[str], Measured]


@pytest.fixture
def measure(tmp_path: Path, server: ExactDelayServer) -> Measure:
    def run(suite: str) -> Measured:
        (test,) = run_suite(tmp_path, suite, base_url=server.base_url, model="exact").report["tests"]
        served = server.served()
        return Measured(test, [(call, served[call["request_id"]]) for call in test["calls"]])

    return run


def good_once(attempt: Callable[[], dict[str, float]], bound: float = BOUND) -> None:
    """`attempt` measures errors in seconds; in one of a few tries all of them must lie under the bound."""
    tried = []
    for _ in range(TRIES):
        tried.append(attempt())
        if max(tried[-1].values()) < bound:
            return
    pytest.fail(f"over {bound} s in each of {TRIES} runs: {tried}")


def test_first_and_last_token_of_a_hundred_streams(measure: Measure) -> None:
    def attempt() -> dict[str, float]:
        measured = measure(HUNDRED_STREAMS)
        assert len(measured.calls) == 100
        return {"ttft": measured.median_error("ttft", "first"), "latency": measured.median_error("latency", "last")}

    good_once(attempt)


def test_latency_of_a_hundred_plain_replies(measure: Measure) -> None:
    def attempt() -> dict[str, float]:
        measured = measure(HUNDRED_PLAIN_REPLIES)
        assert len(measured.calls) == 100
        return {"latency": measured.median_error("latency", "last")}

    good_once(attempt)


def test_a_body_that_sleeps_for_every_chunk_moves_no_chunk(measure: Measure) -> None:
    def attempt() -> dict[str, float]:
        measured = measure(SLOW_BODY)
        assert measured.test["metrics"]["latency.p50"] >= SLOW_BODY_SECONDS
        return {
            "ttft": measured.median_error("ttft", "first"),
            "latency": measured.median_error("latency", "last"),
            "itl": abs(measured.test["metrics"]["itl.p50"] - SLOW_BODY_GAP),
        }

    good_once(attempt)
