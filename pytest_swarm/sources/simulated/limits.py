"""Rate limits of a system: buckets that fill evenly and hold one minute's worth, as vendors document theirs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_swarm.sources.simulated.profile import Limits

__all__ = ["RateLimiter", "Verdict"]


class _Bucket:
    def __init__(self, per_minute: int, now: float) -> None:
        self.per_minute = per_minute
        self._left = float(per_minute)
        self._at = now

    def left(self, now: float) -> float:
        self._left = min(float(self.per_minute), self._left + (now - self._at) * self.per_minute / 60)
        self._at = now
        return self._left

    def take(self, amount: float) -> None:
        self._left -= amount

    def wait(self, amount: float, now: float) -> float:
        """Seconds until `amount` can be taken; what exceeds the whole bucket waits for a full one."""
        missing = min(amount, self.per_minute) - self.left(now)
        return max(0.0, missing * 60 / self.per_minute)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request may pass. `wait` is the time until it could, in seconds; `unit` is what it has too much of."""

    headers: dict[str, str]
    wait: float = 0.0
    unit: str = ""


class RateLimiter:
    """Decides which requests get 429, and tells every client what is left.

    Times are those of the system's timeline; what clients are told is divided by `speed`, as their own clocks show it.
    """

    def __init__(self, limits: Limits, now: float, speed: float = 1.0) -> None:
        self._speed = speed
        per_minute = {"requests": limits.requests_per_minute, "tokens": limits.tokens_per_minute}
        self._buckets = {unit: _Bucket(amount, now) for unit, amount in per_minute.items() if amount is not None}

    def admit(self, tokens: int, now: float) -> Verdict:
        """Take one request of `tokens` out of the buckets, or nothing when one of them holds too little."""
        amounts = {"requests": 1, "tokens": tokens}
        wait, unit = max(
            ((bucket.wait(amounts[unit], now), unit) for unit, bucket in self._buckets.items()), default=(0.0, "")
        )
        if wait > 0:
            return Verdict(self._headers(now) | _retry_after(wait / self._speed), wait, unit)
        for name, bucket in self._buckets.items():
            bucket.take(amounts[name])
        return Verdict(self._headers(now))

    def _headers(self, now: float) -> dict[str, str]:
        headers: dict[str, str] = {}
        for unit, bucket in self._buckets.items():
            left = bucket.left(now)
            headers[f"x-ratelimit-limit-{unit}"] = str(bucket.per_minute)
            headers[f"x-ratelimit-remaining-{unit}"] = str(max(0, math.floor(left)))
            reset = (bucket.per_minute - left) * 60 / bucket.per_minute / self._speed
            headers[f"x-ratelimit-reset-{unit}"] = f"{reset:.3f}s"
        return headers


def _retry_after(wait: float) -> dict[str, str]:
    """Whole seconds for everybody, rounded up, and exact milliseconds for clients that know the second header."""
    return {"retry-after": str(math.ceil(wait)), "retry-after-ms": str(math.ceil(wait * 1000))}
