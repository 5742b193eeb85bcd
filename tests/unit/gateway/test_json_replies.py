"""Replies as JSON: found out once, booked with their call, and no hindrance to other agents."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from typing import Any

import aiohttp
import pytest

from pytest_swarm.clock import real_now
from pytest_swarm.columns import RunResult
from pytest_swarm.errors import InvalidJSON
from pytest_swarm.exchange import Ending, Exchange, Request
from pytest_swarm.gateway.client import Gateway
from pytest_swarm.gateway.reply import JsonRule, Reply
from pytest_swarm.judging.prices import Cost
from pytest_swarm.reading import reader_factory
from pytest_swarm.reading.json_output import JSONResult, Validator
from pytest_swarm.reading.schema import Problem
from pytest_swarm.records import Call, Reading, Task
from pytest_swarm.tap import ledger as ledger_module
from pytest_swarm.tap.jsonwork import AT_ONCE
from pytest_swarm.tap.ledger import Ledger
from pytest_swarm.tap.opencall import OpenCall
from pytest_swarm.tap.routing import Agent, TaskContext
from tests.support.bench import Rows, swarm
from tests.support.scripted_server import ScriptedServer

SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}
LONG = json.dumps({"a": "x" * AT_ONCE})


def document(text: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice]}).encode()


def case(name: str, text: str) -> dict[str, Any]:
    chunks = [[0, document(text).decode()]]
    return {
        "name": name,
        "script": [{"headers": {"content-type": "application/json"}, "framing": "length", "chunks": chunks}],
    }


CASES = [case("long", LONG), case("short", '{"a": "x"}'), case("wrong", json.dumps([{"a": "x" * AT_ONCE}]))]


class Watched(JsonRule):
    """A rule that notes in which threads it is asked."""

    def check(self, reading: Reading) -> JSONResult | None:
        seen.append(threading.current_thread().name)
        return super().check(reading)


seen: list[str] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


def run(model: str, *, own_client: bool) -> tuple[Rows, RunResult, list[Any]]:
    values: list[Any] = []

    async def body(gateway: Gateway, agent: Agent) -> None:
        if own_client:
            async with (
                aiohttp.ClientSession() as session,
                session.post(
                    f"{address[0]}/chat/completions", json={"model": model, "messages": [{"role": "user"}]}
                ) as response,
            ):
                await response.read()
        else:
            reply = await gateway.chat("hi", model=model)
            values.extend([reply.json, reply.json])

    address: list[str] = []

    async def main() -> tuple[Rows, RunResult]:
        async with ScriptedServer(CASES) as server:
            address.append(server.base_url)
            rows, conductor = await swarm(server.base_url, body, json_rule=Watched(validator=Validator(SCHEMA)))
            return rows, conductor.result.runs[0]

    rows, result = asyncio.run(main())
    return rows, result, values


@pytest.mark.parametrize("own_client", [False, True])
@pytest.mark.parametrize(
    ("model", "where", "status"),
    [("short", "MainThread", "valid"), ("long", "swarm-json_0", "valid"), ("wrong", "swarm-json_0", "schema_invalid")],
)
def test_a_long_reply_is_checked_beside_the_loop_once_and_before_its_task_is_judged(
    model: str, where: str, status: str, own_client: bool
) -> None:
    rows, result, values = run(model, own_client=own_client)
    assert seen == [where]
    assert [call["json"] for call in rows.calls] == [status]
    assert len(result.calls) == 1
    assert [task["status"] for task in rows.tasks] == ["passed" if status == "valid" else status]
    if values:
        assert values[0]["a"].startswith("x")
        assert values[0] is values[1]


def test_what_is_wrong_is_counted_with_an_example() -> None:
    _, result, _ = run("wrong", own_client=True)
    ((kind, failure),) = result.json_errors.items()
    assert kind == "$: is not of type 'object'"
    assert (failure.count, failure.example[:12]) == (1, "$: [{'a': 'x")


# --- the book ---------------------------------------------------------------------------------------------------------


def price(model: str | None, reading: Reading, *, simulated: bool) -> Cost:
    return Cost(None)


def book(check: Any, now: Any = real_now) -> tuple[Ledger, Rows, TaskContext]:
    rows = Rows()
    made = Ledger(RunResult(0), rows, now, 0.0, price, check)
    return made, rows, TaskContext(0, 0, made, None)  # type: ignore[arg-type]  # nothing is sent


def closed(ledger: Ledger, context: TaskContext, text: str) -> OpenCall:
    opened = ledger.open_call(context, model="m")
    exchange = Exchange(Request("POST", "http://x/v1", {}, b""), reader_factory("chat"), 0.0)
    opened.attempt(exchange)
    exchange.wrote(0.0)
    exchange.head(1.0, 200, {"content-type": "application/json"})
    exchange.feed(1.0, document(text))
    exchange.finish(1.0, Ending.COMPLETE)
    opened.attempt_ended(exchange.read())
    ledger.close_call(opened)
    return opened


def ended() -> Task:
    return Task(0, 0, False, "cancelled", 0.0, 0.0, 1.0)


def test_a_task_that_ends_while_a_reply_is_being_checked_still_has_it_in_the_book_and_once() -> None:
    free = threading.Event()

    def check(reading: Reading) -> JSONResult:
        if threading.current_thread() is not threading.main_thread():
            assert free.wait(10)
        return JSONResult("valid")

    async def main() -> tuple[Ledger, Rows]:
        ledger, rows, context = book(check)
        closed(ledger, context, LONG)
        assert rows.calls == []
        waiting = list(context.checking.values())
        ledger.close_task(context, ended())
        free.set()
        await asyncio.wait(waiting)
        return ledger, rows

    ledger, rows = asyncio.run(main())
    assert [call["json"] for call in rows.calls] == ["valid"]
    assert len(ledger.run.calls) == 1


def test_on_another_clock_than_the_real_one_every_reply_is_checked_at_once() -> None:
    async def main() -> Rows:
        ledger, rows, context = book(JsonRule().check, now=lambda: 5.0)
        closed(ledger, context, LONG)
        return rows

    assert [call["json"] for call in asyncio.run(main()).calls] == ["valid"]


def test_where_no_loop_runs_every_reply_is_checked_at_once() -> None:
    ledger, rows, context = book(JsonRule().check)
    closed(ledger, context, LONG)
    assert [call["json"] for call in rows.calls] == ["valid"]


def test_a_problem_counts_once_per_reply_and_not_at_all_while_warming_up() -> None:
    ledger, _, context = book(JsonRule(validator=Validator({"items": {"type": "string"}})).check)
    closed(ledger, context, "[1, 2]")
    closed(ledger, context, "[3]")
    context.warmup = True
    closed(ledger, context, "[4]")
    assert {kind: failure.count for kind, failure in ledger.run.json_errors.items()} == {
        "$[*]: is not of type 'string'": 2
    }


def test_kinds_made_of_the_replies_own_words_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "KINDS_KEPT", 2)
    ledger, _, context = book(lambda reading: JSONResult("invalid", problems=(Problem(reading.text, reading.text),)))
    for text in ("a", "b", "c", "a", "d"):
        closed(ledger, context, text)
    counts = Counter({kind: failure.count for kind, failure in ledger.run.json_errors.items()})
    assert counts == {"a": 2, "b": 1, "others": 2}


# --- the rule and the reply -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reading", "status"),
    [
        (Reading("ok", text='{"a": "b"}'), "valid"),
        (Reading("ok", text='{"a": 1}'), "schema_invalid"),
        (Reading("incomplete", text='{"a": "b"}', finish_reason="length"), "truncated"),
        (Reading("truncated", text='{"a": "b"}'), "truncated"),
        (Reading("empty"), "empty"),
        (Reading("refusal", text='{"a": "b"}'), "invalid"),
        (Reading("content_filter", text=""), "invalid"),
    ],
)
def test_what_a_reply_is_as_json_depends_on_how_its_call_ended(reading: Reading, status: str) -> None:
    result = JsonRule(validator=Validator(SCHEMA)).check(reading)
    assert result is not None
    assert result.status == status
    assert bool(result.problems) is (status != "valid")
    reply = Reply(Call(0, 0), reading, checked=result)
    if status != "valid":
        with pytest.raises(InvalidJSON) as raised:
            _ = reply.json
        assert raised.value.status == status


@pytest.mark.parametrize("reason", ["tool_calls", "tool_use", "function_call"])
def test_tool_calls_are_no_json_and_no_failed_json(reason: str) -> None:
    assert JsonRule().check(Reading("ok", finish_reason=reason)) is None


def test_without_a_rule_the_text_is_read_when_it_is_asked_for() -> None:
    reply = Reply(Call(0, 0), Reading("ok", text='{"a": 1}'))
    assert reply.json == {"a": 1}
    assert reply.json is reply.json
