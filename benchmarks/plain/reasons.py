"""Why a figure of a plain script is not that of the gateway's ledger: the difference, cut into its causes.

Pure arithmetic on what a script wrote down and what the ledger has (`GET /ledger` of the simulated gateway). Every
function returns what the causes add to the figure, in the figure's unit; together they are the whole difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_swarm.judging.statistics import percentile as linear_percentile

Rows = Sequence[dict[str, Any]]

SEMAPHORE = "the wait for the semaphore is inside the latency"
INDEX = "the item at an index is taken, not the linear percentile"
CLIENT = "the client's own time, and the way there and back"
FAILURES = "failed requests are counted as throughput"
TIMER = "the timer of the whole run starts before the first request arrives"
SUBTRACTED = "cached tokens are subtracted from completion tokens, at the price of output"
FULL_PRICE = "cached tokens are paid in full as input"
REQUESTS = "requests with a hit are counted, not tokens"


def answered(ledger: Rows) -> list[dict[str, Any]]:
    """The requests that got their reply."""
    return [entry for entry in ledger if entry["status"] == 200]


def served(entry: dict[str, Any]) -> float:
    """Seconds from the arrival of a request to the last byte of its reply."""
    last: float = entry["writes"][-1] - entry["received"]
    return last


def waits(results: Rows, in_flight: int) -> list[float]:
    """Seconds that each task waited for the semaphore, which lets in the next one whenever a task has ended."""
    ends = sorted(row["start"] + row["latency"] for row in results)
    return [0.0] * min(in_flight, len(results)) + [
        end - row["start"] for end, row in zip(ends, results[in_flight:], strict=False)
    ]


def of_percentile(results: Rows, ledger: Rows, p: float, told: float, in_flight: int) -> dict[str, float]:
    """What makes `told`, the script's percentile `p` (0 to 100), differ from that of the ledger."""
    rows = [(row["latency"], wait) for row, wait in zip(results, waits(results, in_flight), strict=True) if row["ok"]]
    linear = linear_percentile(sorted(latency for latency, _ in rows), p)
    without_wait = linear_percentile(sorted(latency - wait for latency, wait in rows), p)
    true = linear_percentile(sorted(map(served, answered(ledger))), p)
    return {INDEX: told - linear, SEMAPHORE: linear - without_wait, CLIENT: without_wait - true}


def of_throughput(results: Rows, ledger: Rows, elapsed: float, told: float) -> dict[str, float]:
    """What makes `told`, the script's tasks per second, differ from those of the ledger."""
    passed: float = sum(row["ok"] for row in results) / elapsed
    return {FAILURES: told - passed, TIMER: passed - throughput(ledger)}


def throughput(ledger: Rows) -> float:
    """Answered requests per second, from the first arrival to the last end."""
    duration: float = max(entry["ended"] for entry in ledger) - min(entry["received"] for entry in ledger)
    return len(answered(ledger)) / duration


def of_cost(usages: Rows, prices: tuple[float, float, float]) -> dict[str, float]:
    """What makes the script's US dollars differ; `prices` are those of input, cached input and output, per million."""
    fresh, again, output = prices
    tokens = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages if usage)
    return {SUBTRACTED: -tokens * output / 1e6, FULL_PRICE: tokens * (fresh - again) / 1e6}


def cache_hit_rate(ledger: Rows) -> float:
    """The share of input tokens that came from the cache."""
    rows = answered(ledger)
    cached: int = sum(entry["cached_tokens"] for entry in rows)
    total: int = sum(entry["input_tokens"] for entry in rows)
    return cached / total


def cost(ledger: Rows) -> float:
    """US dollars of all requests."""
    paid: float = sum(entry["cost"] for entry in ledger)
    return paid


def full_cost(ledger: Rows, prices: tuple[float, float, float]) -> float:
    """What the answered requests would have cost without a cache."""
    fresh, _, output = prices
    full: float = sum(entry["input_tokens"] * fresh + entry["output_tokens"] * output for entry in answered(ledger))
    return full / 1e6
