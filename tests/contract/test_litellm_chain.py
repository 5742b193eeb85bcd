"""A client, the LiteLLM proxy and llama.cpp's server in a row: what the engine counts arrives in the report.

Needs the packages `litellm[proxy]` and `xllamacpp` (extra `engine`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.litellm_proxy import MASTER_KEY, LiteLLMProxy, litellm_proxy, need
from tests.support.llama_server import MODEL, LlamaServer
from tests.support.suites import SuiteRun, run_suite

need("litellm", "fastapi", "anthropic", "openai")

TASKS = 4
"""Few: the engine and the proxy share what cores there are."""
CUT_AT = 4
"""Tokens after which replies on the wire of chat are cut."""
CUT_LATER = 16
"""Tokens after which those on the other wires are: the fewest that the proxy asks for."""

SUITE = """
import pytest

LEVELS = ["p99 < 60s", "success_rate == 100%", "call_success_rate == 100%", "calls == 4", "retries == 0"]
MESSAGES = [{"role": "user", "content": "hello"}]
ANSWER = {
    "type": "object",
    "properties": {"answer": {"enum": ["yes", "no"]}},
    "required": ["answer"],
    "additionalProperties": False,
}
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
swarm = pytest.mark.swarm(tasks=4, concurrency=2)


@both_ways
@swarm
@pytest.mark.sla(*LEVELS, "output_tokens.max == 4")
async def test_cut(gateway, agent, stream):
    reply = await gateway.chat(f"hello {agent.index}", stream=stream, max_tokens=4)
    assert (reply.outcome, reply.finish_reason) == ("incomplete", "length")


@both_ways
@swarm
@pytest.mark.sla(*LEVELS, "json_valid_rate == 100%", "schema_valid_rate == 100%")
@pytest.mark.json_output(ANSWER)
async def test_answer(gateway, agent, stream):
    reply = await gateway.chat(f"hello {agent.index}", stream=stream, max_tokens=400)
    assert reply.outcome == "ok"


@both_ways
@swarm
@pytest.mark.sla("p99 < 60s", "success_rate == 100%", "calls == 4", "retries == 0", "output_tokens.max == 16")
async def test_messages(gateway, stream):
    client = gateway.anthropic()
    asked = {"model": gateway.model, "messages": MESSAGES, "max_tokens": 16}
    if not stream:
        await client.messages.create(**asked)
        return
    async with client.messages.stream(**asked) as reply:
        await reply.get_final_message()


@both_ways
@swarm
@pytest.mark.sla("p99 < 60s", "success_rate == 100%", "calls == 4", "retries == 0", "output_tokens.max == 16")
async def test_responses(gateway, stream):
    reply = await gateway.openai().responses.create(
        model=gateway.model, input="hello", max_output_tokens=16, stream=stream
    )
    if stream:
        assert [event async for event in reply]
"""


@dataclass(frozen=True)
class Observed:
    """One run of the suite: what the plugin reports, and how far the engine's own counters went up."""

    run: SuiteRun
    engine: dict[str, float]

    def calls(self, test: str) -> list[dict[str, Any]]:
        found = self.run.test(test)
        assert found["verdict"] == "pass", found["reasons"]
        calls: list[dict[str, Any]] = found["calls"]
        assert sorted(call["task"] for call in calls) == list(range(TASKS))
        return calls


@pytest.fixture(scope="module")
def proxy(llama_engine: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiteLLMProxy]:
    parameters = {
        "model": f"openai/{MODEL}",
        "api_base": llama_engine.base_url,
        "api_key": "none",
        # The engine closes connections that it has promised to keep.
        "extra_headers": {"connection": "close"},
        "max_retries": 2,
    }
    models = [{"model_name": MODEL, "litellm_params": parameters}]
    with litellm_proxy(tmp_path_factory.mktemp("chain_proxy"), models) as running:
        yield running


@pytest.fixture(scope="module")
def observed(llama_engine: LlamaServer, proxy: LiteLLMProxy, tmp_path_factory: pytest.TempPathFactory) -> Observed:
    before = llama_engine.counters()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWARM_API_KEY", MASTER_KEY)
        patch.setenv("PYTEST_ADDOPTS", "-W error")
        run = run_suite(tmp_path_factory.mktemp("chain_suite"), SUITE, base_url=proxy.base_url, model=MODEL)
    after = llama_engine.counters()
    return Observed(run, {name: after[name] - before[name] for name in after})


both_ways = pytest.mark.parametrize("way", ["json", "stream"])


@both_ways
def test_a_cut_reply_is_incomplete_behind_the_proxy_too(observed: Observed, way: str) -> None:
    read = ("outcome", "finish_reason", "output_tokens")
    calls = observed.calls(f"test_cut[{way}]")
    assert {tuple(call[key] for key in read) for call in calls} == {("incomplete", "length", CUT_AT)}


@both_ways
def test_the_engine_is_held_to_a_schema_through_the_proxy(observed: Observed, way: str) -> None:
    calls = observed.calls(f"test_answer[{way}]")
    assert {(call["outcome"], call["finish_reason"], call["json"]) for call in calls} == {("ok", "stop", "valid")}


@both_ways
@pytest.mark.parametrize("test", ["test_messages", "test_responses"])
def test_the_other_wires_go_through_the_proxy(observed: Observed, test: str, way: str) -> None:
    # The engine does not tell the proxy that it cut them.
    calls = observed.calls(f"{test}[{way}]")
    assert {(call["outcome"], call["output_tokens"]) for call in calls} == {("ok", CUT_LATER)}


@pytest.mark.parametrize("test", ["test_cut", "test_answer", "test_messages", "test_responses"])
def test_only_streams_have_a_time_to_first_token(observed: Observed, test: str) -> None:
    assert {call["ttft"] for call in observed.calls(f"{test}[json]")} == {None}
    assert all(0 < call["ttft"] <= call["latency"] for call in observed.calls(f"{test}[stream]"))


def test_tokens_are_those_the_engine_counted(observed: Observed) -> None:
    calls = [call for test in observed.run.report["tests"] for call in test["calls"]]
    total = {
        name: sum(call[name] or 0 for call in calls) for name in ("input_tokens", "cached_tokens", "output_tokens")
    }
    engine = observed.engine
    assert total == {
        "input_tokens": engine["prompt_tokens_total"] + engine["prompt_tokens_cached_total"],
        "cached_tokens": engine["prompt_tokens_cached_total"],
        "output_tokens": engine["tokens_predicted_total"],
    }
