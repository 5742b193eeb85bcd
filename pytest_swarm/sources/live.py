"""The live source: requests of `gateway.*` go out through aiohttp, where the tap measures them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Final, Self

import aiohttp

from pytest_swarm.exchange import Ending, Exchange

__all__ = ["LiveSource", "current_exchange"]

current_exchange: ContextVar[Exchange | None] = ContextVar("pytest_swarm_exchange", default=None)
"""Set around one send: the tap then drives this exchange instead of opening a call for an unknown client."""

READ_BUFFER: Final = 2**20
"""Bytes that may wait in a stream's buffer before the socket is told to slow down: a burst is not a slow reader."""
RECONNECTED: Final = "reconnected: the server had closed the idle connection"
_USED: Final = "_pytest_swarm_used"


class _Connector(aiohttp.TCPConnector):
    """Tells the exchange how long a new connection took."""

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:  # noqa: ASYNC109 - aiohttp's signature
        exchange = current_exchange.get()
        began = 0.0 if exchange is None else exchange.clock()
        connection = await super().connect(req, traces, timeout)
        if exchange is not None and not getattr(connection.protocol, _USED, False):
            exchange.connect = exchange.clock() - began
            setattr(connection.protocol, _USED, True)
        return connection


class LiveSource:
    """Sends over the network. Use it as an async context manager on the loop that sends.

    Timeouts are not its business: whoever consumes `send` closes it when a deadline has passed.
    """

    def __init__(self) -> None:
        self._pooled: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None
        self._reading: set[aiohttp.ClientResponse] = set()

    async def __aenter__(self) -> Self:
        self._pooled = _session(force_close=False)
        self._fresh = _session(force_close=True)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for response in self._reading:
            # Whoever still reads, in a task that nobody waits for, would else wait on a closed connection for ever.
            response.content.set_exception(aiohttp.ClientConnectionError("the run is over"))
        for session in (self._pooled, self._fresh):
            if session is not None:
                await session.close()
        self._pooled = self._fresh = None

    async def send(self, exchange: Exchange) -> AsyncIterator[None]:
        """See `exchange.Source.send`."""
        if self._pooled is None:
            # Outside of a run (a fixture, a single question): a session of its own, closed at once.
            async with LiveSource() as source, aclosing(source.send(exchange)) as growth:  # type: ignore[type-var]
                async for _ in growth:
                    yield
            return
        assert self._fresh is not None
        response = await self._post(self._pooled, exchange)
        if response is None and _was_stale(exchange):
            exchange.restart(RECONNECTED)
            response = await self._post(self._fresh, exchange)
        if response is None:
            return
        self._reading.add(response)
        try:
            yield
            async for _ in response.content.iter_any():
                yield
        except (aiohttp.ClientError, TimeoutError, OSError):
            pass  # the tap has finished the exchange with it
        finally:
            self._reading.discard(response)
            if exchange.ending is None:
                exchange.finish(exchange.clock(), Ending.CANCELLED)
            response.release()

    async def _post(self, session: aiohttp.ClientSession, exchange: Exchange) -> aiohttp.ClientResponse | None:
        """The response once its head is there; None when there is none, and the exchange says why."""
        request = exchange.request
        token = current_exchange.set(exchange)
        try:
            return await session.request(
                request.method, request.url, headers=dict(request.headers), allow_redirects=False
            )
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
        finally:
            current_exchange.reset(token)


def _session(*, force_close: bool) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=_Connector(limit=0, force_close=force_close),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        read_bufsize=READ_BUFFER,
        auto_decompress=True,
    )


def _was_stale(exchange: Exchange) -> bool:
    """The peer hung up on a connection that it had advertised as kept alive, before it answered anything."""
    return (
        exchange.ending is Ending.DISCONNECTED
        and exchange.connect is None
        and exchange.sent is not None
        and exchange.last_feed is None
    )
