"""Rate limits of a system: buckets that fill evenly and hold one minute's worth, as vendors document theirs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_swarm.sources.simulated.profile import Limits

__all__ = ["RateLimiter", "Verdict"]


class _Bucket:
    def __init__(self, unit: str, per_minute: int, now: float) -> None:
        self.unit = unit
        self.per_minute = per_minute
        self.left = float(per_minute)
        self._at = now

    def fill(self, now: float) -> None:
        self.left = min(float(self.per_minute), self.left + (now - self._at) * self.per_minute / 60)
        self._at = now

    def wait(self, amount: float) -> float:
        """Seconds until `amount` can be taken; what exceeds the whole bucket waits for a full one."""
        return max(0.0, (min(amount, self.per_minute) - self.left) * 60 / self.per_minute)


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
        self._buckets = [_Bucket(unit, amount, now) for unit, amount in per_minute.items() if amount is not None]

    def admit(self, tokens: int, now: float) -> Verdict:
        """Take one request of `tokens` out of the buckets, or nothing when one of them holds too little."""
        amounts = {"requests": 1, "tokens": tokens}
        wait, unit = 0.0, ""
        for bucket in self._buckets:
            bucket.fill(now)
            wait, unit = max((wait, unit), (bucket.wait(amounts[bucket.unit]), bucket.unit))
        if wait > 0:
            return Verdict(self._headers() | _retry_after(wait / self._speed), wait, unit)
        for bucket in self._buckets:
            bucket.left -= amounts[bucket.unit]
        return Verdict(self._headers())

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for bucket in self._buckets:
            unit, per_minute, left = bucket.unit, bucket.per_minute, bucket.left
            headers[f"x-ratelimit-limit-{unit}"] = str(per_minute)
            headers[f"x-ratelimit-remaining-{unit}"] = str(max(0, math.floor(left)))
            headers[f"x-ratelimit-reset-{unit}"] = f"{(per_minute - left) * 60 / per_minute / self._speed:.3f}s"
        return headers


def _retry_after(wait: float) -> dict[str, str]:
    """Whole seconds for everybody, rounded up, and exact milliseconds for clients that know the second header."""
    return {"retry-after": str(math.ceil(wait)), "retry-after-ms": str(math.ceil(wait * 1000))}
