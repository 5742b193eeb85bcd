"""A concurrency that adapts: how many tasks in flight a system takes before they only wait for each other.

While a system has room, twice as many tasks in flight give twice the throughput at the same latency. Beyond its
capacity throughput stays and latency grows, and by Little's law the number that it really works on is its throughput
times the latency that it had while there was room. The controller doubles until throughput no longer follows, goes to
that number (as the congestion control BBR does with bandwidth and round-trip time), and now and then tries a bit more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from pytest_swarm.columns import LimitStep

__all__ = ["Controller", "Trouble"]

Trouble = Literal["rate_limited", "timeout", "failed"]
"""Why a task is no sign of capacity: the first two say that there are too many in flight."""

WINDOW: Final = 50
"""Ended tasks by which a limit is judged, or `ROUNDS` for each in flight where that is more: fewer say little."""
ROUNDS: Final = 3
GAIN: Final = 0.5
"""Throughput has followed a change of the limit when it moved by at least this share of it."""
RISE: Final = 1.2
"""Latency holds up to this multiple of what it was while there was room."""
PROBE: Final = 1.25
"""By how much more is tried once the limit has been found."""
PROBE_GAIN: Final = 0.65
"""As `GAIN`, where so little more is tried that chance alone might make up half of it."""
HOLDS: Final = 3
"""Windows between two such trials."""
BACK_OFF: Final = 0.7
"""What remains of the limit when the system says that it is too much."""
TROUBLE_SHARE: Final = 0.05
"""The share of a window that may be rate limited or time out."""
TROUBLES: Final = 3
"""Fewer are none."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """One window: what a limit came to."""

    limit: int
    throughput: float
    latency: float

    def followed_by(self, later: _Seen, gain: float = GAIN) -> bool:
        """Whether throughput moved with the limit, up or down."""
        change = 1 + gain * (later.limit / self.limit - 1)
        risen = later.throughput >= self.throughput * change
        return risen if later.limit > self.limit else not risen


class Controller:
    """Finds the limit between `low` and `high`. Told of every ended task; knows no clock and draws nothing at random.

    What each window came to is appended to `trace`.
    """

    def __init__(self, low: int, high: int, trace: list[LimitStep] | None = None) -> None:
        self.limit = low
        self._low, self._high = low, high
        self._trace = [] if trace is None else trace
        self._trace.append(LimitStep(0.0, low, None, None))
        self._judge: Callable[[_Seen], int] = self._climb
        self._before: _Seen | None = None
        self._base = math.inf
        """Mean latency in seconds while there was room."""
        self._roomy: list[tuple[int, float]] = []
        self._holds = HOLDS
        self._settling = low
        self._began = 0.0
        self._clear()

    def _clear(self) -> None:
        self._ended = self._good = self._troubled = 0
        self._latencies = 0.0

    def ended(self, now: float, latency: float, trouble: Trouble | None) -> int:
        """A task has ended; returns the limit from then on.

        `now` is seconds since the start of the run, `latency` seconds since the start of the task.
        """
        if self._settling:
            # Started under the limit before, for the most part.
            self._settling -= 1
            self._began = now
            return self.limit
        self._ended += 1
        if trouble is None:
            self._good += 1
            self._latencies += latency
        elif trouble != "failed":
            self._troubled += 1
            if self._troubled >= max(TROUBLES, TROUBLE_SHARE * self._size):
                self._change(now, self._backed_off(), self._seen(now))
                return self.limit
        if self._ended >= self._size and now > self._began:
            seen = self._seen(now)
            self._change(now, self.limit if seen is None else self._judge(seen), seen)
        return self.limit

    @property
    def _size(self) -> int:
        return max(WINDOW, ROUNDS * self.limit)

    def _seen(self, now: float) -> _Seen | None:
        """The window so far; None when nothing ended well in it."""
        if not self._good or now <= self._began:
            return None
        return _Seen(self.limit, self._good / (now - self._began), self._latencies / self._good)

    def _change(self, now: float, limit: int, seen: _Seen | None) -> None:
        limit = min(self._high, max(self._low, limit))
        if limit != self.limit:
            self._settling = max(limit, self.limit)
        before = (None, None) if seen is None else (seen.throughput, seen.latency)
        self._trace.append(LimitStep(now, limit, *before))
        self.limit = limit
        self._began = now
        self._clear()

    def _backed_off(self) -> int:
        self._judge, self._holds = self._hold, 2 * HOLDS
        return math.floor(self.limit * BACK_OFF)

    def _climb(self, seen: _Seen) -> int:
        """Twice as much, as long as throughput follows."""
        before = self._before
        if before is None or before.followed_by(seen):
            # Latencies of all windows with room together: one alone says little.
            self._roomy.append((self._good, self._latencies))
            self._base = sum(total for _, total in self._roomy) / sum(many for many, _ in self._roomy)
            self._before = seen
            if seen.limit < self._high:
                return 2 * seen.limit
            self._judge = self._hold
            return seen.limit
        self._judge = self._hold
        return min(seen.limit, round(seen.throughput * self._base))

    def _hold(self, seen: _Seen) -> int:
        """The limit is right unless latency says otherwise; now and then it may have become too low."""
        if seen.latency > RISE * self._base:
            self._judge, self._before = self._lowered, seen
            return math.ceil(seen.limit * max(0.5, self._base / seen.latency))
        self._holds -= 1
        if self._holds > 0 or seen.limit == self._high:
            return seen.limit
        self._judge, self._before = self._probe, seen
        return math.ceil(seen.limit * PROBE)

    def _probe(self, seen: _Seen) -> int:
        """A little more was tried."""
        assert self._before is not None
        if self._before.followed_by(seen, PROBE_GAIN) and seen.latency <= RISE * self._base:
            self._before = seen
            if seen.limit < self._high:
                return math.ceil(seen.limit * PROBE)
        self._judge, self._holds = self._hold, HOLDS
        return self._before.limit

    def _lowered(self, seen: _Seen) -> int:
        """Less was tried, because latency had risen. Where that only cost throughput, the system itself got slower."""
        assert self._before is not None
        self._judge, self._holds = self._hold, HOLDS
        if self._before.followed_by(seen):
            self._base = self._before.latency
            return self._before.limit
        return seen.limit
