"""How late a thread is at what it should do now: asked at evenly spaced moments, all of which count."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

    from pytest_swarm.clock import Now

__all__ = ["TICK", "Pulse", "pulse_of_loop", "pulse_of_threads"]

TICK: Final = 0.02
"""Seconds between two moments."""


class Pulse:
    """Something that should happen every `tick` seconds, and how late it happened.

    The moments are fixed beforehand. Where several are missed at a time, each counts with its own delay: what comes out
    is how long an event at a random moment would have had to wait.
    """

    def __init__(self, now: Now, in_flight: Callable[[], int], tick: float = TICK) -> None:
        self.lags = array("d")
        """Seconds from each moment to the beat after it."""
        self.beats = 0
        self._now = now
        self._in_flight = in_flight
        self._tick = tick
        self._began = now()
        self._running = 0

    def beat(self) -> float:
        """It happens now. Returns the seconds until it should again."""
        now, running = self._now(), self._in_flight()
        self.beats += 1
        # Multiples of the tick, not sums: those would drift.
        while (moment := self._began + (len(self.lags) + 1) * self._tick) <= now:
            self.lags.append(now - moment)
            self._running += running
        return moment - now

    @property
    def in_flight_mean(self) -> float | None:
        """The mean over the moments of how many tasks were in flight; None before the first."""
        return self._running / len(self.lags) if self.lags else None


@contextmanager
def pulse_of_loop(pulse: Pulse, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let the running `loop` beat for the length of the block."""
    timer: asyncio.TimerHandle | None = None

    def beat() -> None:
        nonlocal timer
        timer = loop.call_later(pulse.beat(), beat)

    beat()
    try:
        yield
    finally:
        assert timer is not None
        timer.cancel()
        # What blocked the loop until now is over before the timer could tell.
        pulse.beat()


@contextmanager
def pulse_of_threads(pulse: Pulse) -> Iterator[None]:
    """Let a thread beat for the length of the block: it waits for the interpreter's lock as every other one does."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(pulse.beat()):
            pass

    thread = threading.Thread(target=beat, name="swarm-pulse", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
