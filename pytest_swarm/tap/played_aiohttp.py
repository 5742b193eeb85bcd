"""Answering a session of aiohttp from a source: a connection whose other end is not the network but the source.

aiohttp does everything else as always: it parses what comes, holds its timeouts, raises what it raises. What comes is
written as HTTP when the source says so, on the clock of the loop; the tap measures it as it measures any reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from pytest_swarm.errors import SwarmError
from pytest_swarm.exchange import Ending, Exchange
from pytest_swarm.reading import reader_factory

if TYPE_CHECKING:
    from pytest_swarm.exchange import Source

__all__ = ["Playing", "played_connect", "playing"]

_UNCONNECTED: Final = frozenset(
    (Ending.CONNECT_ERROR, Ending.TLS_ERROR, Ending.CONNECT_TIMEOUT, Ending.POOL_TIMEOUT, Ending.BUDGET)
)
_FRAMING: Final = frozenset(("connection", "content-length", "keep-alive", "transfer-encoding"))
"""Headers that speak of the connection; ours sends every body in chunks and is used once."""


def played_connect(original: Any) -> Any:
    """The method of connectors that opens a connection, for requests that a source answers too."""

    async def connect(self: Any, req: Any, traces: Any, timeout: Any) -> Any:  # noqa: ASYNC109 - aiohttp's signature
        player = playing.get()
        return await (original(self, req, traces, timeout) if player is None else player.connect(self, req))

    return connect


class Playing:
    """One request on its way to a source. `followed` is the attribute by which the tap knows a connection again."""

    def __init__(self, source: Source, exchange: Exchange, followed: str) -> None:
        self._source = source
        self._exchange = exchange
        self._followed = followed
        self._pump: asyncio.Task[None] | None = None

    async def connect(self, connector: aiohttp.BaseConnector, request: Any) -> Connection:
        """The connection, once the source takes the request. Raises what aiohttp would, or what the source refuses."""
        loop = asyncio.get_running_loop()
        protocol = ResponseHandler(loop)
        protocol.connection_made(_Transport(self))
        # Nobody else may get it from the pool.
        protocol.force_close()
        setattr(protocol, self._followed, self._exchange)
        line = _Line(self._exchange, protocol)
        self._pump = loop.create_task(self._play(line))
        waiting = loop.create_task(line.open.wait())
        try:
            await asyncio.wait({self._pump, waiting}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            self.leave()
            raise
        finally:
            waiting.cancel()
        if not line.open.is_set() or line.ending in _UNCONNECTED:
            self._failed(line, request)
        return Connection(connector, request.connection_key, protocol, loop)

    def _failed(self, line: _Line, request: Any) -> None:
        exchange = self._exchange
        if line.refused is not None:
            exchange.refused = line.refused
            exchange.finish(exchange.clock(), Ending.CANCELLED, str(line.refused))
            raise line.refused
        assert line.ending is not None
        exchange.finish(exchange.clock(), line.ending, line.error)
        text = line.error or line.ending.value
        if line.ending in (Ending.CONNECT_TIMEOUT, Ending.POOL_TIMEOUT):
            raise aiohttp.ConnectionTimeoutError(text)
        raise aiohttp.ClientConnectorError(request.connection_key, OSError(text))

    async def _play(self, line: _Line) -> None:
        try:
            async for _ in self._source.send(line):
                pass
        except SwarmError as error:
            line.refused = error

    def leave(self) -> None:
        """The client wants no more."""
        if self._pump is not None:
            self._pump.cancel()


playing: ContextVar[Playing | None] = ContextVar("pytest_swarm_playing", default=None)
"""Set around one request of aiohttp that a source answers."""


class _Transport(asyncio.Transport):
    """Takes what the client writes, and drops it: the source has the request already."""

    def __init__(self, player: Playing) -> None:
        super().__init__()
        self._player = player
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Nothing reads it."""

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        self._player.leave()

    abort = close

    def pause_reading(self) -> None:
        """Everything that has come is in memory already."""

    resume_reading = pause_reading


class _Line(Exchange):
    """What the source drives: every step becomes bytes for aiohttp's parser."""

    __slots__ = ("_early", "_outer", "_protocol", "open")

    def __init__(self, outer: Exchange, protocol: ResponseHandler) -> None:
        super().__init__(outer.request, reader_factory("chat"), outer.clock(), outer.clock, outer.asker)
        self.open = asyncio.Event()
        """Set when the request is under way."""
        self._outer = outer
        self._protocol: Any = protocol
        self._early: list[bytes] = []
        """Pieces that came before the head."""

    def wrote(self, now: float) -> None:
        super().wrote(now)
        self._outer.connect = self.connect
        self.open.set()

    def head(self, now: float, status: int, headers: Mapping[str, str]) -> None:
        self._outer.recorded = self.recorded
        self.status, self.headers, self.head_at = status, headers, self.offset(now)
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = ""
        lines = [f"HTTP/1.1 {status} {phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items() if name not in _FRAMING]
        lines.append("transfer-encoding: chunked\r\n\r\n")
        self._protocol.data_received("\r\n".join(lines).encode("utf-8", "surrogateescape"))
        early, self._early = self._early, []
        for data in early:
            self._send(data)
        if self.ending is not None:
            self._over()

    def feed(self, now: float, data: bytes) -> None:
        self.last_feed = self.offset(now)
        if self.status is None:
            self._early.append(data)
        else:
            self._send(data)

    def finish(self, now: float, ending: Ending, error: str = "") -> None:
        if self.ending is None:
            self.ended, self.ending, self.error = self.offset(now), ending, error
            self._over()

    def body_ended(self, now: float, ending: Ending, error: str = "") -> None:
        if self.ending is None:
            self.ended, self.ending, self.error = self.offset(now), ending, error

    def _send(self, data: bytes) -> None:
        if data:
            self._protocol.data_received(b"%x\r\n%b\r\n" % (len(data), data))

    def _over(self) -> None:
        self._outer.recorded = self.recorded
        if self.ending is Ending.COMPLETE and self._protocol.transport is not None:
            self._protocol.data_received(b"0\r\n\r\n")
        elif self.ending not in _UNCONNECTED:
            # As on a socket, whose end is met after what came before it was looked at.
            asyncio.get_running_loop().call_soon(self._break)

    def _break(self) -> None:
        protocol, text = self._protocol, self.error or str(self.ending)
        if protocol.transport is None or protocol.transport.is_closing():
            return
        if protocol._parser is None:
            # The client has the connection, and has not come to use it.
            asyncio.get_running_loop().call_soon(self._break)
            return
        failure: BaseException
        match self.ending:
            case Ending.FIRST_TOKEN_TIMEOUT | Ending.IDLE_TIMEOUT:
                failure = aiohttp.SocketTimeoutError(text)
            case Ending.TIMEOUT:
                failure = aiohttp.ServerTimeoutError(text)
            case Ending.CANCELLED:
                failure = aiohttp.ClientConnectionError(text)
            case _:
                protocol.connection_lost(None)
                return
        payload = protocol._payload
        protocol.set_exception(failure)
        if payload is not None:
            payload.set_exception(failure)
