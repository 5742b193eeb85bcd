"""The tap on aiohttp: every session of the process is measured while an agent's task uses it.

Places of aiohttp are wrapped, once per process and for the length of the pytest run:

- `ClientSession._request`, to see a request and to follow it if an agent makes it;
- the request's body, replaced by one that notes the time at which it is written to the socket;
- `StreamReader.feed_data`, `feed_eof` and `set_exception`, where the parser hands over what it took from the socket: a
  body that reads late does not move these times;
- `BaseConnector.connect`, for requests that are answered without a network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import aiohttp
from aiohttp import payload, streams
from aiohttp.abc import AbstractStreamWriter

from pytest_swarm.exchange import Ending, Exchange, Request
from pytest_swarm.sources.live import current_exchange
from pytest_swarm.tap.follow import check_host, follow, is_played, pass_by
from pytest_swarm.tap.playback import check_playable
from pytest_swarm.tap.played_aiohttp import Playing, played_connect, playing
from pytest_swarm.tap.routing import caller, outer_exchange

__all__ = ["describe", "ending_of", "install", "lower_names", "uninstall"]

_FOLLOWED: Final = "_pytest_swarm_exchange"
"""Attribute of a connection's protocol: the exchange that is on this connection now."""

_originals: dict[tuple[type, str], Any] = {}


class MeasuredPayload(payload.BytesPayload):
    """A request body that tells the exchange when it is written, and the connection which exchange it carries."""

    def __init__(self, exchange: Exchange, content_type: str, *, with_reply: bool = True) -> None:
        """Without the reply, only the send is told: somebody else follows what comes back."""
        super().__init__(exchange.request.body, content_type=content_type)
        self._exchange = exchange
        self._with_reply = with_reply
        self._protocol: Any = None
        """The connection on which it was written."""

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write, with the time taken just before."""
        exchange = self._exchange
        if self._with_reply:
            if self._protocol is not None:
                _release(self._protocol)
                exchange.redirected()
            self._protocol = writer.protocol  # type: ignore[attr-defined] # the abstract writer does not name it
            setattr(self._protocol, _FOLLOWED, exchange)
        exchange.wrote(exchange.clock())
        await super().write_with_length(writer, content_length)


def install() -> None:
    """Wrap aiohttp. Does nothing when that is done already."""
    if _originals:
        return
    _replace(aiohttp.ClientSession, "_request", _measured_request)
    _replace(aiohttp.BaseConnector, "connect", played_connect)
    _replace(streams.StreamReader, "feed_data", _measured_feed_data)
    _replace(streams.StreamReader, "feed_eof", _measured_feed_eof)
    _replace(streams.StreamReader, "set_exception", _measured_set_exception)


def uninstall() -> None:
    """Give aiohttp back as it was."""
    for (owner, name), original in _originals.items():
        setattr(owner, name, original)
    _originals.clear()


def _replace(owner: type, name: str, wrapper: Callable[[Any], Any]) -> None:
    original = _originals[owner, name] = getattr(owner, name)
    setattr(owner, name, wrapper(original))


def _measured_request(original: Any) -> Any:
    async def _request(self: aiohttp.ClientSession, method: str, str_or_url: Any, **kwargs: Any) -> Any:
        exchange = current_exchange.get()
        if exchange is not None:
            body = _Body(exchange.request.body, "application/json")
            return await _follow_request(original, self, method, str_or_url, kwargs, exchange, body)
        exchange = outer_exchange.get()
        if exchange is not None:
            # A transport of httpx: httpx is measured itself, but only here is known when the body is written.
            if kwargs.get("data") == exchange.request.body:
                kwargs["data"] = MeasuredPayload(exchange, "application/json", with_reply=False)
            return await original(self, method, str_or_url, **kwargs)
        context = caller()
        if context is None:
            return await original(self, method, str_or_url, **kwargs)
        url = self._build_url(str_or_url)
        if not is_played(context, method, url.host, url.path):
            check_host(context, url.host, url.path)
        check_playable(context, method, url.host, url.path)
        found = _body_of(self, kwargs)
        if found is None:
            pass_by(context, method, str(url))
            return await original(self, method, str_or_url, **kwargs)
        exchange = await follow(context, Request(method, str(url), lower_names(kwargs.get("headers")), found.content))
        if exchange is None:
            return await original(self, method, str_or_url, **kwargs)
        if not is_played(context, method, url.host, url.path):
            return await _follow_request(original, self, method, str_or_url, kwargs, exchange, found)
        token = playing.set(Playing(context.source, exchange, _FOLLOWED))
        try:
            return await _follow_request(original, self, method, str_or_url, kwargs, exchange, found)
        finally:
            playing.reset(token)

    return _request


class _Body(NamedTuple):
    content: bytes
    content_type: str


async def _follow_request(
    original: Any,
    session: aiohttp.ClientSession,
    method: str,
    url: Any,
    kwargs: dict[str, Any],
    exchange: Exchange,
    body: _Body,
) -> Any:
    """Send with a measured body; the exchange learns of head and failure here, of the rest from the stream."""
    timeout = kwargs.get("timeout", session.timeout)
    total = timeout.total if isinstance(timeout, aiohttp.ClientTimeout) else None
    exchange.gives_up_at = exchange.started + total if total else None
    kwargs = {**kwargs, "json": None, "data": MeasuredPayload(exchange, body.content_type)}
    try:
        response = await original(session, method, url, **kwargs)
    except aiohttp.ClientResponseError as error:
        # `raise_for_status` throws the body away; what is left of the reply is its status.
        now = exchange.clock()
        exchange.head(now, error.status, lower_names(error.headers))
        exchange.finish(now, Ending.COMPLETE, error.message)
        raise
    except BaseException as error:
        exchange.finish(exchange.clock(), ending_of(error, exchange), describe(error))
        raise
    exchange.head(exchange.clock(), response.status, lower_names(response.headers))
    if response.content is streams.EMPTY_PAYLOAD:
        exchange.finish(exchange.clock(), Ending.COMPLETE)
    return response


def _body_of(session: aiohttp.ClientSession, kwargs: dict[str, Any]) -> _Body | None:
    """The encoded body, or None where it is of a kind that no model request has (none, a form, a file)."""
    if kwargs.get("json") is not None:
        encode_bytes = getattr(session, "_json_serialize_bytes", None)
        encoded = encode_bytes(kwargs["json"]) if encode_bytes else session.json_serialize(kwargs["json"]).encode()
        return _Body(encoded, "application/json")
    data = kwargs.get("data")
    if isinstance(data, str):
        return _Body(data.encode(), "text/plain; charset=utf-8")
    if isinstance(data, (bytes, bytearray, memoryview)):
        return _Body(bytes(data), "application/octet-stream")
    if isinstance(data, payload.BytesPayload):
        return _Body(data.decode().encode(), data.content_type)
    return None


def _measured_feed_data(original: Any) -> Any:
    def feed_data(self: streams.StreamReader, data: bytes, *args: Any) -> Any:
        exchange: Exchange | None = getattr(self._protocol, _FOLLOWED, None)
        if exchange is not None and data:
            exchange.feed(exchange.clock(), data)
        return original(self, data, *args)

    return feed_data


def _measured_feed_eof(original: Any) -> Any:
    def feed_eof(self: streams.StreamReader) -> None:
        original(self)
        exchange = _release(self._protocol)
        if exchange is not None:
            exchange.body_ended(exchange.clock(), Ending.COMPLETE)

    return feed_eof


def _measured_set_exception(original: Any) -> Any:
    def set_exception(self: streams.StreamReader, exc: BaseException, *args: Any) -> None:
        original(self, exc, *args)
        exchange = _release(self._protocol)
        if exchange is not None:
            exchange.body_ended(exchange.clock(), ending_of(exc, exchange), describe(exc))

    return set_exception


def _release(protocol: Any) -> Exchange | None:
    """The connection carries no exchange of ours any more."""
    exchange: Exchange | None = getattr(protocol, _FOLLOWED, None)
    if exchange is not None:
        delattr(protocol, _FOLLOWED)
    return exchange


def ending_of(error: BaseException, exchange: Exchange) -> Ending:
    """Which ending an exception of aiohttp stands for."""
    match error:
        case asyncio.CancelledError():
            return Ending.CANCELLED
        case _ if type(error) is aiohttp.ClientConnectionError:
            # What a reader is told when its own side closes the response, which it also does when its timeout is over.
            late = exchange.gives_up_at is not None and exchange.clock() >= exchange.gives_up_at
            return Ending.TIMEOUT if late else Ending.CANCELLED
        case aiohttp.ConnectionTimeoutError():
            return Ending.CONNECT_TIMEOUT
        case aiohttp.SocketTimeoutError():
            return Ending.FIRST_TOKEN_TIMEOUT if exchange.last_feed is None else Ending.IDLE_TIMEOUT
        case TimeoutError():
            return Ending.TIMEOUT
        case aiohttp.ClientSSLError() | aiohttp.ServerFingerprintMismatch():
            return Ending.TLS_ERROR
        case aiohttp.ClientConnectorError() | aiohttp.InvalidURL():
            return Ending.CONNECT_ERROR
        case _:
            return Ending.DISCONNECTED


def describe(error: BaseException) -> str:
    """An exception in one line."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def lower_names(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Headers as a plain dict with lower-case names."""
    return {str(name).lower(): value for name, value in headers.items()} if headers else {}
