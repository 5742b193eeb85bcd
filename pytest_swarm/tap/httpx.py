"""The tap on httpx and on its fork httpx2, which the SDKs of model makers use: sync and async clients are measured.

`_send_single_request` of both clients is wrapped: below it stands the transport, whichever that is. (The method around
it, which follows redirects, is wrapped to know that it does.) They are
wrapped when the library is loaded, so that whoever does not use it does not pay for it. Three things are measured:

- the send, when the transport takes the request's body to write it;
- the head, when the transport returns;
- each piece of the body, when the transport hands it over. httpx reads the socket only when it is asked to. An async
  event stream is therefore read ahead, in a task of its own, so that a body that reads late does not move these times.
  A sync client has nobody to read for it: there, the time of a piece is when the body asked for it, if it came before.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from pytest_swarm.exchange import Exchange, Request
from pytest_swarm.tap import onimport
from pytest_swarm.tap.follow import check_host, follow, follow_blocking, is_played, pass_by
from pytest_swarm.tap.httpx_library import Library
from pytest_swarm.tap.playback import check_playable, play_async, play_sync
from pytest_swarm.tap.redirects import following, goes_on, going_on
from pytest_swarm.tap.routing import TaskContext, caller, outer_exchange

if TYPE_CHECKING:
    from pytest_swarm.exchange import Source

__all__ = ["install", "uninstall"]

LIBRARIES: Final = ("httpx", "httpx2")

_SEND: Final = "_send_single_request"
_FOLLOW: Final = "_send_handling_redirects"

_originals: dict[tuple[type, str], Any] = {}


def install() -> None:
    """Wrap the libraries that are loaded, and the others when they will be. Does nothing when that is done already."""
    for name in LIBRARIES:
        onimport.on_import(f"{name}._client", lambda module, name=name: _wrap(Library(name), module))  # type: ignore[misc] # mypy cannot infer a lambda with a default


def uninstall() -> None:
    """Give the libraries back as they were."""
    onimport.forget_imports()
    for (owner, name), original in _originals.items():
        setattr(owner, name, original)
    _originals.clear()


def _wrap(library: Library, module: ModuleType) -> None:
    for owner, name, wrapper in (
        (module.AsyncClient, _SEND, _measured_async),
        (module.AsyncClient, _FOLLOW, _following_async),
        (module.Client, _SEND, _measured_sync),
        (module.Client, _FOLLOW, _following_sync),
    ):
        if (owner, name) not in _originals:
            original = _originals[owner, name] = getattr(owner, name)
            setattr(owner, name, wrapper(library, original))


def _following_async(library: Library, original: Any) -> Any:
    async def _send_handling_redirects(self: Any, request: Any, follow_redirects: bool, history: Any) -> Any:
        with following(library, follows=follow_redirects):
            return await original(self, request, follow_redirects=follow_redirects, history=history)

    return _send_handling_redirects


def _following_sync(library: Library, original: Any) -> Any:
    def _send_handling_redirects(self: Any, request: Any, follow_redirects: bool, history: Any) -> Any:
        with following(library, follows=follow_redirects):
            return original(self, request, follow_redirects=follow_redirects, history=history)

    return _send_handling_redirects


def _measured_async(library: Library, original: Any) -> Any:
    async def _send_single_request(self: Any, request: Any) -> Any:
        context = caller()
        if context is None:
            return await original(self, request)
        _check(context, request)
        exchange = going_on()
        asked = _model_request(library, context, request) if exchange is None else None
        if asked is not None:
            exchange = await follow(context, asked)
        if exchange is None:
            return await original(self, request)
        player = _player(context, request)
        if player is not None:
            return await play_async(library.api, player, exchange, request)
        replaced = _take_body(library, request, exchange)
        token = outer_exchange.set(exchange)
        try:
            response = await original(self, request)
        except BaseException as error:
            library.failed(exchange, error)
            raise
        finally:
            outer_exchange.reset(token)
            request.stream = replaced
        if not goes_on(exchange, response):
            response.stream = library.measured_body(exchange, response, is_async=True)
        return response

    return _send_single_request


def _measured_sync(library: Library, original: Any) -> Any:
    def _send_single_request(self: Any, request: Any) -> Any:
        context = caller()
        if context is None:
            return original(self, request)
        _check(context, request)
        exchange = going_on()
        asked = _model_request(library, context, request) if exchange is None else None
        if asked is not None:
            exchange = follow_blocking(context, asked)
        if exchange is None:
            return original(self, request)
        player = _player(context, request)
        if player is not None:
            return play_sync(library.api, player, exchange, request)
        replaced = _take_body(library, request, exchange)
        try:
            response = original(self, request)
        except BaseException as error:
            library.failed(exchange, error)
            raise
        finally:
            request.stream = replaced
        if not goes_on(exchange, response):
            response.stream = library.measured_body(exchange, response, is_async=False)
        return response

    return _send_single_request


def _check(context: TaskContext, request: Any) -> None:
    """Stop what this run must not send."""
    where = request.method, request.url.host, request.url.path
    if not is_played(context, *where):
        check_host(context, *where[1:])
    check_playable(context, *where)


def _model_request(library: Library, context: TaskContext, request: Any) -> Request | None:
    """What an agent or its test asks for; None for what cannot ask a model, which is only counted."""
    content = library.content_of(request)
    if content is None:
        pass_by(context, request.method, str(request.url))
        return None
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Request(request.method, str(request.url), headers, content)


def _player(context: TaskContext, request: Any) -> Source | None:
    """The source that answers a request without a network; None where it is really sent."""
    return context.source if is_played(context, request.method, request.url.host, request.url.path) else None


def _take_body(library: Library, request: Any, exchange: Exchange) -> Any:
    """Put a measured body into the request. Returns the one that was there."""
    replaced, request.stream = request.stream, library.body(exchange.request.body, exchange)
    return replaced
