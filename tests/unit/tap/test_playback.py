"""Clients of httpx that a source answers without a network: endings, time limits, and who cannot be answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from pytest_swarm.errors import SwarmError
from pytest_swarm.exchange import Ending, Exchange
from pytest_swarm.gateway.client import Gateway
from pytest_swarm.tap import httpx as httpx_tap
from pytest_swarm.tap.routing import Agent, current
from tests.support.bench import Rows, swarm

URL = "http://played.test/v1"
QUESTION = {"model": "m", "messages": []}
EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "yes"}, "finish_reason": null}]}\n\n'
LAST = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


class ScriptedSource:
    """Answers with an event stream, and ends as it is told to: before the head, between two events, or well."""

    loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, ending: Ending = Ending.COMPLETE, *, before_head: bool = False, pause: float = 0.0) -> None:
        self.ending = ending
        self.before_head = before_head
        self.pause = pause

    async def send(self, exchange: Exchange) -> AsyncIterator[None]:
        try:
            exchange.wrote(exchange.clock())
            if not self.before_head:
                exchange.head(exchange.clock(), 200, {"content-type": "text/event-stream"})
                exchange.feed(exchange.clock(), EVENT)
                yield
                await asyncio.sleep(self.pause)
            if self.ending is Ending.COMPLETE:
                exchange.feed(exchange.clock(), LAST)
            exchange.finish(exchange.clock(), self.ending, "as scripted")
            yield
        finally:
            exchange.finish(exchange.clock(), Ending.CANCELLED)


@pytest.fixture(autouse=True)
def tapped() -> Iterator[None]:
    httpx_tap.install()
    yield
    httpx_tap.uninstall()


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


def play(source: ScriptedSource, work: Any) -> Rows:
    """Run `await work()` as one task whose requests to `URL` the source answers."""

    async def body(gateway: Gateway, agent: Agent) -> None:
        context = current.get()
        assert context is not None
        context.source, context.played = source, "played.test"
        await work()

    rows, conducting = asyncio.run(swarm(URL, body))
    assert not conducting.errors, conducting.errors
    return rows


def test_a_client_gets_head_bytes_and_end_from_the_source(library: Any) -> None:
    async def work() -> None:
        async with library.AsyncClient() as client:
            response = await client.post(f"{URL}/chat/completions", json=QUESTION)
            assert response.status_code == 200
            assert response.headers["content-type"] == "text/event-stream"
            assert response.content == EVENT + LAST
            assert response.elapsed.total_seconds() >= 0

    (call,) = play(ScriptedSource(), work).calls
    assert (call["outcome"], call["attempts"]) == ("ok", 1)


@pytest.mark.parametrize(
    ("ending", "exception"),
    [
        (Ending.CONNECT_ERROR, "ConnectError"),
        (Ending.CONNECT_TIMEOUT, "ConnectTimeout"),
        (Ending.DISCONNECTED, "RemoteProtocolError"),
        (Ending.FIRST_TOKEN_TIMEOUT, "ReadTimeout"),
    ],
)
@pytest.mark.parametrize("before_head", [True, False])
def test_an_early_end_is_the_exception_of_the_library(
    library: Any, ending: Ending, exception: str, before_head: bool
) -> None:
    async def work() -> None:
        async with library.AsyncClient() as client:
            with pytest.raises(getattr(library, exception), match="as scripted"):
                await client.post(f"{URL}/chat/completions", json=QUESTION)

    (call,) = play(ScriptedSource(ending, before_head=before_head), work).calls
    assert call["outcome"] == ending.value


def test_a_read_timeout_of_the_client_ends_the_exchange(library: Any) -> None:
    async def work() -> None:
        async with library.AsyncClient(timeout=0.05) as client:
            with pytest.raises(library.ReadTimeout, match=r"nothing came for 0\.05 s"):
                await client.post(f"{URL}/chat/completions", json=QUESTION)

    (call,) = play(ScriptedSource(pause=60), work).calls
    assert call["outcome"] == "idle_timeout"


def test_a_stream_left_early_is_cancelled(library: Any) -> None:
    async def work() -> None:
        async with (
            library.AsyncClient() as client,
            client.stream("POST", f"{URL}/chat/completions", json=QUESTION) as response,
        ):
            async for _ in response.aiter_raw():
                break

    (call,) = play(ScriptedSource(pause=60), work).calls
    assert call["outcome"] == "cancelled"


def test_a_cancelled_request_leaves_the_source(library: Any) -> None:
    class Silent(ScriptedSource):
        async def send(self, exchange: Exchange) -> AsyncIterator[None]:
            try:
                exchange.wrote(exchange.clock())
                await asyncio.sleep(60)
                yield
            finally:
                exchange.finish(exchange.clock(), Ending.CANCELLED)

    async def work() -> None:
        async with library.AsyncClient() as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await client.post(f"{URL}/chat/completions", json=QUESTION)

    (call,) = play(Silent(), work).calls
    assert call["outcome"] == "cancelled"


def test_a_blocking_client_is_answered_from_the_loop_of_the_source(library: Any) -> None:
    source = ScriptedSource()
    refused = ScriptedSource(Ending.DISCONNECTED, before_head=True)

    async def work() -> None:
        def blocking(client: Any) -> None:
            assert client.post(f"{URL}/chat/completions", json=QUESTION).content == EVENT + LAST

        def failing(client: Any) -> None:
            with pytest.raises(library.RemoteProtocolError):
                client.post(f"{URL}/chat/completions", json=QUESTION)

        context = current.get()
        assert context is not None
        with library.Client() as client:
            for each, answering in ((blocking, source), (failing, refused)):
                answering.loop = asyncio.get_running_loop()
                context.source = answering
                await asyncio.to_thread(each, client)

    assert [call["outcome"] for call in play(source, work).calls] == ["ok", "disconnected"]


def test_a_blocking_client_on_the_loop_of_the_source_is_told_that_it_would_wait_for_ever(library: Any) -> None:
    source = ScriptedSource()

    async def work() -> None:
        source.loop = asyncio.get_running_loop()
        with library.Client() as client, pytest.raises(SwarmError, match="use the async client there"):
            client.post(f"{URL}/chat/completions", json=QUESTION)

    (call,) = play(source, work).calls
    assert call["outcome"] == "cancelled"
