"""Sessions of aiohttp that a source answers without a network: bytes, endings, time limits, who else is in the pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from pytest_swarm.errors import SwarmError
from pytest_swarm.exchange import Ending, Exchange, Recorded
from pytest_swarm.gateway.client import Gateway
from pytest_swarm.tap import aiohttp as aiohttp_tap
from pytest_swarm.tap.routing import Agent, current
from tests.support.bench import Rows, swarm
from tests.support.small_gateway import SmallGateway

URL = "http://played.test/v1"
QUESTION = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "yes"}, "finish_reason": null}]}\n\n'
LAST = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


class Scripted:
    """Answers with an event stream, and ends as it is told to: before the head, between two events, or well."""

    loop: asyncio.AbstractEventLoop | None = None

    def __init__(
        self, ending: Ending = Ending.COMPLETE, *, before_head: bool = False, pause: float = 0.0, early: bool = False
    ) -> None:
        self.ending, self.before_head, self.pause, self.early = ending, before_head, pause, early
        self.left = asyncio.Event()

    async def send(self, exchange: Exchange) -> AsyncIterator[None]:
        try:
            exchange.recorded = Recorded("live", True, None)
            if self.ending not in (Ending.CONNECT_ERROR, Ending.CONNECT_TIMEOUT, Ending.TLS_ERROR):
                exchange.connect = 0.25
                exchange.wrote(exchange.clock())
            head = {"content-type": "text/event-stream", "content-length": "7", "x-request-id": "r1"}
            if self.early:
                exchange.feed(exchange.clock(), EVENT + LAST)
                exchange.body_ended(exchange.clock(), Ending.COMPLETE)
                exchange.head(exchange.clock(), 200, head)
                return
            if not self.before_head:
                exchange.head(exchange.clock(), 299, head)
                exchange.feed(exchange.clock(), EVENT)
                yield
                await asyncio.sleep(self.pause)
            if self.ending is Ending.COMPLETE:
                exchange.feed(exchange.clock(), LAST)
            exchange.finish(exchange.clock(), self.ending, "as scripted")
            yield
        finally:
            self.left.set()
            exchange.finish(exchange.clock(), Ending.CANCELLED)


class Refusing:
    """Has no answer."""

    loop = None

    async def send(self, exchange: Exchange) -> AsyncIterator[None]:
        raise SwarmError("it was never recorded")
        yield


@pytest.fixture(autouse=True)
def tapped() -> Iterator[None]:
    aiohttp_tap.install()
    yield
    aiohttp_tap.uninstall()


def play(source: Any, work: Any) -> Rows:
    """Run `await work()` as one task whose requests to `URL` the source answers."""

    async def body(gateway: Gateway, agent: Agent) -> None:
        context = current.get()
        assert context is not None
        context.source, context.played = source, "played.test"
        await work()

    rows, conducting = asyncio.run(swarm(URL, body))
    assert not conducting.errors, conducting.errors
    return rows


@pytest.mark.parametrize("early", [False, True])
def test_a_session_gets_head_bytes_and_end_from_the_source(early: bool) -> None:
    async def work() -> None:
        async with aiohttp.ClientSession() as session, session.post(f"{URL}/chat/completions", json=QUESTION) as reply:
            assert (reply.status, reply.headers["x-request-id"]) == (200 if early else 299, "r1")
            assert await reply.read() == EVENT + LAST
        assert not session.connector or not session.connector._conns

    (call,) = play(Scripted(early=early), work).calls
    assert (call["outcome"], call["attempts"], call["connect"]) == ("ok", 1, 0.25)
    assert call["ttft"] is not None


@pytest.mark.parametrize(
    ("ending", "exception"),
    [
        (Ending.CONNECT_ERROR, aiohttp.ClientConnectorError),
        (Ending.CONNECT_TIMEOUT, aiohttp.ConnectionTimeoutError),
        (Ending.DISCONNECTED, aiohttp.ServerDisconnectedError),
        (Ending.FIRST_TOKEN_TIMEOUT, aiohttp.SocketTimeoutError),
        (Ending.TIMEOUT, asyncio.TimeoutError),
        (Ending.CANCELLED, aiohttp.ClientConnectionError),
    ],
)
def test_an_end_before_the_head_is_the_exception_of_aiohttp(ending: Ending, exception: type[Exception]) -> None:
    async def work() -> None:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(exception):
                await session.post(f"{URL}/chat/completions", json=QUESTION)

    (call,) = play(Scripted(ending, before_head=True), work).calls
    assert call["outcome"] == ending.value


@pytest.mark.parametrize(
    ("ending", "exception"),
    [
        (Ending.DISCONNECTED, aiohttp.ClientPayloadError),
        (Ending.IDLE_TIMEOUT, aiohttp.SocketTimeoutError),
        (Ending.TIMEOUT, asyncio.TimeoutError),
    ],
)
def test_an_end_behind_the_head_is_the_exception_of_aiohttp(ending: Ending, exception: type[Exception]) -> None:
    async def work() -> None:
        async with aiohttp.ClientSession() as session, session.post(f"{URL}/chat/completions", json=QUESTION) as reply:
            with pytest.raises(exception):
                await reply.read()

    (call,) = play(Scripted(ending), work).calls
    # A stream that was cut off behind its first token is a reading of its own.
    assert call["outcome"] in (ending.value, "truncated")


def test_a_time_limit_of_the_client_ends_the_wait_for_the_source() -> None:
    source = Scripted(pause=60)

    async def work() -> None:
        limit = aiohttp.ClientTimeout(sock_read=0.05)
        async with aiohttp.ClientSession(timeout=limit) as session:
            async with session.post(f"{URL}/chat/completions", json=QUESTION) as reply:
                with pytest.raises(aiohttp.SocketTimeoutError):
                    await reply.read()
            await asyncio.wait_for(source.left.wait(), 10)

    (call,) = play(source, work).calls
    assert call["outcome"] == "idle_timeout"


def test_a_client_that_leaves_early_frees_the_source() -> None:
    source = Scripted(pause=60)

    async def work() -> None:
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{URL}/chat/completions", json=QUESTION) as reply:
                assert await reply.content.readline() == EVENT.removesuffix(b"\n")
            await asyncio.wait_for(source.left.wait(), 10)

    (call,) = play(source, work).calls
    assert call["outcome"] == "cancelled"


def test_what_the_source_refuses_is_raised_as_it_is_and_fails_the_task() -> None:
    async def work() -> None:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(SwarmError, match="never recorded"):
                await session.post(f"{URL}/chat/completions", json=QUESTION)

    async def body(gateway: Gateway, agent: Agent) -> None:
        context = current.get()
        assert context is not None
        context.source, context.played = Refusing(), "played.test"  # type: ignore[assignment]
        await work()

    rows, conducting = asyncio.run(swarm(URL, body))
    assert [call["outcome"] for call in rows.calls] == ["cancelled"]
    assert "never recorded" in str(conducting.errors["failed"])


def test_other_requests_of_the_same_session_go_out_as_always() -> None:
    async def work() -> None:
        async with aiohttp.ClientSession() as session:

            async def ask(url: str) -> int:
                async with session.post(f"{url}/chat/completions", json={**QUESTION, "model": "echo"}) as reply:
                    await reply.read()
                    return reply.status

            assert await asyncio.gather(*(ask(url) for url in (URL, gateway.base_url) * 5)) == [299, 200] * 5

    with SmallGateway() as gateway:
        rows = play(Scripted(), work)
    assert len(rows.calls) == 10
    assert len(gateway.requests) == 5
