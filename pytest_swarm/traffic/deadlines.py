"""The four timeouts of a call, each from what it is measured: connect, first token, idle, total."""

from __future__ import annotations

import asyncio
from typing import Protocol

from pytest_swarm.exchange import Ending, Exchange

__all__ = ["Deadlines", "Limits"]


class Limits(Protocol):
    """Seconds, each None where it is not bounded."""

    @property
    def connect(self) -> float | None:
        """From the start of an attempt until its body is written."""

    @property
    def first_token(self) -> float | None:
        """From the send to the first generated piece, or to the first bytes of a reply that is not streamed."""

    @property
    def idle(self) -> float | None:
        """Between two reads, from the first bytes on."""

    @property
    def total(self) -> float | None:
        """From the start of the first attempt to the end of the last, waits between them included."""


class Deadlines:
    """Ends the exchange and the block when one of the limits is passed.

    One timer stands at a time; it is not moved with every chunk, but looks when it fires what has happened since.
    """

    def __init__(self, exchange: Exchange, limits: Limits, total_at: float | None) -> None:
        self._exchange = exchange
        self._limits = limits
        self._total_at = total_at
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._expired = False

    async def __aenter__(self) -> None:
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        self._look()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        if not self._expired:
            return False
        assert self._task is not None
        ours = self._task.uncancel() <= self._cancelling
        return ours and kind is not None and issubclass(kind, asyncio.CancelledError)

    def _look(self) -> None:
        """Expire, or set the timer to the nearest limit that still counts."""
        exchange = self._exchange
        if exchange.ending is not None:
            return
        now = exchange.clock()
        pending = self._pending()
        nearest = min(pending, default=None, key=lambda limit: limit[0])
        if nearest is None or now < nearest[0]:
            # A limit that does not count yet (idle, before the first bytes) can be passed one length from now at the
            # earliest: so no look comes too late.
            delays = [limit for limit in (self._limits.first_token, self._limits.idle) if limit is not None]
            if nearest is not None:
                delays.append(nearest[0] - now)
            self._timer = asyncio.get_running_loop().call_later(min(delays), self._look) if delays else None
            return
        _, ending, what = nearest
        self._expired = True
        exchange.finish(now, ending, what)
        assert self._task is not None
        self._task.cancel()

    def _pending(self) -> list[tuple[float, Ending, str]]:
        exchange, limits = self._exchange, self._limits
        pending: list[tuple[float, Ending, str]] = []
        if self._total_at is not None:
            pending.append((self._total_at, Ending.TIMEOUT, f"not finished within {limits.total:g} s"))
        if exchange.sent is None:
            if limits.connect is not None:
                at = exchange.started + limits.connect
                pending.append((at, Ending.CONNECT_TIMEOUT, f"not connected within {limits.connect:g} s"))
            return pending
        if limits.first_token is not None and not _has_begun(exchange):
            at = exchange.sent + limits.first_token
            pending.append((at, Ending.FIRST_TOKEN_TIMEOUT, f"no token within {limits.first_token:g} s"))
        if limits.idle is not None and exchange.last_feed is not None:
            at = exchange.sent + exchange.last_feed + limits.idle
            pending.append((at, Ending.IDLE_TIMEOUT, f"silent for {limits.idle:g} s"))
        return pending


def _has_begun(exchange: Exchange) -> bool:
    """Whether the first token is there; a reply that is not streamed has begun with its first bytes."""
    reader = exchange.drain()
    if reader is None:
        return False
    streamed = "text/event-stream" in exchange.headers.get("content-type", "")
    return reader.first_token is not None if streamed else exchange.last_feed is not None
