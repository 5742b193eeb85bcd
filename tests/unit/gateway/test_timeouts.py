"""The four timeouts, each against a server that provokes exactly it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pytest_swarm.errors import CallFailed
from pytest_swarm.gateway.client import Gateway
from pytest_swarm.tap.routing import Agent
from tests.support.bench import Rows, swarm
from tests.support.scripted_server import ScriptedServer

TOKEN = 'data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}\n\n'
ROLE = 'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}\n\n'
DONE = 'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
CASES = [
    {"name": "silent", "script": [{"chunks": [], "head_ms": 5000}]},
    {"name": "role-only", "script": [{"chunks": [[5, ROLE], [5000, TOKEN]]}]},
    {"name": "stalls", "script": [{"chunks": [[5, TOKEN], [5000, TOKEN]]}]},
    {"name": "drips", "script": [{"chunks": [*([at, TOKEN] for at in range(20, 4000, 20)), [4000, DONE]]}]},
    {"name": "fine", "script": [{"chunks": [[5, ROLE], [60, TOKEN], [120, TOKEN], [180, TOKEN], [181, DONE]]}]},
    {
        "name": "stale",
        "script": [
            {"headers": {"content-type": "application/json"}, "framing": "length", "chunks": [[0, '{"choices": []}']]},
        ],
    },
]


def run(model: str, **timeout: float) -> tuple[Rows, str]:
    ended: list[str] = []

    async def body(gateway: Gateway, agent: Agent) -> None:
        try:
            ended.append((await gateway.chat("hi", model=model, stream=True)).outcome)
        except CallFailed as failed:
            ended.append(failed.outcome)

    async def main() -> Rows:
        async with ScriptedServer(CASES) as server:
            rows, _ = await swarm(f"{server.base_url}", body, timeout=timeout)
            return rows

    rows = asyncio.run(main())
    return rows, ended[0]


@pytest.mark.parametrize(
    ("model", "timeout", "outcome"),
    [
        ("silent", {"first_token": 0.2}, "first_token_timeout"),
        ("role-only", {"first_token": 0.2}, "first_token_timeout"),
        ("stalls", {"idle": 0.2}, "idle_timeout"),
        ("stalls", {"idle": 0.2, "first_token": 3}, "idle_timeout"),
        ("drips", {"total": 0.3, "idle": 1, "first_token": 1}, "timeout"),
        ("silent", {"total": 0.2}, "timeout"),
        ("fine", {"first_token": 0.5, "idle": 0.5, "total": 5, "connect": 1}, "ok"),
    ],
)
def test_the_limit_that_is_passed_names_the_outcome(model: str, timeout: dict[str, float], outcome: str) -> None:
    rows, ended = run(model, **timeout)
    assert ended == outcome
    (call,) = rows.calls
    assert call["outcome"] == outcome
    if outcome != "ok":
        assert call["latency"] < 1.5
        assert "within" in call["detail"] or "silent for" in call["detail"]


def test_a_connection_that_does_not_come_is_a_connect_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(10)

    monkeypatch.setattr("aiohttp.TCPConnector._create_connection", never)
    rows, ended = run("fine", connect=0.2)
    assert ended == "connect_timeout"
    assert rows.calls[0]["sent"] is None


def test_timeouts_do_not_outlive_the_call_nor_swallow_a_cancellation() -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        chatting = asyncio.create_task(gateway.chat("hi", model="silent", stream=True))
        await asyncio.sleep(0.1)
        chatting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await chatting

    async def main() -> Rows:
        async with ScriptedServer(CASES) as server:
            return (await swarm(server.base_url, body, timeout={"total": 5}))[0]

    rows = asyncio.run(main())
    assert [call["outcome"] for call in rows.calls] == ["cancelled"]
    assert [task["status"] for task in rows.tasks] == ["passed"]


def serve_and_hang_up(answers_before_hanging_up: int) -> Callable[..., Awaitable[None]]:
    """Answers so many requests on a connection, then closes it at the next request without a word."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = b'{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}'
        answered = 0
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
                )
                await reader.readexactly(length)
                if answered == answers_before_hanging_up:
                    break
                answered += 1
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
                )
                writer.write(body)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    return serve


def test_a_stale_pooled_connection_is_replaced_once_and_noted() -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        for _ in range(3):
            assert (await gateway.chat("hi", model="m")).text == "ok"

    async def main() -> Rows:
        server = await asyncio.start_server(serve_and_hang_up(1), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return (await swarm(f"http://127.0.0.1:{port}/v1", body))[0]

    rows = asyncio.run(main())
    assert [call["outcome"] for call in rows.calls] == ["ok"] * 3
    assert [call["attempts"] for call in rows.calls] == [1] * 3
    reconnected = [any("reconnected" in note for note in call["notes"]) for call in rows.calls]
    assert reconnected == [False, True, True] or reconnected == [False, True, False]


def test_a_server_that_hangs_up_on_a_new_connection_is_disconnected() -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        with pytest.raises(CallFailed, match="disconnected"):
            await gateway.chat("hi", model="m")

    async def main() -> Rows:
        server = await asyncio.start_server(serve_and_hang_up(0), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return (await swarm(f"http://127.0.0.1:{port}/v1", body))[0]

    assert [call["outcome"] for call in asyncio.run(main()).calls] == ["disconnected"]
