"""Real and virtual time behind one function, `now()`.

Virtual time exists only while `virtual_time(loop)` is entered: it swaps what the running loop believes about time, and
gives it back. The loop then jumps to its next timer whenever nothing else can wake it, so a run of minutes takes
milliseconds, and the same run gives the same figures to the last bit.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast

from pytest_swarm.errors import SwarmError

__all__ = ["Now", "RunClock", "VirtualClock", "VirtualTimeError", "real_now", "scaled_time", "virtual_time"]

Now = Callable[[], float]
"""Seconds on a monotonic clock with an arbitrary start."""

real_now: Now = time.monotonic

GRACE_SECONDS = 5.0
"""Real seconds that a virtual run waits for a thread or a socket before it calls itself stuck."""
ASK_EVERY = 32
"""Rounds of the loop between two questions to the system what is ready, while nothing can be: each is a system call."""
IDLE_JUMPS = 1_000_000
"""Jumps of the clock without any progress of the run after which it calls itself stuck."""


class VirtualTimeError(SwarmError):
    """This event loop cannot run on virtual time, or a run on it can never end."""


class _OrderedTimer(asyncio.TimerHandle):
    """A timer that keeps first-come order among equal deadlines; asyncio's own order is that of a heap."""

    __slots__ = ("_order",)

    def __init__(self, order: int, *args: Any) -> None:
        super().__init__(*args)
        self._order = order

    def __lt__(self, other: Any) -> bool:
        mine: float = self.when()
        theirs: float = other.when()
        if mine == theirs and isinstance(other, _OrderedTimer):
            return self._order < other._order
        return mine < theirs


class _VirtualSelector:
    """Stands in for the loop's selector: instead of sleeping, it moves the clock."""

    def __init__(self, real: selectors.BaseSelector, on_stuck: Callable[[str], None]) -> None:
        self.now = 0.0
        self.threads = 0
        self.jumps = 0
        self._real = real
        self._on_stuck = on_stuck
        self._sockets = real.get_map()
        self._sockets_before = len(self._sockets)
        self._unasked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._ready(timeout)
        if ready or timeout == 0:
            return ready
        if len(self._sockets) > self._sockets_before:
            return self._select_in_real_time(timeout)
        if self.threads or timeout is None:
            # A thread works: the clock stands still for it. (It may itself wait for a timer: hence not for ever.)
            ready = self._real.select(GRACE_SECONDS)
            if ready or timeout is not None:
                return ready
            self._on_stuck("every task waits and nothing is left that could wake one")
            return []
        self.now += max(timeout, 0.0)
        self.jumps += 1
        if self.jumps > IDLE_JUMPS:
            self.jumps = 0
            self._on_stuck(f"{IDLE_JUMPS:,} timers in a row fired without a call or a task getting on")
        return []

    def _ready(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now. Where no thread works and no socket is open, the system is only asked now and then."""
        self._unasked += 1
        idle = not self.threads and len(self._sockets) <= self._sockets_before
        if idle and timeout is not None and self._unasked < ASK_EVERY:
            return []
        self._unasked = 0
        return self._real.select(0)

    def _select_in_real_time(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """A real socket is open: its peer knows nothing of our clock, so ours follows the real one."""
        began = time.monotonic()
        ready = self._real.select(timeout)
        self.now += time.monotonic() - began
        return ready


class RunClock(Protocol):
    """The clock of a run that is not the real one."""

    def now(self) -> float:
        """Seconds since its start."""

    def progress(self) -> None:
        """Something of the run got on: it is not stuck."""


class VirtualClock:
    """The clock of one virtual run; starts at 0.0 so that its figures do not depend on when it was started."""

    def __init__(self, selector: _VirtualSelector) -> None:
        self._selector = selector

    def now(self) -> float:
        """Virtual seconds since the start."""
        return self._selector.now

    def progress(self) -> None:
        """Something of the run got on: it is not stuck."""
        self._selector.jumps = 0


@contextmanager
def virtual_time(loop: asyncio.AbstractEventLoop, on_stuck: Callable[[str], None]) -> Iterator[VirtualClock]:
    """Put the running `loop` on virtual time for the length of the block.

    `on_stuck(reason)` is called from inside the loop when the run can never end; it should cancel it. Timers that
    others left on the loop keep their distance from now, on entry and on exit.

    Raises `VirtualTimeError` for a loop that is not asyncio's own (uvloop).
    """
    state = _asyncio_loop(loop)
    selector = _VirtualSelector(state._selector, on_stuck)
    order = itertools.count()

    def call_at(when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        timer: Any = _OrderedTimer(next(order), when, callback, args, loop, context)
        heapq.heappush(state._scheduled, timer)
        timer._scheduled = True
        return cast("asyncio.TimerHandle", timer)

    run_in_executor = loop.run_in_executor

    def counted_run_in_executor(executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        selector.threads += 1
        future = run_in_executor(executor, func, *args)

        def done(_: object) -> None:
            selector.threads -= 1

        future.add_done_callback(done)
        return future

    real_selector = state._selector
    _shift_timers(state, -loop.time())
    state.time, state._selector = lambda: selector.now, selector
    state.call_at, state.run_in_executor = call_at, counted_run_in_executor
    try:
        yield VirtualClock(selector)
    finally:
        for name in ("time", "call_at", "run_in_executor"):
            delattr(state, name)
        state._selector = real_selector
        _shift_timers(state, loop.time() - selector.now)


class _ScaledSelector:
    """Stands in for the loop's selector: waits for so much shorter than the loop thinks."""

    def __init__(self, real: selectors.BaseSelector, speed: float) -> None:
        self._real = real
        self._speed = speed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return self._real.select(None if timeout is None else timeout / self._speed)


class _ScaledClock:
    """The clock of one run at another speed."""

    def __init__(self, speed: float) -> None:
        self._began = time.monotonic()
        self._speed = speed

    def now(self) -> float:
        return (time.monotonic() - self._began) * self._speed

    def progress(self) -> None:
        """Real time goes on by itself."""


@contextmanager
def scaled_time(loop: asyncio.AbstractEventLoop, speed: float) -> Iterator[RunClock]:
    """Let `speed` seconds of the running `loop` pass in one real second for the length of the block.

    Timers that others left on the loop keep their distance from now, as with `virtual_time`; so do the errors.
    """
    state = _asyncio_loop(loop)
    clock, real_selector = _ScaledClock(speed), state._selector
    _shift_timers(state, -loop.time())
    state.time, state._selector = clock.now, _ScaledSelector(real_selector, speed)
    try:
        yield clock
    finally:
        now = clock.now()
        del state.time
        state._selector = real_selector
        _shift_timers(state, loop.time() - now)


def _asyncio_loop(loop: asyncio.AbstractEventLoop) -> Any:
    """The loop, if it has the attributes of asyncio's own that hold its time; another implementation has none."""
    state: Any = loop
    if not isinstance(getattr(state, "_selector", None), selectors.BaseSelector) or not hasattr(state, "_scheduled"):
        raise VirtualTimeError(
            f"virtual time needs asyncio's own event loop, not {type(loop).__module__}.{type(loop).__name__}; "
            "use the default loop policy, or --swarm-clock real"
        )
    return state


def _shift_timers(loop: Any, seconds: float) -> None:
    for timer in loop._scheduled:
        timer._when += seconds
    heapq.heapify(loop._scheduled)
