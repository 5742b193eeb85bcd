"""Replies on every wire, read back with the reading that live replies go through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from simulated_parts import ANSWER, Bench, Client, plain_system

from pytest_swarm.reading import WIRES, reader_factory
from pytest_swarm.records import Reading
from pytest_swarm.sources.simulated.asking import Refused
from pytest_swarm.sources.simulated.profile import Cache, Faults, Prices, System, Tokens
from pytest_swarm.sources.simulated.reception import wire_at

URLS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
SYSTEM = plain_system(
    1.0,
    tokens=Tokens(500, 0.0),
    prices=Prices(input=10.0, cached_input=5.0, cache_write=12.0, output=100.0),
    cache=Cache("shared", min_tokens=100, block_tokens=10),
)
PROMPT = "z" * 400


def body(wire: str, *, stream: bool = False, max_tokens: int | None = None, schema: Any = None) -> bytes:
    """The same request on each wire."""
    made: dict[str, Any] = {"model": "plain", "stream": stream}
    if wire == "responses":
        made |= {"input": PROMPT, "instructions": "Be brief.", "max_output_tokens": max_tokens}
        made |= {"text": {"format": {"type": "json_schema", "name": "a", "schema": schema}}} if schema else {}
    elif wire == "messages":
        made |= {"system": "Be brief.", "messages": [{"role": "user", "content": PROMPT}]}
        made |= {"max_tokens": max_tokens or 4000}
        made |= {"output_config": {"format": {"type": "json_schema", "schema": schema}}} if schema else {}
    else:
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROMPT}]
        made |= {"messages": messages, "max_tokens": max_tokens, "stream_options": {"include_usage": True}}
        made |= {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}} if schema else {}
    return json.dumps(made).encode()


def read(wire: str, client: Client) -> Reading:
    assert client.status is not None
    assert client.ending is not None
    reader = reader_factory(wire)(client.status, client.headers)
    for when, data in client.feeds:
        reader.feed(when, data)
    return reader.finish(client.ending, client.error)


def answered(wire: str, system: System = SYSTEM, **fields: Any) -> Reading:
    return read(wire, Bench(system).ask(body(wire, **fields), URLS[wire]))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", WIRES)
def test_a_reply_means_what_the_system_did(wire: str, stream: bool) -> None:
    reading = answered(wire, stream=stream)
    assert (reading.outcome, reading.model, reading.notes) == ("ok", "plain", ())
    assert reading.text.endswith(".")
    assert reading.last_content == pytest.approx(1.0)
    assert reading.first_token == (pytest.approx(0.2) if stream else None)
    usage = reading.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (106, 500)
    assert (usage.cached_tokens, usage.cache_write_tokens) == (0, 106)
    assert usage.reported_cost == pytest.approx((106 * 12 + 500 * 100) / 1e6)
    assert usage.notes == ()
    assert reading.request_id is not None


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_has_the_gaps_of_its_pieces(wire: str) -> None:
    assert answered(wire, stream=True).gaps.tolist() == pytest.approx([0.8 / 15] * 15)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", WIRES)
def test_a_cut_reply_is_incomplete(wire: str, stream: bool) -> None:
    reading = answered(wire, stream=stream, max_tokens=50)
    assert reading.outcome == "incomplete"
    assert reading.text
    assert reading.usage is not None
    assert reading.usage.output_tokens == 50


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", WIRES)
def test_json_is_answered_to_a_schema(wire: str, stream: bool) -> None:
    assert json.loads(answered(wire, stream=stream, schema=ANSWER).text).keys() == {"answer", "confidence"}


@pytest.mark.parametrize("wire", WIRES)
def test_the_second_time_the_prompt_is_read_from_the_cache(wire: str) -> None:
    bench = Bench(SYSTEM)
    bench.ask(body(wire), URLS[wire])
    usage = read(wire, bench.ask(body(wire), URLS[wire])).usage
    assert usage is not None
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (106, 106, 0)
    assert usage.reported_cost == pytest.approx((106 * 5 + 500 * 100) / 1e6)


@pytest.mark.parametrize("wire", WIRES)
def test_a_failure_is_a_server_error_with_its_message(wire: str) -> None:
    reading = answered(wire, plain_system(faults=Faults(doomed_rate=1.0)))
    assert reading.outcome == "server_error"
    assert "plain failed, as its profile says" in reading.detail


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_breaks_is_told_from_one_that_is_cut(wire: str) -> None:
    assert answered(wire, plain_system(faults=Faults(stream_error_rate=1.0)), stream=True).outcome == "stream_error"
    assert answered(wire, plain_system(faults=Faults(cut_rate=1.0)), stream=True).outcome == "disconnected"


REFUSED = {
    "responses": [({"model": "plain"}, "input must be"), ({"input": [], "model": "plain"}, "input must be")],
    "messages": [
        ({"model": "plain", "max_tokens": 5}, "messages: a list"),
        ({"model": "plain", "messages": [{"role": "user", "content": "x"}]}, "max_tokens: is required"),
        ({"model": "plain", "max_tokens": 5, "messages": [1]}, "messages: each must be an object"),
    ],
}


@pytest.mark.parametrize("wire", REFUSED)
def test_what_a_wire_requires_is_asked_for(wire: str) -> None:
    for wrong, message in REFUSED[wire]:
        reading = read(wire, Bench(SYSTEM).ask(json.dumps(wrong).encode(), URLS[wire]))
        assert reading.outcome == "client_error"
        assert message in reading.detail


def prompt_tokens(wire: str, **fields: Any) -> int:
    made = json.loads(body(wire)) | fields
    usage = read(wire, Bench(SYSTEM).ask(json.dumps(made).encode(), URLS[wire])).usage
    assert usage is not None
    assert usage.input_tokens is not None
    return usage.input_tokens


def user(part: Any) -> dict[str, Any]:
    return {"role": "user", "content": [part]}


TOOL = {"name": "search", "description": "d" * 400, "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize("wire", WIRES)
def test_tools_are_a_part_of_the_prompt(wire: str) -> None:
    assert prompt_tokens(wire, tools=[TOOL]) > prompt_tokens(wire) + 100


@pytest.mark.parametrize(
    ("wire", "fields", "tokens"),
    [
        ("chat", {"messages": [user({"type": "text", "text": "a" * 395})]}, 100),
        ("chat", {"messages": [user({"type": "image_url", "image_url": {}})]}, 258),
        ("chat", {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}]}, 6),
        ("messages", {"system": None, "messages": [user({"type": "tool_result", "content": "a"})]}, 12),
        ("responses", {"instructions": None, "input": [{"type": "function_call_output", "output": "a"}]}, 12),
        ("responses", {"instructions": None, "input": [user({"type": "input_text", "text": "abc"})]}, 2),
    ],
)
def test_every_kind_of_content_counts(wire: str, fields: dict[str, Any], tokens: int) -> None:
    assert prompt_tokens(wire, **fields) == pytest.approx(tokens, abs=2)


@pytest.mark.parametrize(
    ("url", "status", "kind"),
    [
        (URLS["messages"], 401, "authentication_error"),
        (URLS["messages"], 400, "invalid_request_error"),
        (URLS["messages"], 500, "api_error"),
        (URLS["messages"], 529, "overloaded_error"),
        (URLS["chat"], 401, "authentication_error"),
        (URLS["chat"], 400, "invalid_request_error"),
        (URLS["chat"], 500, "server_error"),
    ],
)
def test_errors_are_named_as_each_vendor_names_them(url: str, status: int, kind: str) -> None:
    wire = wire_at(url)
    assert wire is not None
    assert json.loads(wire.error(Refused(status, "no", "code")))["error"]["type"] == kind
