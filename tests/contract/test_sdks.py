"""The real SDKs against real sockets and against the simulated gateway: what they ask is measured, and counted once."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_swarm.errors import SettingError
from pytest_swarm.gateway.client import Gateway, Terms
from pytest_swarm.gateway.sdk import NO_KEY, make_anthropic, make_openai
from pytest_swarm.judging.prices import PriceTable
from pytest_swarm.sources.simulated.http_front import HttpFront
from pytest_swarm.sources.simulated.systems import builtin_systems
from pytest_swarm.swarm.plan import Timeouts
from pytest_swarm.tap import httpx as httpx_tap
from pytest_swarm.tap.retried import NESTED
from pytest_swarm.tap.routing import Agent
from pytest_swarm.traffic.budget import Budget
from tests.support.bench import Rows, swarm
from tests.support.scripted_server import ScriptedServer
from tests.support.suites import SuiteRun, run_suite

anthropic = pytest.importorskip("anthropic")
httpx = pytest.importorskip("httpx")
openai = pytest.importorskip("openai")

MESSAGES = [{"role": "user", "content": "hi"}]
SYSTEM = "gpt-6-agent"


@pytest.fixture(autouse=True)
def tapped() -> Iterator[None]:
    httpx_tap.install()
    yield
    httpx_tap.uninstall()


@asynccontextmanager
async def front(speed: float = 20.0) -> AsyncIterator[str]:
    """The simulated gateway behind a real socket: its replies are those of all three wires."""
    async with HttpFront(builtin_systems(), seed="sdks", speed=speed) as server:
        yield await server.listen("127.0.0.1", 0)


def ask(question: Callable[[str], Any], tasks: int = 1) -> list[dict[str, Any]]:
    """Run `question(base_url)` as tasks against the front, and give back the rows of its calls."""

    async def run() -> Rows:
        async with front() as base_url:

            async def body(gateway: Gateway, agent: Agent) -> None:
                await question(base_url)

            rows, conducting = await swarm(base_url, body, tasks=tasks)
            assert not conducting.errors
            return rows

    return asyncio.run(run()).calls


def scripted(cases: list[dict[str, Any]], body: Callable[[str], Any]) -> tuple[Rows, Any]:
    async def run() -> tuple[Rows, Any]:
        async with ScriptedServer(cases) as server:

            async def one(gateway: Gateway, agent: Agent) -> None:
                await body(server.base_url)

            return await swarm(server.base_url, one)

    return asyncio.run(run())


def reply(status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> dict[str, Any]:
    headers = {"content-type": "application/json", **(headers or {})}
    return {"status": status, "headers": headers, "chunks": [[0, json.dumps(body)]], "framing": "length"}


COMPLETION = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}
BUSY = reply(429, {"error": {"message": "busy", "type": "rate_limit"}}, {"retry-after-ms": "60"})
BROKEN = reply(500, {"error": {"message": "broken", "type": "server"}}, {"retry-after-ms": "20"})
FLAKY = {"name": "flaky", "script": [BUSY, reply(200, COMPLETION)]}
DOWN = {"name": "down", "script": [BROKEN]}
WRONG = {"name": "wrong", "script": [reply(400, {"error": {"message": "no", "type": "bad"}})]}


# --- openai ---


def test_openai_chat() -> None:
    async def question(base_url: str) -> None:
        async with openai.AsyncOpenAI(base_url=base_url, api_key="k") as client:
            answer = await client.chat.completions.create(model=SYSTEM, messages=MESSAGES)
            assert answer.choices[0].message.content

    (call,) = ask(question)
    assert (call["outcome"], call["model"], call["attempts"]) == ("ok", SYSTEM, 1)
    assert call["source"] == "simulated"
    assert call["output_tokens"] > 0
    assert call["ttft"] is None


def test_openai_chat_streamed() -> None:
    async def question(base_url: str) -> None:
        async with openai.AsyncOpenAI(base_url=base_url, api_key="k") as client:
            stream = await client.chat.completions.create(
                model=SYSTEM, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
            )
            assert [chunk async for chunk in stream]

    (call,) = ask(question)
    assert call["outcome"] == "ok"
    assert 0 < call["ttft"] <= call["latency"]
    assert call["output_tokens"] > 0


def test_openai_stream_helper() -> None:
    async def question(base_url: str) -> None:
        async with (
            openai.AsyncOpenAI(base_url=base_url, api_key="k") as client,
            client.chat.completions.stream(model=SYSTEM, messages=MESSAGES) as stream,
        ):
            kinds = {event.type async for event in stream}
            assert "content.delta" in kinds

    (call,) = ask(question)
    assert call["outcome"] == "ok"
    assert call["ttft"] > 0


def test_openai_parse() -> None:
    pydantic = pytest.importorskip("pydantic")
    verdict = pydantic.create_model("Verdict", answer=(str, ...))
    parsed: list[Any] = []

    async def question(base_url: str) -> None:
        async with openai.AsyncOpenAI(base_url=base_url, api_key="k") as client:
            answer = await client.chat.completions.parse(model=SYSTEM, messages=MESSAGES, response_format=verdict)
            parsed.append(answer.choices[0].message.parsed)

    (call,) = ask(question)
    assert call["outcome"] == "ok"
    assert isinstance(parsed[0], verdict)


def test_openai_responses() -> None:
    async def question(base_url: str) -> None:
        async with openai.AsyncOpenAI(base_url=base_url, api_key="k") as client:
            assert (await client.responses.create(model=SYSTEM, input="hi")).output_text
            async with client.responses.stream(model=SYSTEM, input="hi") as stream:
                assert [event async for event in stream]

    whole, streamed = ask(question)
    assert whole["outcome"] == streamed["outcome"] == "ok"
    assert whole["ttft"] is None
    assert streamed["ttft"] > 0


def test_openai_over_aiohttp_counts_once() -> None:
    async def question(base_url: str) -> None:
        async with openai.AsyncOpenAI(
            base_url=base_url, api_key="k", http_client=openai.DefaultAioHttpClient()
        ) as client:
            await client.chat.completions.create(model=SYSTEM, messages=MESSAGES)
            stream = await client.chat.completions.create(model=SYSTEM, messages=MESSAGES, stream=True)
            assert [chunk async for chunk in stream]

    whole, streamed = ask(question)
    assert whole["outcome"] == streamed["outcome"] == "ok"
    assert streamed["ttft"] > 0


def test_openai_over_the_older_httpx() -> None:
    async def question(base_url: str) -> None:
        async with openai.AsyncOpenAI(base_url=base_url, api_key="k", http_client=httpx.AsyncClient()) as client:
            await client.chat.completions.create(model=SYSTEM, messages=MESSAGES)
            stream = await client.chat.completions.create(model=SYSTEM, messages=MESSAGES, stream=True)
            assert [chunk async for chunk in stream]

    whole, streamed = ask(question)
    assert whole["outcome"] == streamed["outcome"] == "ok"
    assert streamed["ttft"] > 0


def test_blocking_openai() -> None:
    async def question(base_url: str) -> None:
        def blocking() -> None:
            with openai.OpenAI(base_url=base_url, api_key="k") as client:
                client.chat.completions.create(model=SYSTEM, messages=MESSAGES)
                assert list(client.chat.completions.create(model=SYSTEM, messages=MESSAGES, stream=True))

        await asyncio.to_thread(blocking)

    whole, streamed = ask(question)
    assert whole["outcome"] == streamed["outcome"] == "ok"
    assert streamed["ttft"] > 0


# --- anthropic ---


def test_anthropic_messages() -> None:
    async def question(base_url: str) -> None:
        async with anthropic.AsyncAnthropic(base_url=base_url.removesuffix("/v1"), api_key="k") as client:
            answer = await client.messages.create(model=SYSTEM, max_tokens=4000, messages=MESSAGES)
            assert answer.content[0].text

    (call,) = ask(question)
    assert call["outcome"] == "ok"
    assert call["output_tokens"] > 0


def test_anthropic_stream() -> None:
    async def question(base_url: str) -> None:
        async with (
            anthropic.AsyncAnthropic(base_url=base_url.removesuffix("/v1"), api_key="k") as client,
            client.messages.stream(model=SYSTEM, max_tokens=4000, messages=MESSAGES) as stream,
        ):
            assert [text async for text in stream.text_stream]

    (call,) = ask(question)
    assert call["outcome"] == "ok"
    assert call["ttft"] > 0


def test_blocking_anthropic() -> None:
    async def question(base_url: str) -> None:
        def blocking() -> None:
            with (
                anthropic.Anthropic(base_url=base_url.removesuffix("/v1"), api_key="k") as client,
                client.messages.stream(model=SYSTEM, max_tokens=4000, messages=MESSAGES) as stream,
            ):
                assert list(stream.text_stream)

        await asyncio.to_thread(blocking)

    (call,) = ask(question)
    assert call["outcome"] == "ok"


# --- retries of the SDKs ---


def test_retries_of_an_sdk_are_attempts_of_one_call_with_their_waits() -> None:
    async def body(base_url: str) -> None:
        async with openai.AsyncOpenAI(base_url=base_url, api_key="k", max_retries=2) as client:
            await client.chat.completions.create(model="flaky", messages=MESSAGES)

    rows, _ = scripted([FLAKY], body)
    (call,) = rows.calls
    first, second = call["attempt_list"]
    assert (call["outcome"], call["attempts"]) == ("ok", 2)
    assert (first["outcome"], first["status"]) == ("rate_limited", 429)
    assert second["wait"] >= 0.06
    assert call["latency"] >= second["wait"]
    assert second["sent"] - first["sent"] >= 0.06


def test_retries_of_a_blocking_sdk_are_attempts_too() -> None:
    async def body(base_url: str) -> None:
        def blocking() -> None:
            with openai.OpenAI(base_url=base_url, api_key="k", max_retries=2) as client:
                client.chat.completions.create(model="flaky", messages=MESSAGES)

        await asyncio.to_thread(blocking)

    rows, _ = scripted([FLAKY], body)
    (call,) = rows.calls
    assert (call["outcome"], call["attempts"]) == ("ok", 2)


def test_a_call_that_is_given_up_is_booked_with_the_end_of_its_task() -> None:
    async def body(base_url: str) -> None:
        async with openai.AsyncOpenAI(base_url=base_url, api_key="k", max_retries=1) as client:
            with pytest.raises(openai.InternalServerError):
                await client.chat.completions.create(model="down", messages=MESSAGES)
            with pytest.raises(openai.BadRequestError):
                await client.chat.completions.create(model="wrong", messages=MESSAGES)

    rows, _ = scripted([DOWN, WRONG], body)
    assert [(call["outcome"], call["attempts"]) for call in rows.calls] == [("server_error", 2), ("client_error", 1)]


def test_a_layer_around_the_retries_of_an_sdk_is_told() -> None:
    async def body(base_url: str) -> None:
        async with anthropic.AsyncAnthropic(
            base_url=base_url.removesuffix("/v1"), api_key="k", max_retries=1
        ) as client:
            for _ in range(2):
                with pytest.raises(anthropic.InternalServerError):
                    await client.messages.create(model="down", max_tokens=5, messages=MESSAGES)

    rows, conducting = scripted([DOWN], body)
    first, second = rows.calls
    assert first["attempts"] == second["attempts"] == 2
    assert NESTED not in first["notes"]
    assert NESTED in second["notes"]
    assert conducting.result.runs[0].nested_retries == 1


def test_concurrent_calls_of_one_task_keep_their_own_retries() -> None:
    async def body(base_url: str) -> None:
        async with openai.AsyncOpenAI(base_url=base_url, api_key="k", max_retries=2) as client:
            await asyncio.gather(
                *(client.chat.completions.create(model=name, messages=MESSAGES) for name in ("flaky", "flaky too"))
            )

    rows, _ = scripted([FLAKY, {**FLAKY, "name": "flaky too"}], body)
    assert [(call["outcome"], call["attempts"]) for call in rows.calls] == [("ok", 2), ("ok", 2)]


# --- clients that the gateway hands out ---

SIMULATED_SUITE = """
import pytest

MESSAGES = [{"role": "user", "content": "hi"}]

@pytest.mark.swarm(tasks=12, concurrency=4, seed=1)
@pytest.mark.sla("success_rate >= 50%", "ttft.p50 > 1ms", "calls >= 12")
async def test_openai(gateway):
    client = gateway.openai()
    assert client is gateway.openai()
    assert client.max_retries == 0
    await client.chat.completions.create(model=gateway.model, messages=MESSAGES)
    stream = await client.chat.completions.create(model=gateway.model, messages=MESSAGES, stream=True)
    assert [chunk async for chunk in stream]

@pytest.mark.swarm(tasks=12, concurrency=4, seed=1)
@pytest.mark.sla("success_rate >= 50%", "ttft.p50 > 1ms")
async def test_anthropic(gateway):
    async with gateway.anthropic().messages.stream(model=gateway.model, max_tokens=99, messages=MESSAGES) as stream:
        assert [text async for text in stream.text_stream]

@pytest.mark.swarm(tasks=2, concurrency=2, seed=1)
@pytest.mark.sla("success_rate >= 0%", "calls >= 2")
def test_blocking(gateway):
    stream = gateway.openai().chat.completions.create(model=gateway.model, messages=MESSAGES, stream=True)
    assert list(stream)
    gateway.anthropic().messages.create(model=gateway.model, max_tokens=9, messages=MESSAGES)

@pytest.mark.swarm(tasks=1)
async def test_own_client(gateway):
    import anthropic
    async with anthropic.AsyncAnthropic(api_key="sk-real", max_retries=2) as client:
        await client.messages.create(model="m", max_tokens=5, messages=MESSAGES)

@pytest.mark.swarm(tasks=1)
async def test_other_question(gateway):
    await gateway.openai().models.list()

@pytest.mark.swarm(tasks=20, concurrency=10)
@pytest.mark.sla("success_rate >= 50%", "ttft.p50 < 30s")
async def test_aiohttp(gateway, agent):
    import aiohttp
    url = str(gateway.openai().base_url) + "chat/completions"
    question = {"model": gateway.model, "messages": [{"role": "user", "content": f"hi {agent.index}"}], "stream": True}
    async with aiohttp.ClientSession() as session, session.post(url, json=question, raise_for_status=True) as response:
        assert b"data:" in await response.read()
"""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    return run_suite(tmp_path_factory.mktemp("sdks"), SIMULATED_SUITE, exit_code=1)


@pytest.mark.parametrize("test", ["test_openai", "test_anthropic", "test_aiohttp"])
def test_the_simulated_gateway_answers_an_async_sdk_on_virtual_time(simulated: SuiteRun, test: str) -> None:
    found = simulated.test(test)
    assert found["verdict"] == "pass", found["sla"]
    assert found["clock"] == "virtual"
    assert {call["source"] for call in found["calls"]} == {"simulated"}


def test_the_simulated_gateway_answers_a_blocking_sdk_on_real_time(simulated: SuiteRun) -> None:
    found = simulated.test("test_blocking")
    assert found["verdict"] == "pass", found["sla"]
    assert found["clock"] == "real"
    assert found["metrics"]["ttft.p50"] > 0


def test_the_simulated_gateway_gives_the_same_figures_again(simulated: SuiteRun, tmp_path: Path) -> None:
    again = run_suite(tmp_path, SIMULATED_SUITE, exit_code=1)
    for name in ("test_openai", "test_anthropic", "test_aiohttp"):
        assert again.test(name)["metrics"] == simulated.test(name)["metrics"]


@pytest.mark.parametrize(
    ("test", "sentence"),
    [
        ("test_own_client", "a request to api.anthropic.com was stopped: this run is simulated"),
        ("test_other_question", "a request to the simulated gateway was stopped: it answers POST to"),
    ],
)
def test_what_a_simulated_run_cannot_answer_is_stopped_with_a_sentence(
    simulated: SuiteRun, test: str, sentence: str
) -> None:
    (task,) = simulated.test(test)["tasks"]
    assert task["status"] == "failed"
    assert sentence in task["error"]
    assert simulated.test(test)["calls"] == []


def test_the_gateway_hands_out_clients_with_its_address_key_headers_and_timeouts() -> None:
    headers = {"accept": "x", "authorization": "Bearer sk-1", "x-team": "search"}
    terms = Terms("http://127.0.0.1:1/v1", headers, "m", Timeouts(connect=1, first_token=2, idle=3, total=9))
    for make, address in ((make_openai, "http://127.0.0.1:1/v1/"), (make_anthropic, "http://127.0.0.1:1")):
        client = make(terms, blocking=True, options={})
        assert str(client.base_url).rstrip("/") == address.rstrip("/")
        assert (client.api_key, client.max_retries) == ("sk-1", 0)
        assert client.default_headers["x-team"] == "search"
        assert (client.timeout.connect, client.timeout.read) == (1, 3)
        client.close()
        assert make(terms, blocking=True, options={"max_retries": 2}).max_retries == 2


def test_a_gateway_without_a_key_and_one_with_another_scheme() -> None:
    keyless = make_openai(Terms("http://127.0.0.1:1/v1", {}, None, Timeouts()), blocking=True, options={})
    assert keyless.api_key == NO_KEY
    assert keyless.timeout.read is None
    basic = Terms("http://127.0.0.1:1/v1", {"authorization": "Basic abc"}, None, Timeouts())
    assert make_openai(basic, blocking=True, options={}).default_headers["authorization"] == "Basic abc"


@pytest.mark.parametrize("package", ["openai", "anthropic"])
def test_a_missing_sdk_is_told_with_the_command_that_installs_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    gateway = Gateway(Terms("http://127.0.0.1:1/v1", {}, None, Timeouts()), lambda: pytest.fail("not asked"))
    with pytest.raises(SettingError, match=f"pip install {package}"):
        getattr(gateway, package)()


def test_an_sdk_that_asks_again_behind_a_cost_ceiling_is_booked_once() -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        async with anthropic.AsyncAnthropic(base_url="http://127.0.0.1:9", api_key="k", max_retries=2) as client:
            await client.messages.create(model="m", max_tokens=100, messages=MESSAGES)

    prices = PriceTable({"m": {"input": 0, "output": 1_000_000}})
    rows, _ = asyncio.run(swarm("http://127.0.0.1:9/v1", body, prices=prices, budget=Budget(1, "here")))
    assert [(call["outcome"], call["attempts"]) for call in rows.calls] == [("budget", 1)]
    assert [task["status"] for task in rows.tasks] == ["cancelled"]


LOADED = """
import sys
import pytest

@pytest.mark.asyncio
@pytest.mark.swarm(tasks=1)
async def test_asks(gateway):
    assert "openai" in sys.modules
    assert "anthropic" not in sys.modules
    assert gateway.openai()
"""


def test_an_sdk_that_a_body_asks_for_is_there_before_its_first_task(tmp_path: Path) -> None:
    run_suite(tmp_path, LOADED)
