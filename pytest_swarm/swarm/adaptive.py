"""A concurrency that adapts: how many tasks in flight a system takes before they only wait for each other.

While a system has room, twice as many tasks in flight give twice the throughput at the same latency. Beyond its
capacity throughput stays and latency grows, and by Little's law the number that it really works on is its throughput
times the latency that it had while there was room. The controller doubles until throughput no longer follows, goes to
that number (as the congestion control BBR does with bandwidth and round-trip time), and now and then tries a bit more.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final, Literal

from pytest_swarm.columns import LimitStep

__all__ = ["Controller", "Trouble"]

Trouble = Literal["rate_limited", "timeout", "failed"]
"""Why a task is no sign of capacity: the first two say that there are too many in flight."""

WINDOW: Final = 100
"""Ended tasks by which a limit is judged, or `ROUNDS` for each in flight where that is more: fewer say little."""
ROUNDS: Final = 3
GAIN: Final = 0.5
"""Throughput has followed a change of the limit when it moved by at least this share of it."""
SOME_GAIN: Final = 0.2
"""The share by which it must at least move where latency says that there is room."""
REMEMBERED: Final = 1000
"""Latencies from which it is told whether latency holds."""
RISE: Final = 1.2
"""Latency holds up to this multiple of what it was while there was room."""
PROBE: Final = 1.25
"""By how much more is tried once the limit has been found."""
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
    latencies: Sequence[float]

    @property
    def mean(self) -> float:
        """By Little's law it tells with the throughput how many tasks are in flight."""
        return fmean(self.latencies)

    @property
    def median(self) -> float:
        """Queueing moves it at once, and a few slow answers do not."""
        return median(self.latencies)

    def followed_by(self, later: _Seen, gain: float) -> bool:
        """Whether more in flight gave more throughput."""
        return later.throughput >= self.throughput * (1 + gain * (later.limit / self.limit - 1))


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
        self._roomy: deque[float] = deque(maxlen=REMEMBERED)
        """The latest latencies while there was room: those of one window alone say little."""
        self._mean = self._median = math.inf
        """Of these."""
        self._holds = HOLDS
        self._settling = low
        self._began = 0.0
        self._clear()

    def _clear(self) -> None:
        self._ended = self._troubled = 0
        self._latencies: list[float] = []

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
        size = max(WINDOW, ROUNDS * self.limit)
        if trouble is None:
            self._latencies.append(latency)
        elif trouble != "failed":
            self._troubled += 1
            if self._troubled >= max(TROUBLES, TROUBLE_SHARE * size):
                self._change(now, self._backed_off(), self._seen(now))
                return self.limit
        if self._ended >= size and now > self._began:
            seen = self._seen(now)
            self._change(now, self.limit if seen is None else self._judge(seen), seen)
        return self.limit

    def _seen(self, now: float) -> _Seen | None:
        """The window so far; None when nothing ended well in it."""
        if not self._latencies or now <= self._began:
            return None
        return _Seen(self.limit, len(self._latencies) / (now - self._began), self._latencies)

    def _change(self, now: float, limit: int, seen: _Seen | None) -> None:
        limit = min(self._high, max(self._low, limit))
        if limit != self.limit:
            self._settling = max(limit, self.limit)
        before = (None, None) if seen is None else (seen.throughput, seen.mean)
        self._trace.append(LimitStep(now, limit, *before))
        self.limit = limit
        self._began = now
        self._clear()

    def _backed_off(self) -> int:
        self._judge, self._holds = self._hold, 2 * HOLDS
        return math.floor(self.limit * BACK_OFF)

    def _had_room(self, latencies: Sequence[float]) -> None:
        """These are latencies without waiting."""
        self._roomy.extend(latencies)
        self._mean, self._median = fmean(self._roomy), median(self._roomy)

    def _holds_up(self, seen: _Seen) -> bool:
        return seen.median <= RISE * self._median

    def _carried(self, seen: _Seen) -> int:
        """How many tasks the system really worked on: throughput times the latency without waiting."""
        return round(seen.throughput * self._mean)

    def _climb(self, seen: _Seen) -> int:
        """Twice as much, as long as there is room."""
        before = self._before
        if (
            before is None
            or before.followed_by(seen, GAIN)
            or (self._holds_up(seen) and before.followed_by(seen, SOME_GAIN))
        ):
            self._had_room(seen.latencies)
            self._before = seen
            if seen.limit < self._high:
                return 2 * seen.limit
            self._judge = self._hold
            return seen.limit
        self._judge = self._hold
        return min(seen.limit, self._carried(seen))

    def _hold(self, seen: _Seen) -> int:
        """The limit is right unless latency says otherwise; now and then it may have become too low."""
        if not self._holds_up(seen) and seen.mean > RISE * self._mean:
            self._judge, self._before = self._lowered, seen
            return min(seen.limit - 1, max(math.ceil(seen.limit / 2), self._carried(seen)))
        if self._holds_up(seen):
            # Those of the climb were too short: tasks that took long had not ended yet.
            self._had_room(seen.latencies)
        self._holds -= 1
        if self._holds > 0 or seen.limit == self._high:
            return seen.limit
        self._judge, self._before = self._probe, seen
        return math.ceil(seen.limit * PROBE)

    def _probe(self, seen: _Seen) -> int:
        """A little more was tried."""
        assert self._before is not None
        if self._holds_up(seen) and self._before.followed_by(seen, SOME_GAIN):
            self._before = seen
            if seen.limit < self._high:
                return math.ceil(seen.limit * PROBE)
        self._judge, self._holds = self._hold, HOLDS
        return self._before.limit

    def _lowered(self, seen: _Seen) -> int:
        """Less was tried, because latency had risen. Where that cost throughput, nothing had waited: it is so slow."""
        before = self._before
        assert before is not None
        self._judge, self._holds = self._hold, HOLDS
        if seen.followed_by(before, GAIN):
            self._had_room([*before.latencies, *seen.latencies])
            return before.limit
        return seen.limit
