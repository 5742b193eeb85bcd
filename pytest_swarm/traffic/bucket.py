"""The arithmetic of rate limits: token buckets that may go into debt. Pure: every time is handed in.

A bucket holds `burst` and fills at `rate` per second. What fits into it is let through as soon as it is there; what is
larger than the whole bucket waits for a full one and leaves a debt, which is filled up before anything else is let
through. So over any stretch of `t` seconds no more passes than `burst + rate * t`, or one amount that is larger than
the burst, and `rate * t`. This is the algorithm of ATM cells ("virtual scheduling", ITU-T I.371): one number is kept,
the time at which the bucket was or will be empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_swarm.values import Limit

__all__ = ["SLACK", "Bucket", "Buckets"]

SLACK: Final = 1e-9
"""Seconds by which a timer may be early: the resolution of asyncio's clock."""


class Bucket:
    """One limit."""

    def __init__(self, rate: float, burst: float = 0.0) -> None:
        """It fills by `rate` per second, holds `burst`, and is full at first."""
        self._rate = rate
        self._burst = burst
        self._empty_at = -math.inf
        """When it was empty, or will be: later than now is a debt."""

    def _held_from(self, now: float) -> float:
        """`_empty_at`, with what has run over since forgotten."""
        return max(self._empty_at, now - self._burst / self._rate)

    def ready_at(self, amount: float, now: float) -> float:
        """The earliest time, not before `now`, at which `amount` may be taken if nothing else is."""
        return max(now, self._held_from(now) + min(amount, self._burst) / self._rate)

    def take(self, amount: float, now: float) -> None:
        """Take `amount`, whether it is there or not; a negative one puts back what turned out not to be used."""
        self._empty_at = self._held_from(now) + amount / self._rate


class Buckets:
    """Several limits that a request must pass together, by the unit that they count."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        """A limit without a burst lets one request after the other through, evenly spread."""
        self._by_unit: Mapping[str, Bucket] = {
            limit.unit: Bucket(limit.per_second, limit.burst or 0.0) for limit in limits
        }

    @property
    def counts_tokens(self) -> bool:
        """Whether it matters how many tokens a request has."""
        return "tokens" in self._by_unit

    def ready_at(self, tokens: float, now: float) -> float:
        """When one request of `tokens` may pass all of them."""
        amounts = {"requests": 1.0, "tokens": tokens}
        return max((bucket.ready_at(amounts[unit], now) for unit, bucket in self._by_unit.items()), default=now)

    def take(self, requests: float, tokens: float, now: float) -> None:
        """Take from all of them at once; negative amounts are put back."""
        amounts = {"requests": requests, "tokens": tokens}
        for unit, bucket in self._by_unit.items():
            bucket.take(amounts[unit], now)
