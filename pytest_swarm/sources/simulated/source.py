"""The simulated gateway as a source of exchanges, inside the process and on the clock of the running loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Self

from pytest_swarm.exchange import Ending, Exchange
from pytest_swarm.sources.simulated.reception import Reception
from pytest_swarm.sources.simulated.systems import System

__all__ = ["SimulatedSource"]


class SimulatedSource:
    """Answers exchanges from seeded engines. Make one per run; use it as an async context manager on the run's loop.

    Nothing is sent anywhere. Time is the running loop's, real or virtual; exchanges are stamped on their own clock.
    """

    def __init__(self, systems: Mapping[str, System], seed: str) -> None:
        """`seed` names the run, as in ``"42:tests/test_chat.py::test_summary:0"``, and decides all that is drawn."""
        self._systems = systems
        self._seed = seed
        self._reception: Reception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._reception = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop on which it answers; None before the first request where it was not entered."""
        return self._loop

    def _open(self) -> Reception:
        if self._reception is None:
            self._loop = asyncio.get_running_loop()
            self._reception = Reception(self._systems, self._seed, asyncio.get_running_loop())
        return self._reception

    async def send(self, exchange: Exchange) -> AsyncIterator[None]:
        """See `exchange.Source.send`."""
        reception = self._open()
        sink = _ExchangeSink(exchange)
        exchange.wrote(exchange.clock())
        visit = reception.receive(exchange.request.url, exchange.request.body, sink)
        try:
            while exchange.ending is None or sink.unseen:
                await sink.grown()
                yield
        finally:
            if visit is not None:
                visit.abandon()
            exchange.finish(exchange.clock(), Ending.CANCELLED)


class _ExchangeSink:
    """Drives an exchange when bytes come, and wakes whoever waits for it to grow."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._waiting: asyncio.Future[None] | None = None
        self.unseen = False
        """Whether it has grown since somebody last looked."""

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self._exchange.head(self._exchange.clock(), status, headers)

    def feed(self, data: bytes) -> None:
        self._exchange.feed(self._exchange.clock(), data)
        self._wake()

    def finish(self, ending: Ending, error: str = "") -> None:
        self._exchange.finish(self._exchange.clock(), ending, error)
        self._wake()

    async def grown(self) -> None:
        """Wait until it has grown, if it has not since the last time."""
        if not self.unseen:
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        self.unseen = False

    def _wake(self) -> None:
        self.unseen = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
