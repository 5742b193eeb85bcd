"""The plugin against llama.cpp's own server: its streams, its usage, its JSON, a hundred tasks each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.llama_server import MODEL, LlamaServer
from tests.support.suites import SuiteRun, run_suite

TASKS = 100
CUT_AT = 4
"""Tokens after which the engine cuts the replies of `test_cut`."""

SUITE = """
import pytest

ANSWER = {
    "type": "object",
    "properties": {"answer": {"enum": ["yes", "no"]}},
    "required": ["answer"],
    "additionalProperties": False,
}
LEVELS = ["p99 < 60s", "success_rate == 100%", "call_success_rate == 100%", "errors.rate_limited == 0"]
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])


@both_ways
@pytest.mark.swarm(tasks=100, concurrency=8)
@pytest.mark.sla(*LEVELS, "output_tokens.max == 4")
async def test_cut(gateway, agent, stream):
    reply = await gateway.chat(f"hello {agent.index}", stream=stream, max_tokens=4)
    assert (reply.outcome, reply.finish_reason) == ("incomplete", "length")


@both_ways
@pytest.mark.swarm(tasks=100, concurrency=8)
@pytest.mark.sla(*LEVELS, "json_valid_rate == 100%", "schema_valid_rate == 100%")
@pytest.mark.json_output(ANSWER)
async def test_answer(gateway, agent, stream):
    reply = await gateway.chat(f"hello {agent.index}", stream=stream, max_tokens=400)
    assert reply.outcome == "ok"
    assert reply.json["answer"] in ("yes", "no")


@pytest.mark.swarm(tasks=10, concurrency=2)
@pytest.mark.sla("output_tokens.max <= 3")
async def test_too_long(gateway):
    await gateway.chat("hello", max_tokens=4)
"""
CUT = ("test_cut[json]", "test_cut[stream]")
ANSWERS = ("test_answer[json]", "test_answer[stream]")


@dataclass(frozen=True)
class Observed:
    """One run of the suite: what the plugin reports, and how far the engine's own counters went up."""

    run: SuiteRun
    engine: dict[str, float]

    def calls(self, *tests: str) -> list[dict[str, Any]]:
        return [call for test in tests for call in self.run.test(test)["calls"]]

    def total(self, figure: str) -> int:
        return sum(call[figure] for test in self.run.report["tests"] for call in test["calls"])


@pytest.fixture(scope="module")
def observed(llama_engine: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Observed:
    before = llama_engine.counters()
    directory = tmp_path_factory.mktemp("llama_suite")
    run = run_suite(
        directory, SUITE, base_url=llama_engine.base_url, model=MODEL, exit_code=pytest.ExitCode.TESTS_FAILED
    )
    after = llama_engine.counters()
    return Observed(run, {name: after[name] - before[name] for name in after})


@pytest.mark.parametrize("name", [*CUT, *ANSWERS])
def test_a_hundred_tasks_meet_their_levels(observed: Observed, name: str) -> None:
    test = observed.run.test(name)
    assert test["verdict"] == "pass"
    assert {level["verdict"] for level in test["sla"]} == {"pass"}
    assert [task["status"] for task in test["tasks"]] == ["passed"] * TASKS
    assert sorted(call["task"] for call in test["calls"]) == list(range(TASKS))


def test_a_level_that_does_not_hold_fails_its_test(observed: Observed) -> None:
    test = observed.run.test("test_too_long")
    (level,) = test["sla"]
    assert test["verdict"] == "fail"
    assert (level["observed"], level["threshold"], level["verdict"]) == (CUT_AT, CUT_AT - 1, "fail")


def test_replies_that_the_engine_cut_are_incomplete(observed: Observed) -> None:
    assert {(call["outcome"], call["finish_reason"]) for call in observed.calls(*CUT)} == {("incomplete", "length")}
    assert {call["output_tokens"] for call in observed.calls(*CUT)} == {CUT_AT}


def test_replies_that_the_engine_held_to_a_schema_are_valid(observed: Observed) -> None:
    assert {(call["outcome"], call["json"]) for call in observed.calls(*ANSWERS)} == {("ok", "valid")}


def test_only_streams_have_a_time_to_first_token(observed: Observed) -> None:
    streamed = observed.calls(CUT[1], ANSWERS[1])
    assert all(0 < call["ttft"] <= call["latency"] for call in streamed)
    assert {call["ttft"] for call in observed.calls(CUT[0], ANSWERS[0])} == {None}


def test_tokens_are_those_the_engine_counted(observed: Observed) -> None:
    engine = observed.engine
    assert observed.total("output_tokens") == engine["tokens_predicted_total"]
    assert observed.total("cached_tokens") == engine["prompt_tokens_cached_total"]
    assert observed.total("input_tokens") == engine["prompt_tokens_total"] + engine["prompt_tokens_cached_total"]
