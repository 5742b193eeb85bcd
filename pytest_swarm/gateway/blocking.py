"""The gateway of a sync body: the same client, run on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from pytest_swarm.gateway.client import Gateway, Messages
from pytest_swarm.gateway.reply import Reply
from pytest_swarm.gateway.sdk import make_anthropic, make_openai

__all__ = ["BlockingGateway", "Portal"]

T = TypeVar("T")


class Portal:
    """An event loop in a daemon thread; `call` runs a coroutine there in the context of the calling thread."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._entered = AsyncExitStack()
        self._thread = threading.Thread(target=self._loop.run_forever, name="swarm-gateway", daemon=True)
        self._thread.start()
        return self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.call(self._close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run on the portal's loop and wait for the result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Enter an async context manager on the portal's loop; it is left when the portal is closed."""
        return self.call(self._entered.enter_async_context(manager))

    async def _close(self) -> None:
        """End what bodies left behind, then leave what was entered."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._entered.aclose()
        await self._loop.shutdown_asyncgens()


class BlockingGateway:
    """The `gateway` fixture of a sync body: everything as in `Gateway`, without await."""

    def __init__(self, gateway: Gateway, portal: Portal) -> None:
        self._gateway = gateway
        self._portal = portal

    def chat(self, prompt: str | Messages, **arguments: Any) -> Reply:
        """See `Gateway.chat`."""
        return self._portal.call(self._gateway.chat(prompt, **arguments))

    def stream(self, prompt: str | Messages, **arguments: Any) -> Iterator[str]:
        """See `Gateway.stream`."""
        pieces = self._gateway.stream(prompt, **arguments)
        try:
            while (piece := self._portal.call(_next(pieces))) is not None:
                yield piece
        finally:
            self._portal.call(_close(pieces))

    @property
    def model(self) -> str | None:
        """See `Gateway.model`."""
        return self._gateway.model

    def openai(self, **options: Any) -> Any:
        """An ``OpenAI`` client; see `Gateway.openai`."""
        return self._gateway.clients.get(make_openai, options, blocking=True)

    def anthropic(self, **options: Any) -> Any:
        """An ``Anthropic`` client; see `Gateway.openai`."""
        return self._gateway.clients.get(make_anthropic, options, blocking=True)


async def _next(pieces: AsyncGenerator[str]) -> str | None:
    return await anext(pieces, None)


async def _close(pieces: AsyncGenerator[str]) -> None:
    await pieces.aclose()
