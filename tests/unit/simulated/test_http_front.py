"""The simulated gateway over HTTP, asked by a real client over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from simulated_parts import chat_body, plain_system

from pytest_swarm.sources.simulated import ledger as ledger_module
from pytest_swarm.sources.simulated.http_front import HttpFront
from pytest_swarm.sources.simulated.ledger import Ledger
from pytest_swarm.sources.simulated.profile import Capacity, Faults, Limits

Body = Callable[[aiohttp.ClientSession, str, HttpFront], Awaitable[None]]
KEY = "not-a-real-key"


def served(body: Body, *systems: Any, speed: float = 100.0, key: str | None = None, **session: Any) -> None:
    """Run a coroutine function against a front at a free port."""

    async def run() -> None:
        named = {system.name: system for system in systems or (plain_system(1.0),)}
        async with HttpFront(named, seed="1", speed=speed, key=key) as front:
            url = await front.listen("127.0.0.1", 0)
            async with aiohttp.ClientSession(**session) as client:
                await body(client, url, front)

    asyncio.run(run())


def test_a_document_comes_with_marks_limits_and_cost() -> None:
    async def body(client: aiohttp.ClientSession, url: str, front: HttpFront) -> None:
        async with client.post(f"{url}/chat/completions", data=chat_body()) as response:
            reply = await response.json()
        assert response.status == 200
        assert response.headers["x-swarm-simulated"] == "plain;100"
        assert response.headers["x-request-id"].startswith("req_")
        assert response.headers["x-ratelimit-remaining-requests"] == "59"
        assert reply["usage"]["cost"] > 0
        (row,) = front.ledger.to_dict()["requests"]
        assert row["request_id"] == response.headers["x-request-id"]
        assert row["cost"] == reply["usage"]["cost"]
        assert row["output_tokens"] == reply["usage"]["completion_tokens"]

    served(body, plain_system(1.0, limits=Limits(requests_per_minute=60)))


def test_a_stream_arrives_in_pieces_and_the_ledger_knows_when_each_was_sent() -> None:
    async def body(client: aiohttp.ClientSession, url: str, front: HttpFront) -> None:
        async with client.post(f"{url}/chat/completions", data=chat_body(stream=True)) as response:
            content = await response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        assert content.endswith(b"data: [DONE]\n\n")
        async with client.get(url.removesuffix("/v1") + "/ledger") as response:
            told = await response.json()
        assert told["speed"] == 100.0
        assert told["count"] == 1
        (row,) = told["requests"]
        # As many writes as pieces, unless the machine was too slow to wake between two of them.
        assert 1 <= len(row["writes"]) <= 16
        assert row["received"] <= row["started"] <= row["writes"][0] <= row["writes"][-1] <= row["ended"]
        assert row["bytes"] == len(content)
        assert (row["fate"], row["ending"], row["stream"], row["worker"]) == ("answered", "complete", True, 0)
        assert told["cost"] == row["cost"] > 0

    served(body)


def test_models_are_listed() -> None:
    async def body(client: aiohttp.ClientSession, url: str, front: HttpFront) -> None:
        async with client.get(f"{url}/models") as response:
            assert [model["id"] for model in (await response.json())["data"]] == ["plain"]

    served(body)


def test_an_unknown_model_is_told_which_there_are() -> None:
    async def body(client: aiohttp.ClientSession, url: str, front: HttpFront) -> None:
        async with client.post(f"{url}/chat/completions", data=chat_body("plane")) as response:
            error = (await response.json())["error"]
        assert response.status == 404
        assert error["code"] == "model_not_found"
        assert "there are plain; did you mean 'plain'?" in error["message"]
        (row,) = front.ledger.to_dict()["requests"]
        assert (row["status"], row["cost"], "model" in row) == (404, 0.0, False)

    served(body)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Basic {KEY}"}, 401),
        ({"x-api-key": "wröng"}, 401),
        ({"Authorization": f"Bearer {KEY}"}, 200),
        ({"x-api-key": KEY}, 200),
    ],
)
def test_a_key_is_asked_for_and_never_repeated(headers: dict[str, str], status: int) -> None:
    async def body(client: aiohttp.ClientSession, url: str, front: HttpFront) -> None:
        async with client.post(f"{url}/messages", data=chat_body(max_tokens=9)) as response:
            text = await response.text()
        async with client.get(url.removesuffix("/v1") + "/ledger") as ledger:
            assert ledger.status == status
        assert response.status == status
        assert KEY not in text
        assert "wrong'" not in text
        if status == 401:
            assert json.loads(text)["error"]["type"] == "authentication_error"
            assert front.ledger.to_dict()["count"] == 0

    served(body, key=KEY, headers=headers)


@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_reply_breaks_the_connection(stream: bool) -> None:
    async def body(client: aiohttp.ClientSession, url: str, front: HttpFront) -> None:
        async with client.post(f"{url}/chat/completions", data=chat_body(stream=stream)) as response:
            assert response.status == 200
            with pytest.raises(aiohttp.ClientError):
                await response.read()
        (row,) = front.ledger.to_dict()["requests"]
        assert (row["fate"], row["ending"]) == ("cut", "disconnected")

    served(body, plain_system(faults=Faults(cut_rate=1.0)))


def test_a_hung_request_ends_without_a_reply() -> None:
    async def body(client: aiohttp.ClientSession, url: str, front: HttpFront) -> None:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await client.post(f"{url}/chat/completions", data=chat_body())
        (row,) = front.ledger.to_dict()["requests"]
        assert (row["status"], row["writes"], row["started"], row["ending"]) == (None, [], None, "disconnected")

    served(body, plain_system(faults=Faults(hang_rate=1.0, hang_seconds=1.0)))


def test_a_client_that_hangs_up_frees_its_worker() -> None:
    async def body(client: aiohttp.ClientSession, url: str, front: HttpFront) -> None:
        with pytest.raises(TimeoutError):
            await client.post(f"{url}/chat/completions", data=chat_body(), timeout=aiohttp.ClientTimeout(total=0.05))
        while front.ledger.to_dict()["requests"][0]["ending"] is None:
            await asyncio.sleep(0.01)
        assert front.ledger.to_dict()["requests"][0]["ending"] == "cancelled"
        async with client.post(f"{url}/chat/completions", data=chat_body("fast")) as response:
            assert response.status == 200

    # The worker of the first system would be busy for an hour; the second proves that the server goes on.
    served(body, plain_system(3600.0, capacity=Capacity("fixed", 1)), plain_system(0.01, name="fast"), speed=1.0)


def test_the_server_ends_while_a_reply_is_on_its_way() -> None:
    async def run() -> None:
        async with aiohttp.ClientSession() as client:
            async with HttpFront({"plain": plain_system(3600.0)}, seed="1") as front:
                url = await front.listen("127.0.0.1", 0)
                asking = asyncio.create_task(client.post(f"{url}/chat/completions", data=chat_body()))
                while not front.ledger.to_dict()["count"]:
                    await asyncio.sleep(0.01)
            with pytest.raises(aiohttp.ClientError):
                await asking

    asyncio.run(run())


def test_a_port_in_use_is_an_error_of_the_system() -> None:
    async def body(client: aiohttp.ClientSession, url: str, front: HttpFront) -> None:
        async with HttpFront({}, seed="1") as second:
            with pytest.raises(OSError, match="in use"):
                await second.listen("127.0.0.1", int(url.split(":")[2].removesuffix("/v1")))

    served(body)


def test_the_ledger_keeps_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "ENTRIES", 2)
    book = Ledger(1.0)
    for number in range(3):
        book.open(f"/{number}", float(number))
    told = book.to_dict()
    assert told["count"] == 3
    assert [row["path"] for row in told["requests"]] == ["/1", "/2"]
