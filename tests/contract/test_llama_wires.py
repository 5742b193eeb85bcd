"""The plugin against llama.cpp's own server beyond chat: SDKs on its other wires, its prompt cache, half characters.

The engine has ways of its own. It leaves `message_start` out when a streamed message begins with half a character, it
calls every response completed, and it repeats the first events of a streamed response while it has nothing to tell.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.llama_server import MODEL, LlamaServer
from tests.support.suites import SuiteRun, run_suite

TASKS = 100

SUITE = """
import pytest

LEVELS = ["p99 < 60s", "success_rate == 100%", "errors.rate_limited == 0", "errors.malformed == 0"]
ENDS = {"end_turn": "ok", "max_tokens": "incomplete", "completed": "ok"}
LONG = "Answer politely, cite the manual, and never promise a date. " * 5
ANSWER = {
    "type": "object",
    "properties": {"answer": {"enum": ["yes", "no"]}},
    "required": ["answer"],
    "additionalProperties": False,
}
# The engine closes connections that it has promised to keep; an SDK without retries would meet a closed one.
KEPT_BY_NOBODY = {"connection": "close"}
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])


def tell(agent, text, end, usage):
    "Record what the SDK made of a reply, to be compared with what the plugin made of it."
    ended = ENDS[end] if text else "empty"
    for outcome in ("ok", "incomplete", "empty"):
        agent.record(outcome, int(ended == outcome))
    agent.record("written", usage.output_tokens)


@both_ways
@pytest.mark.swarm(tasks=100, concurrency=8)
@pytest.mark.sla(*LEVELS, "output_tokens.max <= 40")
async def test_messages(gateway, agent, stream):
    client = gateway.anthropic()
    # Short replies are cut, long ones come to one of the texts that end them.
    asked = {
        "model": gateway.model,
        "max_tokens": 2 if agent.index % 2 else 40,
        "messages": [{"role": "user", "content": f"hello {agent.index}"}],
        "stop_sequences": ["cat", "red", "hel", "*", "a"],
        "extra_headers": KEPT_BY_NOBODY,
    }
    if stream:
        async with client.messages.stream(**asked) as streamed:
            text = "".join([piece async for piece in streamed.text_stream])
            message = await streamed.get_final_message()
    else:
        message = await client.messages.create(**asked)
        text = "".join(block.text for block in message.content)
    tell(agent, text, message.stop_reason, message.usage)


@both_ways
@pytest.mark.swarm(tasks=100, concurrency=8)
@pytest.mark.sla(*LEVELS, "output_tokens.min == 6", "output_tokens.max == 6")
async def test_responses(gateway, agent, stream):
    asked = {"model": gateway.model, "max_output_tokens": 6, "input": f"hello {agent.index}", "stream": stream}
    reply = await gateway.openai().responses.create(**asked, extra_headers=KEPT_BY_NOBODY)
    text = ""
    if stream:
        async for event in reply:
            if event.type == "response.output_text.delta":
                text += event.delta
        reply = event.response
    assert text in ("", reply.output_text)
    tell(agent, reply.output_text, reply.status, reply.usage)


@both_ways
@pytest.mark.swarm(tasks=100, concurrency=4)
@pytest.mark.sla(*LEVELS, "cache_hit_rate >= 90%", "cached_tokens.p50 > 250", "check.as_the_engine_says == 100%")
async def test_same_prompt(gateway, agent, stream):
    reply = await gateway.chat([{"role": "system", "content": LONG}], max_tokens=2, stream=stream)
    if not stream:
        timings, call = reply.raw["timings"], reply.call
        told = (timings["cache_n"], timings["cache_n"] + timings["prompt_n"], timings["predicted_n"])
        same = told == (call.cached_tokens, call.input_tokens, call.output_tokens)
        spent = (timings["prompt_ms"] + timings["predicted_ms"]) / 1000
        agent.check("as_the_engine_says", same and call.latency >= spent)
    else:
        agent.check("as_the_engine_says", reply.call.ttft <= reply.call.latency)


@pytest.mark.swarm(tasks=100, concurrency=4)
@pytest.mark.sla(*LEVELS, "cache_hit_rate <= 5%", "input_tokens.min > 250")
async def test_never_the_same_prompt(gateway, agent):
    prompt = f"{agent.rng.random()}: {LONG}"
    await gateway.chat([{"role": "system", "content": prompt}], max_tokens=2)


@both_ways
@pytest.mark.swarm(tasks=100, concurrency=8)
@pytest.mark.sla(*LEVELS, "call_success_rate == 100%")
async def test_half_characters(gateway, agent, stream):
    # Every syllable takes three tokens, and the engine sends it with the last of them.
    reply = await gateway.chat(
        f"hello {agent.index}", max_tokens=60, stream=stream, grammar="root ::= [\\uac00-\\ud7a3]{5,9}"
    )
    assert 5 <= len(reply.text) <= 9
    assert all("\\uac00" <= letter <= "\\ud7a3" for letter in reply.text)


@both_ways
@pytest.mark.swarm(tasks=20, concurrency=8)
@pytest.mark.sla("json_valid_rate == 0%", "schema_valid_rate == 0%")
@pytest.mark.json_output(ANSWER)
async def test_not_held_to_the_schema(gateway, stream):
    await gateway.chat("hello", max_tokens=20, stream=stream, response_format=None)
"""
WIRES = ("test_messages[json]", "test_messages[stream]", "test_responses[json]", "test_responses[stream]")
CACHED = ("test_same_prompt[json]", "test_same_prompt[stream]")
HALVES = ("test_half_characters[json]", "test_half_characters[stream]")
UNHELD = ("test_not_held_to_the_schema[json]", "test_not_held_to_the_schema[stream]")


@dataclass(frozen=True)
class Observed:
    """One run of the suite: what the plugin reports, and how far the engine's own counters went up."""

    run: SuiteRun
    engine: dict[str, float]

    def calls(self, *tests: str) -> list[dict[str, Any]]:
        return [call for test in tests for call in self.run.test(test)["calls"]]


@pytest.fixture(scope="module")
def observed(llama_engine: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Observed:
    for sdk in ("anthropic", "openai"):
        pytest.importorskip(sdk)
    before = llama_engine.counters()
    directory = tmp_path_factory.mktemp("llama_wires")
    run = run_suite(directory, SUITE, base_url=llama_engine.base_url, model=MODEL)
    after = llama_engine.counters()
    return Observed(run, {name: after[name] - before[name] for name in after})


@pytest.mark.parametrize("name", [*WIRES, *CACHED, "test_never_the_same_prompt", *HALVES])
def test_a_hundred_tasks_meet_their_levels(observed: Observed, name: str) -> None:
    test = observed.run.test(name)
    assert {level["verdict"] for level in test["sla"]} == {"pass"}
    assert [task["status"] for task in test["tasks"]] == ["passed"] * TASKS
    assert sorted(call["task"] for call in test["calls"]) == list(range(TASKS))


@pytest.mark.parametrize("name", WIRES)
def test_calls_end_as_the_sdk_saw_them_end(observed: Observed, name: str) -> None:
    test = observed.run.test(name)
    outcomes = Counter(call["outcome"] for call in test["calls"])
    for outcome in ("ok", "incomplete", "empty"):
        assert outcomes[outcome] / TASKS == pytest.approx(test["metrics"][f"my.{outcome}.mean"]), outcome
    written = sum(call["output_tokens"] for call in test["calls"])
    assert written / TASKS == pytest.approx(test["metrics"]["my.written.mean"])


@pytest.mark.parametrize("name", WIRES[:2])
def test_messages_are_cut_or_come_to_their_end(observed: Observed, name: str) -> None:
    ends = {call["outcome"]: call["finish_reason"] for call in observed.calls(name) if call["outcome"] != "empty"}
    assert ends == {"ok": "end_turn", "incomplete": "max_tokens"}


def test_the_engine_does_not_say_that_it_cut_a_response(observed: Observed) -> None:
    ends = {(call["outcome"], call["finish_reason"], call["output_tokens"]) for call in observed.calls(*WIRES[2:])}
    assert ends == {("ok", "completed", 6)}


def test_only_streams_have_a_time_to_first_token(observed: Observed) -> None:
    streamed = [call for call in observed.calls(WIRES[1], WIRES[3], HALVES[1]) if call["outcome"] != "empty"]
    assert all(0 < call["ttft"] <= call["latency"] for call in streamed)
    assert {call["ttft"] for call in observed.calls(WIRES[0], WIRES[2], HALVES[0])} == {None}


@pytest.mark.parametrize("name", CACHED)
def test_all_but_the_first_prompt_of_each_slot_come_from_the_cache(observed: Observed, name: str) -> None:
    calls = observed.calls(name)
    cached = sum(call["cached_tokens"] for call in calls)
    hits = sum(call["cached_tokens"] > call["input_tokens"] / 2 for call in calls)
    assert hits >= TASKS - 4
    assert observed.run.test(name)["metrics"]["cache_hit_rate"] == pytest.approx(
        cached / sum(call["input_tokens"] for call in calls), rel=1e-12
    )


@pytest.mark.parametrize("name", UNHELD)
def test_replies_that_nothing_held_to_the_schema_are_no_json(observed: Observed, name: str) -> None:
    test = observed.run.test(name)
    assert {level["verdict"] for level in test["sla"]} == {"pass"}
    assert {task["status"] for task in test["tasks"]} == {"json_invalid"}


def test_tokens_on_every_wire_are_those_the_engine_counted(observed: Observed) -> None:
    calls = [call for test in observed.run.report["tests"] for call in test["calls"]]
    total = {name: sum(call[name] for call in calls) for name in ("input_tokens", "cached_tokens", "output_tokens")}
    engine = observed.engine
    assert total == {
        "input_tokens": engine["prompt_tokens_total"] + engine["prompt_tokens_cached_total"],
        "cached_tokens": engine["prompt_tokens_cached_total"],
        "output_tokens": engine["tokens_predicted_total"],
    }
