"""The simulated gateway as a source of exchanges, on virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
from simulated_parts import ANSWER, CHAT, chat_body, plain_system

from pytest_swarm.clock import Now, virtual_time
from pytest_swarm.exchange import Ending, Exchange, Request
from pytest_swarm.reading import reader_factory
from pytest_swarm.sources.simulated.profile import Capacity, Faults
from pytest_swarm.sources.simulated.source import SimulatedSource
from pytest_swarm.sources.simulated.systems import builtin_systems

Body = Callable[[SimulatedSource, Now], Awaitable[Any]]


def on_virtual_time(body: Body, *systems: Any, seed: str = "1") -> Any:
    """Run a coroutine function with a source and the clock; a run that is stuck fails."""

    async def run() -> Any:
        with virtual_time(asyncio.get_running_loop(), lambda reason: pytest.fail(reason)) as clock:
            async with SimulatedSource({system.name: system for system in systems}, seed) as source:
                return await body(source, clock.now)

    return asyncio.run(run())


def exchange(now: Now, body: bytes, url: str = CHAT) -> Exchange:
    return Exchange(Request("POST", url, {}, body), reader_factory("chat"), now(), now)


async def carried(source: SimulatedSource, now: Now, body: bytes) -> tuple[Exchange, int]:
    """The finished exchange, and how often it grew."""
    made, grown = exchange(now, body), 0
    async for _ in source.send(made):
        grown += 1
    return made, grown


def test_an_exchange_is_stamped_with_the_time_of_the_run() -> None:
    async def body(source: SimulatedSource, now: Now) -> None:
        await asyncio.sleep(5.0)
        made, grown = await carried(source, now, chat_body())
        assert (made.sent, made.ending, grown) == (5.0, Ending.COMPLETE, 1)
        assert made.head_at == made.last_feed == made.ended == pytest.approx(2.0)
        reading = made.read()
        assert reading.outcome == "ok"
        assert reading.usage is not None
        assert reading.usage.reported_cost is not None

    on_virtual_time(body, plain_system(2.0))


def test_a_stream_grows_piece_by_piece() -> None:
    async def body(source: SimulatedSource, now: Now) -> None:
        made, grown = await carried(source, now, chat_body(stream=True))
        reading = made.read()
        assert grown == 16
        assert reading.first_token == pytest.approx(0.4)
        assert reading.last_content == pytest.approx(2.0)

    on_virtual_time(body, plain_system(2.0))


def test_pieces_are_stamped_when_they_come_however_slow_the_consumer_is() -> None:
    async def body(source: SimulatedSource, now: Now) -> None:
        made = exchange(now, chat_body(stream=True))
        async for _ in source.send(made):
            await asyncio.sleep(0.7)
        assert made.ended == pytest.approx(2.0)
        assert made.read().gaps.tolist() == pytest.approx([1.6 / 15] * 15)

    on_virtual_time(body, plain_system(2.0))


@pytest.mark.parametrize("stream", [False, True])
def test_a_consumer_that_closes_or_is_cancelled_frees_the_worker(stream: bool) -> None:
    async def body(source: SimulatedSource, now: Now) -> None:
        closed, cancelled = exchange(now, chat_body(stream=True)), exchange(now, chat_body(stream=stream))

        async def use_up() -> None:
            async for _ in source.send(cancelled):
                pass

        growth = source.send(closed)
        async with aclosing(growth):  # type: ignore[type-var] # an async generator behind the protocol's type
            await anext(growth)
        assert (closed.ending, now()) == (Ending.CANCELLED, pytest.approx(0.2))
        task = asyncio.create_task(use_up())
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.wait({task})
        assert (task.cancelled(), cancelled.ending) == (True, Ending.CANCELLED)
        patient, _ = await carried(source, now, chat_body())
        assert patient.ended == pytest.approx(1.0)

    on_virtual_time(body, plain_system(1.0, capacity=Capacity("fixed", 1)))


def test_a_refusal_is_an_exchange_too() -> None:
    async def body(source: SimulatedSource, now: Now) -> None:
        made, grown = await carried(source, now, chat_body("none"))
        assert (made.status, made.ended, grown) == (404, 0.0, 1)
        assert made.read().outcome == "client_error"

    on_virtual_time(body, plain_system())


@pytest.mark.parametrize(("faults", "status"), [(Faults(hang_rate=1.0), None), (Faults(cut_rate=1.0), 200)])
def test_a_broken_connection_is_no_exception(faults: Faults, status: int | None) -> None:
    async def body(source: SimulatedSource, now: Now) -> None:
        made, _ = await carried(source, now, chat_body(stream=True))
        assert (made.status, made.ending) == (status, Ending.DISCONNECTED)
        assert made.read().outcome == "disconnected"

    on_virtual_time(body, plain_system(faults=faults))


def test_a_source_works_without_being_entered() -> None:
    async def run() -> None:
        now = asyncio.get_running_loop().time
        made, _ = await carried(SimulatedSource({"plain": plain_system(0.001)}, "1"), now, chat_body())
        assert made.read().outcome == "ok"

    asyncio.run(run())


def swarm_of(seed: str) -> list[tuple[Any, ...]]:
    """What 60 requests in 20 lanes bring, half of them streamed."""
    format_ = {"type": "json_schema", "json_schema": {"schema": ANSWER}}

    async def body(source: SimulatedSource, now: Now) -> list[tuple[Any, ...]]:
        numbers, found = iter(range(60)), []

        async def lane() -> None:
            for number in numbers:
                model = ("gpt-6-agent", "kimi-k2.5-swarm")[number % 2]
                made, _ = await carried(
                    source, now, chat_body(model, str(number), stream=number % 4 < 2, response_format=format_)
                )
                found.append((number, made.sent, made.status, made.ended, json.dumps(dict(made.headers)), made.read()))

        await asyncio.gather(*(lane() for _ in range(20)))
        return found

    return list(on_virtual_time(body, *builtin_systems().values(), seed=seed))


def test_the_same_seed_gives_the_same_run_to_the_last_bit() -> None:
    assert swarm_of("1:test:0") == swarm_of("1:test:0")


def test_repeats_differ_by_their_seed() -> None:
    assert swarm_of("1:test:0") != swarm_of("1:test:1")
