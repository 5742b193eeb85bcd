"""Every scripted exchange, over a real socket, through `gateway.chat` and through a session of the body's own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pytest_swarm.errors import CallFailed
from pytest_swarm.gateway.client import Gateway
from pytest_swarm.tap.routing import Agent
from tests.support.bench import swarm
from tests.support.processes import port_of

CASES_PATH = Path(__file__).parents[2] / "cases" / "exchanges.json"
CASES: dict[str, dict[str, Any]] = {case["name"]: case for case in json.loads(CASES_PATH.read_text())}
SLACK = 0.05
"""Seconds by which a busy machine may be late. Exactness is checked against the server's own notes elsewhere."""


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """The server has a process of its own, so that it is on time."""
    with port_of([sys.executable, "-m", "tests.support.scripted_server", str(CASES_PATH)]) as port:
        yield f"http://127.0.0.1:{port}/v1"


def check(call: dict[str, Any], expect: dict[str, Any], text: str | None) -> None:
    assert call["outcome"] in expect.get("outcome_in", [expect.get("outcome")]), call["detail"]
    for name in ("input_tokens", "output_tokens", "cached_tokens", "finish_reason", "attempts"):
        if name in expect:
            assert call[name] == expect[name], name
    for name in ("ttft", "ttfo", "latency", "tpot"):
        if f"{name}_ms" in expect:
            milliseconds = expect[f"{name}_ms"]
            if milliseconds is None:
                assert call[name] is None, name
            else:
                seconds = milliseconds / 1000
                late = SLACK if name != "tpot" else SLACK / 10
                assert seconds - 0.002 <= call[name] <= seconds + late, name
    if "detail_has" in expect:
        assert expect["detail_has"] in call["detail"]
    if "text" in expect and text is not None:
        assert text == expect["text"]
    if "gap_s" in expect:
        first, second = (attempt["sent"] for attempt in call["attempt_list"])
        assert expect["gap_s"][0] <= second - first <= expect["gap_s"][1] + SLACK
    if "latency_s" in expect:
        assert expect["latency_s"][0] <= call["latency"] <= expect["latency_s"][1]


@pytest.mark.parametrize("name", [name for name in CASES if name != "stale-keep-alive"])
def test_gateway_chat_reads_the_exchange(base_url: str, name: str) -> None:
    case = CASES[name]
    request = case["request"]
    texts: list[str] = []

    async def body(gateway: Gateway, agent: Agent) -> None:
        try:
            reply = await gateway.chat("hi", model=name, stream=request["stream"])
            texts.append(reply.text)
        except CallFailed as failed:
            texts.append(failed.reply.text if failed.reply is not None else "")

    timeout = {"total": request["timeout"]} if "timeout" in request else None
    rows, _ = asyncio.run(swarm(base_url, body, retries=request.get("retries", 0), timeout=timeout))
    (call,) = rows.calls
    check(call, case["expect"], texts[0])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "retries" not in case["request"]])
def test_a_session_of_the_body_is_read_the_same(base_url: str, name: str) -> None:
    case = CASES[name]
    total = case["request"].get("timeout")
    got: list[bytes] = []

    async def body(gateway: Gateway, agent: Agent) -> None:
        payload = {"model": name, "messages": [], "stream": case["request"]["stream"]}
        timeout = aiohttp.ClientTimeout(total=total)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            try:
                async with session.post(f"{base_url}/chat/completions", json=payload) as response:
                    got.append(await response.read())
            except (aiohttp.ClientError, TimeoutError):
                pass

    rows, _ = asyncio.run(swarm(base_url, body))
    (call,) = rows.calls
    check(call, case["expect"], None)
    assert call["model"] == name
    if case["expect"].get("outcome") == "ok":
        expected = "".join(piece for _, piece in case["script"][0]["chunks"])
        assert got == [expected.encode()]


@pytest.mark.parametrize("name", ["plain", "reasoning-then-answer", "split-in-string", "unfinished"])
def test_gateway_stream_yields_the_text_in_pieces(base_url: str, name: str) -> None:
    pieces: list[str] = []
    failures: list[str] = []
    case = CASES["no-done-no-finish" if name == "unfinished" else name]

    async def body(gateway: Gateway, agent: Agent) -> None:
        try:
            pieces.extend([piece async for piece in gateway.stream("hi", model=case["name"])])
        except CallFailed as failed:
            failures.append(failed.outcome)

    rows, _ = asyncio.run(swarm(base_url, body))
    check(rows.calls[0], case["expect"], None)
    assert failures == ([] if case["expect"]["outcome"] == "ok" else [case["expect"]["outcome"]])


def test_a_slow_reader_does_not_move_the_times(base_url: str) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        async for _ in gateway.stream("hi", model="plain"):
            await asyncio.sleep(0.3)

    async def own_session(gateway: Gateway, agent: Agent) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"{base_url}/chat/completions", json={"model": "plain", "messages": [], "stream": True}
            ) as response,
        ):
            async for _ in response.content.iter_any():
                await asyncio.sleep(0.3)

    for each in (body, own_session):
        rows, _ = asyncio.run(swarm(base_url, each))
        check(rows.calls[0], CASES["plain"]["expect"], None)


def test_a_stream_left_early_is_cancelled_and_counted(base_url: str) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        pieces = gateway.stream("hi", model="plain")
        async for _ in pieces:
            break
        await pieces.aclose()

    async def own_session(gateway: Gateway, agent: Agent) -> None:
        async with aiohttp.ClientSession() as session:
            payload = {"model": "plain", "messages": [], "stream": True}
            response = await session.post(f"{base_url}/chat/completions", json=payload)
            response.close()

    for each in (body, own_session):
        rows, _ = asyncio.run(swarm(base_url, each))
        assert [call["outcome"] for call in rows.calls] == ["cancelled"]
        assert [task["status"] for task in rows.tasks] == ["passed"]


def test_what_a_task_leaves_running_is_booked_as_cancelled(base_url: str) -> None:
    left: list[asyncio.Task[Any]] = []

    async def body(gateway: Gateway, agent: Agent) -> None:
        left.append(asyncio.create_task(gateway.chat("hi", model="late-usage", stream=True)))
        await asyncio.sleep(0.05)

    async def run() -> Any:
        rows, _ = await swarm(base_url, body)
        with pytest.raises(CallFailed, match="cancelled"):
            await left[0]
        return rows

    rows = asyncio.run(run())
    assert [call["outcome"] for call in rows.calls] == ["cancelled"]


def test_requests_that_are_no_model_calls_pass_through_and_are_counted(base_url: str) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        log = base_url.removesuffix("/v1") + "/log"
        async with aiohttp.ClientSession() as session, session.get(log) as response:
            assert response.status == 200
            assert isinstance(await response.json(), list)

    rows, conducting = asyncio.run(swarm(base_url, body))
    assert [(call["outcome"], call["detail"]) for call in rows.calls] == [("other", "GET 127.0.0.1/log")]
    assert conducting.result.runs[0].others == {"127.0.0.1": 1}
    assert not conducting.errors
