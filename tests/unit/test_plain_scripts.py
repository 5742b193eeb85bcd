"""What the plain benchmark scripts do to their figures, on short arrays, beside what our metrics make of them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchmarks.plain import latency, prompt_cache, reasons
from pytest_swarm.judging.statistics import percentile

PRICES = (0.05, 0.025, 0.4067)


def usage(prompt: int, cached: int, completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def task(latency: float, *, ok: bool = True) -> dict[str, Any]:
    return {"start": 100.0, "latency": latency, "ok": ok}


def request(received: float, served: float, status: int = 200) -> dict[str, Any]:
    end = received + served
    return {"status": status, "received": received, "writes": [end], "ended": end}


# Four tasks that start together, two at a time. The ledger has a clock of its own.
IN_FLIGHT = 2
RESULTS = [task(1), task(2), task(4), task(2.5, ok=False)]
LEDGER = [request(7, 1), request(7, 2), request(8, 3), request(9, 0.5, status=503)]


def test_an_index_is_one_item_further_than_the_percentile() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [latency.percentile(values, share) for share in (0.5, 0.95, 0.99)] == [51, 96, 100]
    assert [percentile(values, p) for p in (50, 95, 99)] == pytest.approx([50.5, 95.05, 99.01])


def test_the_p99_of_up_to_a_hundred_tasks_is_the_slowest_of_them() -> None:
    for count in (1, 10, 96, 100):
        values = [float(value) for value in range(count)]
        assert latency.percentile(values, 0.99) == max(values)
    assert percentile([float(value) for value in range(96)], 99) == pytest.approx(94.05)


def test_failures_are_throughput_to_the_script() -> None:
    figures = latency.figures(RESULTS, elapsed=4.0)
    assert (figures["throughput"], figures["success_rate"]) == (1.0, 0.75)
    assert reasons.throughput(LEDGER) == 0.75
    assert reasons.of_throughput(RESULTS, LEDGER, 4.0, 1.0) == {reasons.FAILURES: 0.25, reasons.TIMER: 0.0}


def test_the_wait_for_the_semaphore_is_latency_to_the_script() -> None:
    assert reasons.waits(RESULTS, IN_FLIGHT) == [0, 0, 1, 2]
    assert reasons.waits(RESULTS, 4) == reasons.waits(RESULTS, 9) == [0, 0, 0, 0]
    told = latency.figures(RESULTS, elapsed=4.0)["latency.p95"]
    causes = reasons.of_percentile(RESULTS, LEDGER, 95, told, IN_FLIGHT)
    assert told == 4
    # Linear: 2 + 0.9 * (4 - 2) with the wait, 2 + 0.9 * (3 - 2) without.
    assert causes == pytest.approx({reasons.INDEX: 0.2, reasons.SEMAPHORE: 0.9, reasons.CLIENT: 0})


def test_what_the_client_itself_takes_is_told_apart() -> None:
    slow = [{**row, "latency": row["latency"] + 0.25} for row in RESULTS[:3]]
    causes = reasons.of_percentile(slow, LEDGER[:3], 50, latency.figures(slow, 4.0)["latency.p50"], 3)
    assert causes == pytest.approx({reasons.INDEX: 0, reasons.SEMAPHORE: 0, reasons.CLIENT: 0.25})


def test_the_causes_are_the_whole_difference() -> None:
    figures = latency.figures(RESULTS, elapsed=5.0)
    for p in (50, 95, 99):
        told = figures[f"latency.p{p}"]
        true = percentile([1, 2, 3], p)
        assert math.fsum(reasons.of_percentile(RESULTS, LEDGER, p, told, IN_FLIGHT).values()) == pytest.approx(
            told - true
        )
    told = figures["throughput"]
    parts = reasons.of_throughput(RESULTS, LEDGER, 5.0, told)
    assert math.fsum(parts.values()) == pytest.approx(told - reasons.throughput(LEDGER))


def test_cached_tokens_are_taken_off_the_completion() -> None:
    one = usage(prompt=1600, cached=1500, completion=2000)
    true = (100 * 0.05 + 1500 * 0.025 + 2000 * 0.4067) / 1e6
    assert prompt_cache.cost(one) == pytest.approx((1600 * 0.05 + 500 * 0.4067) / 1e6)
    causes = reasons.of_cost([one, {}], PRICES)
    assert causes == pytest.approx(
        {reasons.SUBTRACTED: -1500 * 0.4067 / 1e6, reasons.FULL_PRICE: 1500 * (0.05 - 0.025) / 1e6}
    )
    assert prompt_cache.cost(one) - true == pytest.approx(math.fsum(causes.values()))


def test_a_short_answer_to_a_long_cached_prompt_earns_money() -> None:
    assert prompt_cache.cost(usage(prompt=1600, cached=1500, completion=50)) < 0


def test_a_hit_is_a_request_to_the_script_and_tokens_to_us() -> None:
    figures = prompt_cache.figures([usage(1600, 0, 10), usage(1600, 400, 10), {}])
    assert figures["cache_hit_rate"] == 0.5
    ledger = [{"status": 200, "input_tokens": 1600, "cached_tokens": cached} for cached in (0, 400)]
    assert reasons.cache_hit_rate([*ledger, {"status": 503}]) == 0.125
