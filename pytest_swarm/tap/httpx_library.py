"""What the tap makes of httpx and of its fork httpx2: streams that tell what passes through them, exceptions read."""

from __future__ import annotations

import ssl
import sys
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from pytest_swarm.exchange import Ending, Exchange
from pytest_swarm.tap.readahead import ReadAhead

__all__ = ["Library"]

Decode = Callable[[bytes], bytes]
"""Undoes the compression of a body, piece by piece."""


class Library:
    """One of the two libraries: what is made of its classes."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def api(self) -> Any:
        """The package; it is loaded when a request is made."""
        return sys.modules[self.name]

    @cached_property
    def body(self) -> Callable[[bytes, Exchange], Any]:
        """Makes a request's body that tells when it is taken."""
        api = self.api
        return type("MeasuredBody", (_Body, api.AsyncByteStream, api.SyncByteStream), {})

    @cached_property
    def async_stream(self) -> Callable[[Any, Exchange, Decode], Any]:
        """Makes a response's body that tells what passes through it."""
        return type("MeasuredStream", (_AsyncStream, self.api.AsyncByteStream), {"library": self})

    @cached_property
    def sync_stream(self) -> Callable[[Any, Exchange, Decode], Any]:
        """See `async_stream`."""
        return type("MeasuredStream", (_SyncStream, self.api.SyncByteStream), {"library": self})

    def content_of(self, request: Any) -> bytes | None:
        """The body of a request; None for one that is made while it is sent, which no model request is."""
        try:
            content: bytes = request.content
        except self.api.RequestNotRead:
            return None
        return content

    def ending_of(self, error: BaseException, exchange: Exchange) -> Ending:
        """Which ending an exception stands for."""
        api = self.api
        kinds = (
            (api.ConnectTimeout, Ending.CONNECT_TIMEOUT),
            (api.PoolTimeout, Ending.POOL_TIMEOUT),
            (api.ReadTimeout, Ending.FIRST_TOKEN_TIMEOUT if exchange.last_feed is None else Ending.IDLE_TIMEOUT),
            ((api.TimeoutException, TimeoutError), Ending.TIMEOUT),
            (api.ConnectError, Ending.TLS_ERROR if _about_tls(error) else Ending.CONNECT_ERROR),
            ((api.UnsupportedProtocol, api.ProxyError, api.InvalidURL), Ending.CONNECT_ERROR),
        )
        if not isinstance(error, Exception):
            return Ending.CANCELLED
        return next((ending for kind, ending in kinds if isinstance(error, kind)), Ending.DISCONNECTED)

    def failed(self, exchange: Exchange, error: BaseException) -> None:
        """The request, or the reading of its reply, ended with an exception."""
        exchange.finish(exchange.clock(), self.ending_of(error, exchange), _describe(error))

    def measured_body(self, exchange: Exchange, response: Any, *, is_async: bool) -> Any:
        """Tell the exchange status and headers. Returns a stream in place of the response's own."""
        now = exchange.clock()
        if exchange.sent is None:
            # A transport that never takes the body, such as one that stands for a server.
            exchange.wrote(exchange.started)
        headers = {name.lower(): value for name, value in response.headers.items()}
        exchange.head(now, response.status_code, headers)
        if response.is_stream_consumed:
            # Nothing was read from anywhere: a transport that makes its replies whole, in a test for example.
            exchange.feed(now, response.content)
            exchange.finish(now, Ending.COMPLETE)
            return response.stream
        make = self.async_stream if is_async else self.sync_stream
        return make(response.stream, exchange, decoder_of(headers, self.api))


def _describe(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _about_tls(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error is not None


class _Body:
    """The body of a request: tells its exchange when the transport takes it."""

    def __init__(self, content: bytes, exchange: Exchange) -> None:
        self.content = content
        self._exchange = exchange

    def __iter__(self) -> Iterator[bytes]:
        self._exchange.wrote(self._exchange.clock())
        yield self.content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._exchange.wrote(self._exchange.clock())
        yield self.content


class _Stream:
    """What the two kinds of response streams share."""

    library: Library

    def __init__(self, inner: Any, exchange: Exchange, decode: Decode) -> None:
        self._inner = inner
        self._exchange = exchange
        self._decode = decode

    @property
    def elapsed(self) -> Any:
        """httpx2 asks a response's stream how long it took."""
        return self._inner.elapsed

    def _arrived(self, chunk: bytes) -> None:
        now = self._exchange.clock()
        try:
            data = self._decode(chunk)
        except Exception as error:  # noqa: BLE001 - a decoder raises what it likes; the client will find the same
            self._failed(error)
            return
        if data and self._exchange.ending is None:
            self._exchange.feed(now, data)

    def _ended(self) -> None:
        self._exchange.finish(self._exchange.clock(), Ending.COMPLETE)

    def _failed(self, error: BaseException) -> None:
        self.library.failed(self._exchange, error)

    def _closed(self) -> None:
        """It was read to its end before, or nobody will."""
        self._exchange.finish(self._exchange.clock(), Ending.CANCELLED, "the response was closed before its end")


class _AsyncStream(_Stream):
    """The body of an async response: a stream of events is read ahead, anything else when it is asked for."""

    def __init__(self, inner: Any, exchange: Exchange, decode: Decode) -> None:
        super().__init__(inner, exchange, decode)
        self._ahead: ReadAhead | None = None
        if "text/event-stream" in exchange.headers.get("content-type", ""):
            self._ahead = ReadAhead.start(self._measured())

    async def _measured(self) -> AsyncGenerator[bytes]:
        try:
            async for chunk in self._inner:
                self._arrived(chunk)
                yield chunk
        except GeneratorExit:
            raise
        except BaseException as error:
            self._failed(error)
            raise
        self._ended()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._measured() if self._ahead is None else self._ahead.pieces()

    async def aclose(self) -> None:
        try:
            if self._ahead is not None:
                await self._ahead.stop()
            await self._inner.aclose()
        finally:
            self._closed()


class _SyncStream(_Stream):
    """The body of a sync response."""

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._inner:
                self._arrived(chunk)
                yield chunk
        except GeneratorExit:
            raise
        except BaseException as error:
            self._failed(error)
            raise
        self._ended()

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            self._closed()


def decoder_of(headers: Mapping[str, str], api: Any) -> Decode:
    """What undoes the `content-encoding` of a response piece by piece; nothing where that is not known."""
    codings = [coding.strip().lower() for coding in headers.get("content-encoding", "").split(",")]
    steps = [step for coding in reversed(codings) if (step := _decoder(coding, api)) is not None]
    if not steps:
        return lambda data: data

    def decode(data: bytes) -> bytes:
        for step in steps:
            data = step(data)
        return data

    return decode


def _decoder(coding: str, api: Any) -> Decode | None:
    if coding == "gzip":
        return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress
    # Others need packages that the library found or did not find when it was loaded.
    known = sys.modules[f"{api.__name__}._decoders"].SUPPORTED_DECODERS
    make = None if coding in ("", "identity") else known.get(coding)
    if make is None:
        return None
    decoder = make()

    def decode(data: bytes) -> bytes:
        # httpx2 gives the text in bounded pieces, httpx whole.
        pieces = decoder.decode(data)
        return pieces if isinstance(pieces, bytes) else b"".join(pieces)

    return decode
