"""The tap on httpx and on its fork httpx2, which the SDKs of model makers use: sync and async clients are measured.

One method is wrapped, `_send_single_request` of both clients: below it stands the transport, whichever that is. It is
wrapped when the library is loaded, so that whoever does not use it does not pay for it. Three things are measured:

- the send, when the transport takes the request's body to write it;
- the head, when the transport returns;
- each piece of the body, when the transport hands it over. httpx reads the socket only when it is asked to. An async
  event stream is therefore read ahead, in a task of its own, so that a body that reads late does not move these times.
  A sync client has nobody to read for it: there, the time of a piece is when the body asked for it, if it came before.
"""

from __future__ import annotations

import ssl
import sys
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from pytest_swarm.exchange import Ending, Exchange, Request
from pytest_swarm.tap import onimport
from pytest_swarm.tap.follow import check_host, follow, pass_by
from pytest_swarm.tap.playback import check_playable, play_async, play_sync
from pytest_swarm.tap.readahead import ReadAhead
from pytest_swarm.tap.routing import caller, outer_exchange

if TYPE_CHECKING:
    from pytest_swarm.exchange import Source

__all__ = ["Library", "decoder_of", "install", "uninstall"]

LIBRARIES: Final = ("httpx", "httpx2")

_METHOD: Final = "_send_single_request"

_originals: dict[type, Any] = {}


def install() -> None:
    """Wrap the libraries that are loaded, and the others when they will be. Does nothing when that is done already."""
    for name in LIBRARIES:
        onimport.on_import(f"{name}._client", lambda module, name=name: _wrap(Library(name), module))  # type: ignore[misc] # mypy cannot infer a lambda with a default


def uninstall() -> None:
    """Give the libraries back as they were."""
    onimport.forget_imports()
    for owner, original in _originals.items():
        setattr(owner, _METHOD, original)
    _originals.clear()


def _wrap(library: Library, module: ModuleType) -> None:
    for owner, wrapper in ((module.AsyncClient, _measured_async), (module.Client, _measured_sync)):
        if owner not in _originals:
            original = _originals[owner] = getattr(owner, _METHOD)
            setattr(owner, _METHOD, wrapper(library, original))


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
        if isinstance(request.stream, _Body):
            # A redirected request: it has the stream of the first, but not its content.
            return request.stream.content
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


def _about_tls(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error is not None


def _measured_async(library: Library, original: Any) -> Any:
    async def _send_single_request(self: Any, request: Any) -> Any:
        exchange, player = _exchange_for(library, request)
        if exchange is None:
            return await original(self, request)
        if player is not None:
            return await play_async(library.api, player, exchange, request)
        replaced = _take_body(library, request, exchange)
        token = outer_exchange.set(exchange)
        try:
            response = await original(self, request)
        except BaseException as error:
            _failed(library, exchange, error)
            raise
        finally:
            outer_exchange.reset(token)
            request.stream = replaced
        decode = _head(library, exchange, response)
        response.stream = library.async_stream(response.stream, exchange, decode)
        return response

    return _send_single_request


def _measured_sync(library: Library, original: Any) -> Any:
    def _send_single_request(self: Any, request: Any) -> Any:
        exchange, player = _exchange_for(library, request)
        if exchange is None:
            return original(self, request)
        if player is not None:
            return play_sync(library.api, player, exchange, request)
        replaced = _take_body(library, request, exchange)
        try:
            response = original(self, request)
        except BaseException as error:
            _failed(library, exchange, error)
            raise
        finally:
            request.stream = replaced
        decode = _head(library, exchange, response)
        response.stream = library.sync_stream(response.stream, exchange, decode)
        return response

    return _send_single_request


def _exchange_for(library: Library, request: Any) -> tuple[Exchange | None, Source | None]:
    """A new exchange for a model request of an agent or of its test, and the source that answers it without a network.

    No exchange for any other request, no source where the request is really sent.
    """
    context = caller()
    if context is None:
        return None, None
    check_host(context, request.url.host, request.url.path)
    check_playable(context, request.method, request.url.host, request.url.path)
    content = library.content_of(request)
    if content is None:
        pass_by(context, request.method, str(request.url))
        return None, None
    headers = {name.lower(): value for name, value in request.headers.items()}
    exchange = follow(context, Request(request.method, str(request.url), headers, content))
    return exchange, context.source if request.url.host == context.played else None


def _take_body(library: Library, request: Any, exchange: Exchange) -> Any:
    """Put a measured body into the request. Returns the one that was there."""
    replaced, request.stream = request.stream, library.body(exchange.request.body, exchange)
    return replaced


def _failed(library: Library, exchange: Exchange, error: BaseException) -> None:
    exchange.finish(exchange.clock(), library.ending_of(error, exchange), _describe(error))


def _head(library: Library, exchange: Exchange, response: Any) -> Decode:
    """Status and headers are there. Returns what undoes the compression of the body."""
    now = exchange.clock()
    if exchange.sent is None:
        # A transport that never takes the body, such as one that stands for a server.
        exchange.wrote(exchange.started)
    headers = {name.lower(): value for name, value in response.headers.items()}
    exchange.head(now, response.status_code, headers)
    return decoder_of(headers, library.api)


def _describe(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


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
        _failed(self.library, self._exchange, error)

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


Decode = Callable[[bytes], bytes]


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
    decoder = None if coding in ("", "identity") else known.get(coding)
    return None if decoder is None else decoder().decode
