"""Every scripted exchange, over a real socket, through httpx and httpx2; and what else their clients do."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_swarm.errors import SwarmError
from pytest_swarm.gateway.client import Gateway
from pytest_swarm.judging.prices import PriceTable
from pytest_swarm.tap import httpx as httpx_tap
from pytest_swarm.tap import routing
from pytest_swarm.tap.routing import Agent, caller, current, unobserved
from pytest_swarm.traffic.budget import Budget
from tests.support.bench import Rows, swarm
from tests.support.processes import port_of
from tests.unit.tap.test_exchanges import CASES, CASES_PATH, check


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """The server has a process of its own, so that it is on time."""
    with port_of([sys.executable, "-m", "tests.support.scripted_server", str(CASES_PATH)]) as port:
        yield f"http://127.0.0.1:{port}/v1"


@pytest.fixture(autouse=True)
def tapped() -> Iterator[None]:
    httpx_tap.install()
    yield
    httpx_tap.uninstall()


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


def run(base_url: str, body: Any, **arguments: Any) -> Rows:
    rows, conducting = asyncio.run(swarm(base_url, body, **arguments))
    assert not conducting.errors
    return rows


def question(name: str, stream: bool = True) -> dict[str, Any]:
    return {"model": name, "messages": [], "stream": stream}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "retries" not in case["request"]])
def test_an_async_client_is_read_like_any_other(library: Any, base_url: str, name: str) -> None:
    case = CASES[name]
    got: list[bytes] = []

    async def body(gateway: Gateway, agent: Agent) -> None:
        async with library.AsyncClient(timeout=case["request"].get("timeout", 30)) as client:
            try:
                payload = question(name, case["request"]["stream"])
                got.append((await client.post(f"{base_url}/chat/completions", json=payload)).content)
            except library.HTTPError:
                pass

    (call,) = run(base_url, body).calls
    check(call, case["expect"], None)
    assert call["model"] == name
    if case["expect"].get("outcome") == "ok":
        expected = "".join(piece for _, piece in case["script"][0]["chunks"])
        assert got == [expected.encode()]


def blocking(work: Callable[[], None]) -> Any:
    """A body whose work is done in a thread."""

    async def body(gateway: Gateway, agent: Agent) -> None:
        await asyncio.to_thread(work)

    return body


@pytest.mark.parametrize("name", ["plain", "reasoning-then-answer", "error-in-200", "reset-mid-stream", "json-reply"])
def test_a_sync_client_is_read_like_any_other(library: Any, base_url: str, name: str) -> None:
    case = CASES[name]

    def work() -> None:
        with library.Client() as client:
            try:
                client.post(f"{base_url}/chat/completions", json=question(name, case["request"]["stream"]))
            except library.HTTPError:
                assert name == "reset-mid-stream"

    (call,) = run(base_url, blocking(work)).calls
    check(call, case["expect"], None)


def test_a_slow_reader_does_not_move_the_times(library: Any, base_url: str) -> None:
    got: list[bytes] = []

    async def body(gateway: Gateway, agent: Agent) -> None:
        async with (
            library.AsyncClient() as client,
            client.stream("POST", f"{base_url}/chat/completions", json=question("plain")) as response,
        ):
            async for piece in response.aiter_raw():
                got.append(piece)
                await asyncio.sleep(0.3)

    (call,) = run(base_url, body).calls
    check(call, CASES["plain"]["expect"], None)
    assert b"".join(got).decode() == "".join(piece for _, piece in CASES["plain"]["script"][0]["chunks"])


def test_a_stream_left_early_is_cancelled_and_counted(library: Any, base_url: str) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        async with (
            library.AsyncClient() as client,
            client.stream("POST", f"{base_url}/chat/completions", json=question("late-usage")) as response,
        ):
            async for _ in response.aiter_raw():
                break

    def work() -> None:
        with (
            library.Client() as client,
            client.stream("POST", f"{base_url}/chat/completions", json=question("late-usage")) as response,
        ):
            for _ in response.iter_raw():
                break

    for each in (body, blocking(work)):
        (call,) = run(base_url, each).calls
        assert call["outcome"] in ("cancelled", "ok")
        assert call["ttft"] is not None


def test_a_refused_connection_is_a_connect_error(library: Any) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        async with library.AsyncClient() as client:
            with pytest.raises(library.ConnectError):
                await client.post("http://127.0.0.1:9/v1/chat/completions", json=question("plain"))

    (call,) = run("http://127.0.0.1:9/v1", body).calls
    assert (call["outcome"], call["sent"]) == ("connect_error", None)


def test_a_timeout_of_the_client_is_told_by_what_it_waited_for(library: Any, base_url: str) -> None:
    def work() -> None:
        with library.Client(timeout=0.2) as client, pytest.raises(library.ReadTimeout):
            client.post(f"{base_url}/chat/completions", json=question("hang", stream=False))

    (call,) = run(base_url, blocking(work)).calls
    assert call["outcome"] == "first_token_timeout"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "identity", "unknown"])
def test_a_compressed_reply_is_read(library: Any, coding: str) -> None:
    document = json.dumps(
        {
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
        }
    ).encode()
    body_bytes = {"gzip": gzip.compress, "deflate": zlib.compress}.get(coding, lambda data: data)(document)

    def answer(request: Any) -> Any:
        headers = {"content-type": "application/json", "content-encoding": coding}
        return library.Response(200, headers=headers, stream=Chunks(body_bytes))

    class Chunks(library.AsyncByteStream):  # type: ignore[name-defined, misc] # a class of either library
        def __init__(self, data: bytes) -> None:
            self.data = data

        async def __aiter__(self) -> Any:
            for at in range(0, len(self.data), 20):
                yield self.data[at : at + 20]

    async def body(gateway: Gateway, agent: Agent) -> None:
        async with library.AsyncClient(transport=library.MockTransport(answer)) as client:
            response = await client.post("http://127.0.0.1/v1/chat/completions", json=question("m", stream=False))
            assert response.json()["usage"]["total_tokens"] == 4
            assert response.elapsed.total_seconds() >= 0

    (call,) = run("http://127.0.0.1/v1", body).calls
    assert (call["outcome"], call["output_tokens"]) == ("ok", 1)


def test_other_requests_pass_through_and_are_counted(library: Any, base_url: str) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        async with library.AsyncClient() as client:
            assert (await client.get(base_url.removesuffix("/v1") + "/log")).status_code == 200

            async def pieces() -> Any:
                yield json.dumps(question("json-reply", stream=False)).encode()

            reply = await client.post(f"{base_url}/chat/completions", content=pieces())
            assert reply.status_code == 200

    rows = run(base_url, body)
    assert [(call["outcome"], call["detail"]) for call in rows.calls] == [
        ("other", "GET 127.0.0.1/log"),
        ("other", "POST 127.0.0.1/v1/chat/completions"),
    ]


def answering(library: Any) -> Any:
    """A client to which every host answers, with nothing."""
    return library.AsyncClient(transport=library.MockTransport(lambda _: library.Response(200, json={})))


def test_model_calls_to_other_hosts_than_the_gateway_are_no_calls_of_the_swarm(library: Any) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        context = current.get()
        assert context is not None
        context.counted = frozenset({"gateway.test"})
        async with answering(library) as client:
            for host in ("judge.test", "gateway.test"):
                await client.post(f"https://{host}/v1/chat/completions", json=question("m"))

    first, second = run("http://gateway.test/v1", body).calls
    assert (first["outcome"], first["detail"]) == ("other", "POST judge.test/v1/chat/completions")
    assert second["outcome"] != "other"


def test_what_would_leave_the_machine_is_stopped_and_told_whatever_the_body_swallows(library: Any) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        context = current.get()
        assert context is not None
        context.confined = frozenset()
        async with answering(library) as client:
            with pytest.raises(SwarmError):
                await client.post("https://api.vendor.test/v1/chat/completions", json=question("m"))

    rows, conducting = asyncio.run(swarm("http://127.0.0.1/v1", body))
    assert rows.calls == []
    assert [task["status"] for task in rows.tasks] == ["failed"]
    assert "a request to api.vendor.test was stopped" in str(conducting.errors["failed"])


def test_calls_that_no_task_makes_belong_to_the_test(library: Any) -> None:
    asked = asyncio.Event()

    async def in_the_background() -> None:
        await asked.wait()
        async with answering(library) as client:
            await client.post("http://127.0.0.1/v1/chat/completions", json=question("m"))
            with unobserved():
                await client.post("http://127.0.0.1/v1/chat/completions", json=question("m"))

    async def main() -> Rows:
        background = asyncio.create_task(in_the_background())

        async def body(gateway: Gateway, agent: Agent) -> None:
            routing.outside.append(gateway._outside)
            asked.set()
            await background

        try:
            rows, _ = await swarm("http://127.0.0.1/v1", body)
        finally:
            routing.outside.clear()
        return rows

    (call,) = asyncio.run(main()).calls
    assert call["task"] is None


def test_nobody_answers_for_requests_outside_of_any_test() -> None:
    assert caller() is None


def test_a_library_is_given_back_as_it_was(library: Any) -> None:
    httpx_tap.uninstall()
    names = ("Client", "AsyncClient")
    before = [getattr(library, name)._send_single_request for name in names]
    httpx_tap.install()
    httpx_tap.install()
    assert [getattr(library, name)._send_single_request for name in names] != before
    httpx_tap.uninstall()
    assert [getattr(library, name)._send_single_request for name in names] == before


@pytest.mark.parametrize("is_async", [True, False])
def test_a_cost_ceiling_stands_before_a_client_of_the_bodys_own(library: Any, is_async: bool) -> None:
    sent: list[Any] = []
    transport = library.MockTransport(lambda request: sent.append(request))
    dear = {**question("m", stream=False), "max_tokens": 100}
    url = "http://127.0.0.1/v1/chat/completions"

    async def body(gateway: Gateway, agent: Agent) -> None:
        async with library.AsyncClient(transport=transport) as client:
            await client.post(url, json=dear)

    def work() -> None:
        with library.Client(transport=transport) as client:
            client.post(url, json=dear)

    prices = PriceTable({"m": {"input": 0, "output": 1_000_000}})
    each = body if is_async else blocking(work)
    rows, _ = asyncio.run(swarm("http://127.0.0.1/v1", each, prices=prices, budget=Budget(1, "here")))
    assert [call["outcome"] for call in rows.calls] == ["budget"]
    assert [task["status"] for task in rows.tasks] == ["cancelled"]
    assert sent == []
