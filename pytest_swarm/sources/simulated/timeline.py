"""The time in which a simulated system lives: a clock that can call back, as an event loop is one.

Everything in this room reads time and waits through a `Timeline` only. An asyncio loop is one already, on real or on
virtual time; `ScaledTimeline` makes it run faster, and `EventTimeline` needs no loop at all.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["EventTimeline", "ScaledTimeline", "Timeline", "Timer"]


class Timer(Protocol):
    """A callback that waits for its time."""

    def cancel(self) -> None:
        """Never call it."""


class Timeline(Protocol):
    """Seconds that pass, and callbacks at points of them; the part of an event loop that is needed here."""

    def time(self) -> float:
        """Seconds since an arbitrary start."""

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call back at `when`, or at once if that has passed."""


class ScaledTimeline:
    """A timeline on which `speed` seconds pass in one second of `base`."""

    def __init__(self, base: Timeline, speed: float) -> None:
        self._base = base
        self._speed = speed
        self._zero = base.time()

    def time(self) -> float:
        """Seconds since it was made, `speed` times those of the base."""
        return (self._base.time() - self._zero) * self._speed

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call back when this timeline shows `when`."""
        return self._base.call_at(self._zero + when / self._speed, callback, *args)


class _Event:
    __slots__ = ("args", "callback")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args

    def cancel(self) -> None:
        self.callback = None


class EventTimeline:
    """Time that jumps from event to event: a simulation of hours, without an event loop, in a moment."""

    def __init__(self) -> None:
        self._now = 0.0
        self._order = itertools.count()
        self._events: list[tuple[float, int, _Event]] = []

    def time(self) -> float:
        """Seconds since the start, 0.0."""
        return self._now

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call back at `when`; what is due at the same time is called in order of arrival."""
        event = _Event(callback, args)
        heapq.heappush(self._events, (max(when, self._now), next(self._order), event))
        return event

    def run(self, until: float | None = None) -> None:
        """Call everything back that is due by `until`, in order of time; without it, until nothing is left."""
        events = self._events
        while events and (until is None or events[0][0] <= until):
            self._now, _, event = heapq.heappop(events)
            if event.callback is not None:
                event.callback(*event.args)
        if until is not None:
            self._now = max(self._now, until)
