"""Holding requests back until the limits of a plan let them go, first come first served.

Tasks of event loops and plain threads wait in the same line. Whoever is woken lets go everybody whose time has come, so
that only the first in line needs a timer: the others sleep until they are the first, or are let go.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_swarm.traffic.bucket import SLACK, Buckets
from pytest_swarm.traffic.guess import TokenGuess
from pytest_swarm.values import Limit

if TYPE_CHECKING:
    from pytest_swarm.clock import Now

__all__ = ["Limiter", "Ticket"]


@dataclass(frozen=True, slots=True)
class Ticket:
    """A request that was let go."""

    model: str | None
    tokens: int
    """As guessed; 0 where no limit counts them."""
    waited: float
    """Seconds for which it was held back; exactly 0 if it was not."""


class Limiter:
    """The limits of one run, for all its tasks. Safe to use from several threads and event loops.

    `now` is the clock of the run; the event loops of async waiters must keep the same time.
    """

    def __init__(self, limits: Sequence[Limit], now: Now) -> None:
        self._buckets = Buckets(limits)
        self._now = now
        self._guess = TokenGuess()
        self._line: deque[_Waiter] = deque()
        # Of one thread: the collector may end an abandoned wait at any place, inside a locked block too.
        self._lock: Final = threading.RLock()

    async def acquire(self, model: str | None, body: bytes) -> Ticket:
        """Wait until a request with this body may be sent. A cancelled wait takes nothing."""
        waiter = _Sleeper(self._tokens(model, body))
        ticket = self._join(waiter, model)
        if ticket is not None:
            return ticket
        began = self._now()
        try:
            while (delay := self._look(waiter)) is not None:
                await waiter.sleep(delay)
        except BaseException:
            self._withdraw(waiter)
            raise
        return Ticket(model, waiter.tokens, self._now() - began)

    def acquire_blocking(self, model: str | None, body: bytes) -> Ticket:
        """As `acquire`, for a thread: it sleeps on the real clock, which must be that of the run."""
        waiter = _Thread(self._tokens(model, body))
        ticket = self._join(waiter, model)
        if ticket is not None:
            return ticket
        began = self._now()
        try:
            while (delay := self._look(waiter)) is not None:
                waiter.sleep(delay)
        except BaseException:
            self._withdraw(waiter)
            raise
        return Ticket(model, waiter.tokens, self._now() - began)

    def take(self, model: str | None, body: bytes) -> Ticket:
        """Count a request that nobody can hold back; those behind it wait for it."""
        tokens = self._tokens(model, body)
        with self._lock:
            self._buckets.take(1.0, tokens, self._now())
        return Ticket(model, tokens, 0.0)

    def settle(self, ticket: Ticket, tokens: int | None, output_tokens: int | None = None) -> None:
        """The request is over and came to `tokens`, or to as many as guessed where that is None.

        `output_tokens` of a reply make the next guess better.
        """
        if not self._buckets.counts_tokens:
            return
        with self._lock:
            if output_tokens is not None:
                self._guess.learn(ticket.model, output_tokens)
            if tokens is not None and tokens != ticket.tokens:
                self._buckets.take(0.0, tokens - ticket.tokens, self._now())
                self._look_again()

    def give_back(self, ticket: Ticket) -> None:
        """The request was never sent."""
        with self._lock:
            self._put_back(ticket.tokens)

    def _tokens(self, model: str | None, body: bytes) -> int:
        if not self._buckets.counts_tokens:
            return 0
        with self._lock:
            return self._guess.tokens(model, body)

    def _join(self, waiter: _Waiter, model: str | None) -> Ticket | None:
        """Stand in line; a ticket where that turned out not to be needed."""
        with self._lock:
            self._line.append(waiter)
            self._move()
            return Ticket(model, waiter.tokens, 0.0) if waiter.free else None

    def _look(self, waiter: _Waiter) -> float | None:
        """None when the waiter may go; else for how many seconds it should sleep unless it is woken."""
        with self._lock:
            self._move()
            if waiter.free:
                return None
            if self._line[0] is not waiter and not waiter.blocks_a_loop:
                return math.inf
            return self._buckets.ready_at(self._line[0].tokens, self._now()) - self._now()

    def _move(self) -> None:
        """Let go from the front of the line whoever may; the first that may not looks when its time comes."""
        now = self._now()
        moved = False
        while self._line and self._buckets.ready_at(self._line[0].tokens, now) <= now + SLACK:
            waiter = self._line.popleft()
            self._buckets.take(1.0, waiter.tokens, now)
            waiter.free = moved = True
            waiter.wake()
        if moved and self._line:
            self._line[0].wake()

    def _withdraw(self, waiter: _Waiter) -> None:
        """The waiter has given up: its place is the next one's, and what it may have been given already."""
        with self._lock:
            if waiter.free:
                self._put_back(waiter.tokens)
                return
            self._line.remove(waiter)
            self._look_again()

    def _put_back(self, tokens: int) -> None:
        self._buckets.take(-1.0, -tokens, self._now())
        self._look_again()

    def _look_again(self) -> None:
        """Who is the first, or when its time comes, may have changed."""
        self._move()
        if self._line:
            self._line[0].wake()


class _Waiter:
    """One request in line."""

    blocks_a_loop = False
    """It keeps an event loop from running, on which those before it may wait for their timers: it wakes for them."""

    def __init__(self, tokens: int) -> None:
        self.tokens: Final = tokens
        self.free = False
        """It may go."""

    def wake(self) -> None:
        """Have it look again; from any thread. It does not matter whether it sleeps yet."""
        raise NotImplementedError


class _Thread(_Waiter):
    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self._woken = threading.Event()
        self.blocks_a_loop = _loop_runs_here()

    def wake(self) -> None:
        self._woken.set()

    def sleep(self, seconds: float) -> None:
        self._woken.wait(None if math.isinf(seconds) else min(seconds, threading.TIMEOUT_MAX))
        self._woken.clear()


class _Sleeper(_Waiter):
    """Waits on the running loop."""

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._asleep: asyncio.Future[None] | None = None
        self._woken = False

    def wake(self) -> None:
        if threading.get_ident() == self._thread:
            self._rouse()
        else:
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._rouse)

    def _rouse(self) -> None:
        self._woken = True
        if self._asleep is not None and not self._asleep.done():
            self._asleep.set_result(None)

    async def sleep(self, seconds: float) -> None:
        if not self._woken:
            self._asleep = self._loop.create_future()
            timer: Any = None if math.isinf(seconds) else self._loop.call_later(seconds, self._rouse)
            try:
                await self._asleep
            finally:
                self._asleep = None
                if timer is not None:
                    timer.cancel()
        self._woken = False


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
