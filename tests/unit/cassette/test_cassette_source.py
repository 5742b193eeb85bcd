"""Playing recorded exchanges: what comes when, on whichever clock."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_swarm.clock import scaled_time, virtual_time
from pytest_swarm.exchange import Asker, Ending, Exchange
from pytest_swarm.reading import reader_factory
from pytest_swarm.sources.cassette.file import Cassette
from pytest_swarm.sources.cassette.interaction import Interaction
from pytest_swarm.sources.cassette.match import Matcher
from pytest_swarm.sources.cassette.replay import Replay, Unrecorded, most_at_once
from tests.unit.cassette.cassette_samples import CUT, EVERY, REFUSED, SILENT, STREAMED, request


def replay_of(*interactions: Interaction) -> Replay:
    return Replay(Cassette(Path("c.yaml"), interactions, complete=True), Matcher(), "c.yaml")


def play(*interactions: Interaction) -> list[Exchange]:
    """All of them at once on the virtual clock, each asked for by its own agent."""

    async def one_of(replay: Replay, one: Interaction, clock: Any) -> Exchange:
        asker = Asker(one.run, one.warmup, one.agent)
        exchange = Exchange(one.request, reader_factory("chat"), clock(), clock, asker)
        exchange.kept = []
        async for _ in replay.source().send(exchange):
            pass
        return exchange

    async def everything() -> list[Exchange]:
        replay = replay_of(*interactions)
        with virtual_time(asyncio.get_running_loop(), pytest.fail) as clock:
            return await asyncio.gather(*(one_of(replay, one, clock.now) for one in interactions))

    return asyncio.run(everything())


@pytest.mark.parametrize("name", EVERY)
def test_what_is_played_is_what_was_recorded(name: str) -> None:
    one = EVERY[name]
    (exchange,) = play(one)
    assert (exchange.status, exchange.headers, exchange.ending) == (one.status, one.headers, one.ending)
    assert exchange.error == one.error
    assert exchange.recorded is not None
    assert (exchange.recorded.source, exchange.recorded.timed) == (one.source, True)
    pieces = exchange.kept or []
    assert b"".join(data for _, data in pieces) == one.body
    assert [(at, len(data)) for at, data in pieces] == [(pytest.approx(at, abs=1e-9), size) for at, size in one.chunks]
    # One of the samples has a piece behind its end.
    assert exchange.ended == pytest.approx(max([one.end or 0, *(at for at, _ in one.chunks)]), abs=1e-9)
    assert exchange.head_at == (None if one.head is None else pytest.approx(one.head, abs=1e-9))


def test_the_connection_is_opened_before_the_send() -> None:
    (exchange,) = play(replace(STREAMED, connect=0.25))
    assert (exchange.connect, exchange.sent) == (0.25, 0.25)


def test_what_reached_nobody_was_never_sent() -> None:
    (exchange,) = play(replace(REFUSED, end=0.5))
    assert (exchange.sent, exchange.ended) == (None, 0.5)
    (silent,) = play(SILENT)
    assert silent.sent == pytest.approx(0.001)


def test_pieces_that_share_a_read_with_the_head_keep_their_times() -> None:
    early = replace(STREAMED, connect=None, head=0.06, chunks=((0.05, len(STREAMED.body)),), end=0.055)
    (exchange,) = play(early)
    assert exchange.kept == [(0.05, STREAMED.body)]
    assert (exchange.head_at, exchange.ended, exchange.ending) == (0.06, 0.055, Ending.COMPLETE)


def test_what_the_sizes_do_not_cover_comes_at_the_end() -> None:
    (exchange,) = play(replace(STREAMED, connect=None, chunks=((0.05, 10),)))
    assert [(at, len(data)) for at, data in exchange.kept or []] == [(0.05, 10), (0.08, len(STREAMED.body) - 10)]


def test_without_times_everything_comes_at_once() -> None:
    foreign = replace(STREAMED, timed=False, agent=None, chunks=(), head=None, end=None, recorded_at="")
    (exchange,) = play(foreign)
    assert exchange.recorded == ("live", False, None)
    assert (exchange.ended, exchange.ending) == (0.0, Ending.COMPLETE)
    assert exchange.read().text == "Hello"


def test_the_moment_of_the_recording_is_known() -> None:
    (exchange,) = play(STREAMED)
    assert exchange.recorded is not None
    assert exchange.recorded.ended == pytest.approx(1767323045.678)


def test_a_miss_is_raised_once_told_and_ends_the_exchange() -> None:
    raised: list[tuple[Any, Unrecorded]] = []

    async def ask() -> tuple[Replay, list[Exchange]]:
        replay = replay_of(STREAMED)
        asked = [request({"model": "n"}), request({"model": "o"}), STREAMED.request, STREAMED.request]
        exchanges = []
        for one in asked:
            exchange = Exchange(one, reader_factory("chat"), 0.0, lambda: 0.0, Asker(0, False, 7))
            exchanges.append(exchange)
            try:
                async for _ in replay.source().send(exchange):
                    pass
            except Unrecorded as error:
                raised.append((exchange.refused, error))
        return replay, exchanges

    replay, exchanges = asyncio.run(ask())
    assert [exchange.ending is Ending.COMPLETE for exchange in exchanges] == [False, False, True, False]
    assert len(raised) == 3
    assert all(refused is error for refused, error in raised)
    assert (replay.asked, replay.missed, replay.unused) == (4, 3, 0)
    assert replay.problem is not None
    assert replay.problem.startswith(
        "3 requests are not in the cassette c.yaml: task 7 asked for POST /chat/completions, nearest is the request of "
        'task 3 in run 1; what differs: model is "n", recorded "m"; '
    )


@pytest.mark.parametrize(("times", "told"), [(1, "a second time; it was recorded once"), (2, "(2 times)")])
def test_asking_more_often_than_recorded_is_told_so(times: int, told: str) -> None:
    replay = replay_of(*[STREAMED] * times)
    for _ in range(times):
        replay.take(Exchange(STREAMED.request, reader_factory("chat"), 0.0))
    with pytest.raises(Unrecorded) as error:
        replay.take(Exchange(STREAMED.request, reader_factory("chat"), 0.0))
    assert str(error.value).endswith(told)
    assert replay.problem is not None
    assert replay.problem.startswith("1 request is not in the cassette c.yaml: no task asked for")


def test_an_exchange_that_nobody_reads_on_is_let_go() -> None:
    async def leave() -> tuple[Exchange, int]:
        replay = replay_of(STREAMED)
        exchange = Exchange(STREAMED.request, reader_factory("chat"), time.monotonic())
        growth: Any = replay.source().send(exchange)
        async with aclosing(growth):
            await anext(growth)
        return exchange, replay._in_flight

    exchange, in_flight = asyncio.run(leave())
    assert (exchange.ending, in_flight) == (Ending.CANCELLED, 0)


def test_requests_in_flight_are_counted_in_the_recording_and_in_the_replay() -> None:
    def at(began: float, end: float, **more: Any) -> Interaction:
        return replace(STREAMED, began=began, end=end, **more)

    assert most_at_once([at(0, 1), at(0.5, 1), at(1, 1)]) == 2
    assert most_at_once([at(0, 9), at(0, 9, run=2), at(0, 9, warmup=True)]) == 1
    assert most_at_once([at(0, 9), at(1, 9), replace(CUT, agent=None)]) == 2
    assert most_at_once([at(0, 9), STREAMED]) is None
    assert most_at_once([]) is None


def test_time_passes_faster_on_a_faster_clock_and_as_before_behind_it() -> None:
    async def run() -> tuple[float, float, float]:
        loop = asyncio.get_running_loop()
        late = loop.create_future()
        loop.call_later(3, lambda: late.set_result(time.monotonic()))
        began = time.monotonic()
        with scaled_time(loop, 20) as clock:
            await asyncio.sleep(2)
            clock.progress()
            seen = clock.now()
        return seen, time.monotonic() - began, await late - began

    seen, real, late = asyncio.run(run())
    assert 2 <= seen < 20 * real + 1
    assert real >= 0.1
    # Timers of others keep their distance: of 3 s some 2 passed fast, and what is left passes as always.
    assert real < late < real + 1
