"""A request that the gateway sends on to another address is one call with one attempt, whichever client follows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from pytest_swarm.errors import SwarmError
from pytest_swarm.exchange import REDIRECTED
from pytest_swarm.gateway.client import Gateway
from pytest_swarm.tap import httpx as httpx_tap
from pytest_swarm.tap.routing import Agent, current
from tests.support.bench import Rows, swarm

ASK = {"model": "m", "messages": []}
REPLY = {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}


@pytest.fixture(autouse=True)
def tapped() -> Iterator[None]:
    httpx_tap.install()
    yield
    httpx_tap.uninstall()


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


@asynccontextmanager
async def gateway_that_moved(status: int = 307, to: str = "/v1/chat/completions") -> AsyncIterator[str]:
    """Its old address, which tells the new one after 50 ms."""

    async def old(_: web.Request) -> web.Response:
        await asyncio.sleep(0.05)
        return web.Response(status=status, text="it has moved", headers={"location": to})

    async def new(request: web.Request) -> web.Response:
        assert await request.json() == ASK
        return web.json_response(REPLY)

    app = web.Application()
    app.router.add_post("/old/chat/completions", old)
    app.router.add_post("/v1/chat/completions", new)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/old/chat/completions"
    finally:
        await runner.cleanup()


def run(body: Any, **moved: Any) -> Rows:
    async def main() -> Rows:
        async with gateway_that_moved(**moved) as url:

            async def one(gateway: Gateway, agent: Agent) -> None:
                await body(url)

            rows, conducting = await swarm("http://unused.test/v1", one)
            assert not conducting.errors
            return rows

    return asyncio.run(main())


def check_one_call(rows: Rows) -> None:
    (call,) = rows.calls
    assert call["outcome"] == "ok"
    assert call["status"] == 200
    assert call["attempts"] == 1
    assert REDIRECTED in call["notes"]
    # From the first send on.
    assert call["latency"] >= 0.05


def test_aiohttp() -> None:
    async def body(url: str) -> None:
        async with aiohttp.ClientSession() as session, session.post(url, json=ASK) as response:
            assert await response.json() == REPLY

    check_one_call(run(body))


def test_an_async_client(library: Any) -> None:
    async def body(url: str) -> None:
        async with library.AsyncClient(follow_redirects=True) as client:
            assert (await client.post(url, json=ASK)).json() == REPLY

    check_one_call(run(body))


def test_a_sync_client(library: Any) -> None:
    async def body(url: str) -> None:
        response = await asyncio.to_thread(library.post, url, json=ASK, follow_redirects=True)
        assert response.json() == REPLY

    check_one_call(run(body, status=308))


def test_a_redirect_that_nobody_follows_is_the_answer(library: Any) -> None:
    async def body(url: str) -> None:
        async with library.AsyncClient() as client:
            assert (await client.post(url, json=ASK)).text == "it has moved"

    (call,) = run(body).calls
    assert call["outcome"] == "client_error"
    assert call["status"] == 307


def test_a_redirect_that_leads_nowhere_ends_the_call(library: Any) -> None:
    async def body(url: str) -> None:
        async with library.AsyncClient(follow_redirects=True, max_redirects=3) as client:
            with pytest.raises(library.TooManyRedirects):
                await client.post(url, json=ASK)

    (call,) = run(body, to="/old/chat/completions").calls
    assert call["outcome"] == "disconnected"
    assert "TooManyRedirects" in call["detail"]


def test_a_redirect_off_the_machine_is_stopped_like_any_other_request(library: Any) -> None:
    async def body(url: str) -> None:
        context = current.get()
        assert context is not None
        context.confined = frozenset()
        async with library.AsyncClient(follow_redirects=True) as client:
            with pytest.raises(SwarmError, match=r"a request to example\.com was stopped"):
                await client.post(url, json=ASK)
        context.stopped = None

    (call,) = run(body, to="https://example.com/v1/chat/completions").calls
    assert call["outcome"] == "disconnected"
