"""Playing a cassette: a source whose exchanges are those that were recorded, each at its time."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import Final, Self

from pytest_swarm.errors import SwarmError
from pytest_swarm.exchange import Asker, Ending, Exchange, Recorded
from pytest_swarm.sources.cassette.file import Cassette
from pytest_swarm.sources.cassette.interaction import Interaction
from pytest_swarm.sources.cassette.match import Index, Matcher
from pytest_swarm.sources.cassette.nearest import difference, teller

__all__ = ["CassetteSource", "Replay", "Unrecorded", "most_at_once"]

_NEVER_SENT: Final = frozenset(
    (Ending.CONNECT_ERROR, Ending.TLS_ERROR, Ending.POOL_TIMEOUT, Ending.CONNECT_TIMEOUT, Ending.BUDGET)
)
"""Endings of exchanges that reached nobody: their times count from when they were asked for."""


class Unrecorded(SwarmError):
    """A request has no answer in the cassette; the text says what is nearest."""


class Replay:
    """One cassette while one test is replayed from it, with all its runs. May be asked from any thread."""

    def __init__(self, cassette: Cassette, matcher: Matcher, name: str) -> None:
        """`name` is what messages call the cassette."""
        self.cassette = cassette
        self._name = name
        self.asked = 0
        """Requests so far."""
        self.missed = 0
        """Those of them that the cassette has no answer for."""
        self.in_flight_max = 0
        """The largest number of requests that were being answered at one time."""
        self._index = Index(cassette.interactions, matcher)
        self._in_flight = 0
        self._first_miss: str | None = None
        self._sequences: Counter[Asker] = Counter()
        self._lock = threading.Lock()

    def source(self) -> CassetteSource:
        """A source for one run. Those of all runs share the cassette: no answer is given twice."""
        return CassetteSource(self)

    def take(self, exchange: Exchange) -> Interaction:
        """What answers an exchange. Raises `Unrecorded` where nothing does."""
        key, asker = self._index.matcher.key(exchange.request), exchange.asker
        with self._lock:
            sequence = self._sequences[asker]
            self._sequences[asker] += 1
            self.asked += 1
            found = self._index.take(key, asker, sequence)
            if found is not None:
                return found
            self.missed += 1
            if self._first_miss is None:
                many = self._index.recorded(key)
                what = f"{teller(asker)} asked for {exchange.request.method} {key.path}"
                self._first_miss = f"{what}, {self._why(exchange, many)}"
            raise Unrecorded(f"the cassette {self._name} has no answer: {self._first_miss}")

    def _why(self, exchange: Exchange, many: int) -> str:
        if many:
            return (
                f"once more than it was recorded ({many} times)" if many > 1 else "a second time; it was recorded once"
            )
        return difference(exchange.request, exchange.asker, self.cassette.interactions, self._index.matcher)

    @property
    def problem(self) -> str | None:
        """Why the test has failed whatever came of it; None while every request was answered."""
        if not self.missed:
            return None
        one = "1 request is" if self.missed == 1 else f"{self.missed} requests are"
        return f"{one} not in the cassette {self._name}: {self._first_miss}"

    @property
    def unused(self) -> int:
        """Recorded exchanges that nobody has asked for."""
        return self._index.unused

    def close(self) -> None:
        """Let go of the exchanges; nothing is answered after it."""
        self.cassette = replace(self.cassette, interactions=())
        self._index = Index((), self._index.matcher)

    def begin(self) -> None:
        """A request is being answered."""
        with self._lock:
            self._in_flight += 1
            self.in_flight_max = max(self.in_flight_max, self._in_flight)

    def end(self) -> None:
        """It is not any more."""
        with self._lock:
            self._in_flight -= 1


class CassetteSource:
    """See `exchange.Source`. Nothing is sent; time is that of the exchanges' clock, on whichever loop runs."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop on which it answers; None before the first request where it was not entered."""

    async def __aenter__(self) -> Self:
        self.loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.loop = None

    async def send(self, exchange: Exchange) -> AsyncIterator[None]:
        """See `exchange.Source.send`. Raises `Unrecorded` where the cassette has no answer."""
        self.loop = self.loop or asyncio.get_running_loop()
        try:
            one = self._replay.take(exchange)
        except Unrecorded as error:
            exchange.refused = error
            exchange.finish(exchange.clock(), Ending.CANCELLED, str(error))
            raise
        exchange.recorded = Recorded(one.source, one.timed, _epoch(one.recorded_at))
        self._replay.begin()
        try:
            async with aclosing(_timed(exchange, one) if one.timed else _at_once(exchange, one)) as play:
                async for _ in play:
                    yield
        finally:
            self._replay.end()
            exchange.finish(exchange.clock(), Ending.CANCELLED)


async def _timed(exchange: Exchange, one: Interaction) -> AsyncGenerator[None]:
    """Drive the exchange as it was recorded; yields whenever it has grown."""
    if one.connect:
        await _until(exchange, exchange.clock() + one.connect)
        exchange.connect = one.connect
    sent = exchange.clock()
    if one.ending not in _NEVER_SENT:
        exchange.wrote(sent)
    end = sent + (one.end or 0.0)
    if one.status is None:
        exchange.finish(await _until(exchange, end), one.ending, one.error)
        return
    head = sent + (one.head or 0.0)
    now = await _until(exchange, head)
    pieces = list(_pieces(one))
    early = [piece for piece in pieces if sent + piece[0] < head]
    for at, data in early:
        # A short reply may share a read with its head, which is known only when the read has been looked at.
        exchange.feed(sent + at, data)
    if end < head:
        exchange.body_ended(end, one.ending, one.error)
    exchange.head(now, one.status, one.headers)
    for at, data in pieces[len(early) :]:
        if sent + at > now:
            # What came together is told together.
            yield
            now = await _until(exchange, sent + at)
        exchange.feed(now, data)
    if end > now:
        yield
    exchange.finish(await _until(exchange, end), one.ending, one.error)


async def _at_once(exchange: Exchange, one: Interaction) -> AsyncGenerator[None]:
    """Answer in one piece: nobody knows when it came."""
    await asyncio.sleep(0)
    now = exchange.clock()
    exchange.wrote(now)
    if one.status is not None:
        exchange.head(now, one.status, one.headers)
        exchange.feed(now, one.body)
        yield
    exchange.finish(now, one.ending, one.error)


async def _until(exchange: Exchange, when: float) -> float:
    """Wait until the clock of the run shows `when`. Returns what it shows: on the virtual clock that very time."""
    wait = when - exchange.clock()
    if wait > 0:
        await asyncio.sleep(wait)
    return max(when, exchange.clock())


def _pieces(one: Interaction) -> Iterator[tuple[float, bytes]]:
    """The pieces of the body with their offsets."""
    begin = 0
    for at, size in one.chunks:
        yield at, one.body[begin : begin + size]
        begin += size
    if begin < len(one.body):
        # Somebody has edited the file: what the sizes do not cover comes at the end.
        yield one.end or 0.0, one.body[begin:]


def _epoch(moment: str) -> float | None:
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return None


def most_at_once(interactions: Iterable[Interaction]) -> int | None:
    """The largest number of requests of tasks that were being answered at one time; None where nothing tells."""
    edges = []
    for one in interactions:
        if one.agent is None:
            continue
        if one.began is None or one.end is None:
            return None
        edges += [(one.run, one.warmup, one.began + one.end, -1), (one.run, one.warmup, one.began, 1)]
    found = now = 0
    for *_, step in sorted(edges):
        now += step
        found = max(found, now)
    return found or None
