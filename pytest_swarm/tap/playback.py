"""Answering a client of httpx or httpx2 from a source, as if the network had: a request leaves the process nowhere.

The client gets a response whose stream hands on the bytes as the source drives the exchange, on the clock of the
source's loop. A sync client waits in its thread while the source works on its own loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pytest_swarm.errors import SwarmError
from pytest_swarm.exchange import Ending, Exchange
from pytest_swarm.tap.follow import is_model_request, is_played

if TYPE_CHECKING:
    from pytest_swarm.exchange import Source
    from pytest_swarm.tap.routing import TaskContext

__all__ = ["check_playable", "play_async", "play_sync"]

_RAISED: Final = {
    Ending.CONNECT_ERROR: "ConnectError",
    Ending.TLS_ERROR: "ConnectError",
    Ending.CONNECT_TIMEOUT: "ConnectTimeout",
    Ending.POOL_TIMEOUT: "PoolTimeout",
    Ending.FIRST_TOKEN_TIMEOUT: "ReadTimeout",
    Ending.IDLE_TIMEOUT: "ReadTimeout",
    Ending.TIMEOUT: "ReadTimeout",
    Ending.DISCONNECTED: "RemoteProtocolError",
    Ending.CANCELLED: "ReadError",
}
"""What httpx calls the ways in which an exchange can end, COMPLETE left out."""


def check_playable(context: TaskContext, method: str, host: str | None, path: str) -> None:
    """Stop a request to the simulated gateway of a kind that it cannot answer."""
    if not is_played(context, method, host, path) or is_model_request(method, path):
        return
    what = f"it answers POST to .../chat/completions, .../messages and .../responses, not {method} {path}"
    context.stopped = context.stopped or SwarmError(f"a request to the simulated gateway was stopped: {what}")
    raise context.stopped


async def play_async(api: Any, source: Source, exchange: Exchange, request: Any) -> Any:
    """The response to an async request, once its head is known. Raises what `api`, the library, would."""
    answer = _Answer(api, source, exchange, request)
    try:
        await answer.head()
    except BaseException:
        await answer.leave()
        raise
    return answer.response(_async_stream(api)(answer))


def play_sync(api: Any, source: Source, exchange: Exchange, request: Any) -> Any:
    """See `play_async`. Raises `SwarmError` where nobody could answer while the thread waits."""
    loop = getattr(source, "loop", None)
    if loop is None or _runs_here():
        error = SwarmError(
            "a blocking client cannot be answered by the simulated gateway or a replay in an async test or in a "
            "fixture; use the async client there"
        )
        exchange.finish(exchange.clock(), Ending.CANCELLED, str(error))
        raise error

    def wait(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    answer = _Answer(api, source, exchange, request)
    try:
        wait(answer.head())
    except BaseException:
        wait(answer.leave())
        raise
    return answer.response(_sync_stream(api)(answer, wait))


def _runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Answer:
    """One exchange on its way from the source to a client. Everything async here runs on the loop of the source."""

    def __init__(self, api: Any, source: Source, exchange: Exchange, request: Any) -> None:
        self._api = api
        self._exchange = exchange
        self._request = request
        self._patience: float | None = request.extensions.get("timeout", {}).get("read")
        self._growth = source.send(exchange)
        self._response: Any = None
        self.pieces: deque[bytes] = deque()
        exchange.on_data = self.pieces.append

    async def head(self) -> None:
        """Wait for status and headers."""
        while self._exchange.status is None:
            await self._grow()
            self._check()

    def response(self, stream: Any) -> Any:
        """What the client gets."""
        exchange = self._exchange
        self._response = self._api.Response(
            exchange.status,
            headers=dict(exchange.headers),
            stream=stream,
            request=self._request,
            extensions={"http_version": b"HTTP/1.1"},
        )
        return self._response

    async def more(self) -> bool:
        """Wait until there are pieces; False at the end of the body. Raises what ended it early."""
        while not self.pieces:
            if self._exchange.ending is not None:
                self._check()
                return False
            await self._grow()
        return True

    async def leave(self) -> None:
        """The client wants no more."""
        await _close(self._growth)
        self._exchange.finish(self._exchange.clock(), Ending.CANCELLED, "the response was closed before its end")
        if self._response is not None and self._exchange.ended is not None:
            self._response.elapsed = timedelta(seconds=self._exchange.ended)

    async def _grow(self) -> None:
        """Wait until the exchange has grown or ended, no longer than the client waits for a read."""
        if self._exchange.ending is not None:
            return
        timer: asyncio.TimerHandle | None = None
        try:
            async with asyncio.timeout(None) as limit:
                loop = asyncio.get_running_loop()
                if self._patience is not None:
                    timer = loop.call_later(self._patience, self._expire, lambda: limit.reschedule(loop.time()))
                await anext(self._growth, None)
        except TimeoutError:
            pass  # the exchange has ended with it
        finally:
            if timer is not None:
                timer.cancel()

    def _expire(self, interrupt: Callable[[], None]) -> None:
        exchange = self._exchange
        ending = Ending.FIRST_TOKEN_TIMEOUT if exchange.last_feed is None else Ending.IDLE_TIMEOUT
        exchange.finish(exchange.clock(), ending, f"nothing came for {self._patience:g} s")
        interrupt()

    def _check(self) -> None:
        """Raise what the library would for an early end."""
        ending = self._exchange.ending
        if ending is not None and ending is not Ending.COMPLETE:
            kind = getattr(self._api, _RAISED[ending])
            raise kind(self._exchange.error or ending.value, request=self._request)


async def _close(growth: AsyncIterator[None]) -> None:
    if isinstance(growth, AsyncGenerator):
        await growth.aclose()


class _AsyncPieces:
    def __init__(self, answer: _Answer) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while await self._answer.more():
            yield self._answer.pieces.popleft()

    async def aclose(self) -> None:
        await self._answer.leave()


class _SyncPieces:
    def __init__(self, answer: _Answer, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._answer = answer
        self._wait = wait

    def __iter__(self) -> Iterator[bytes]:
        while self._wait(self._answer.more()):
            yield self._answer.pieces.popleft()

    def close(self) -> None:
        self._wait(self._answer.leave())


@lru_cache
def _async_stream(api: Any) -> Any:
    return type("PlayedStream", (_AsyncPieces, api.AsyncByteStream), {})


@lru_cache
def _sync_stream(api: Any) -> Any:
    return type("PlayedStream", (_SyncPieces, api.SyncByteStream), {})
