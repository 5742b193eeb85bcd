"""Anthropic Messages as the vendor sends them, streamed and not."""

from __future__ import annotations

from typing import Any

import pytest
from reading_samples import DOCUMENT, events, read, read_json

from pytest_swarm.exchange import Ending
from pytest_swarm.records import Usage

WIRE = "messages"
STOP = {"type": "message_stop"}


def start(**usage: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude-x"}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}


def opened(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def grew(index: int, kind: str, **piece: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **piece}}


def text(piece: str, index: int = 0) -> dict[str, Any]:
    return grew(index, "text_delta", text=piece)


def stopped(index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ended(reason: str | None = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


PLAIN = [
    (0.1, events(start(input_tokens=25, output_tokens=1), opened(0, type="text", text=""), {"type": "ping"})),
    (0.3, events(text("Hel"))),
    (0.4, events(text("lo"))),
    (0.5, events(stopped(), ended(output_tokens=15))),
    (0.6, events(STOP)),
]


def test_a_plain_stream() -> None:
    reading = read(PLAIN, wire=WIRE)
    assert (reading.outcome, reading.text, reading.finish_reason) == ("ok", "Hello", "end_turn")
    assert (reading.first_token, reading.first_output, reading.last_content) == (0.3, 0.3, 0.4)
    assert list(reading.gaps) == [pytest.approx(0.1)]
    assert reading.usage == Usage(input_tokens=25, output_tokens=15)
    assert (reading.model, reading.request_id, reading.notes) == ("claude-x", "msg_1", ())


def test_without_its_first_event_a_stream_is_read_and_its_input_stays_unknown() -> None:
    """llama.cpp leaves `message_start` out when the reply begins with half a character, as Korean does."""
    body = [
        (0.2, events(opened(0, type="text", text=""), text("안"))),
        (0.3, events(text("녕"), stopped())),
        (0.4, events(ended("max_tokens", output_tokens=6), STOP)),
    ]
    reading = read(body, wire=WIRE)
    assert (reading.outcome, reading.text, reading.first_token) == ("incomplete", "안녕", 0.2)
    assert reading.usage == Usage(input_tokens=None, output_tokens=6)


def test_thinking_starts_the_first_token_and_not_the_first_output() -> None:
    body = [
        (0.1, events(start(), opened(0, type="thinking", thinking="", signature=""))),
        (0.2, events(grew(0, "thinking_delta", thinking="hm"))),
        (0.3, events(grew(0, "signature_delta", signature="EqQB"), stopped(0))),
        (0.5, events(opened(1, type="text", text=""), text("4", 1))),
        (0.6, events(stopped(1), ended(), STOP)),
    ]
    reading = read(body, wire=WIRE)
    assert (reading.first_token, reading.first_output, reading.last_content) == (0.2, 0.5, 0.5)
    assert (reading.reasoning, reading.text, len(reading.gaps)) == ("hm", "4", 1)


def test_a_tool_use_is_output_and_its_input_is_joined() -> None:
    body = [
        (0.1, events(start(), opened(0, type="text", text=""), text("Let me see."))),
        (0.2, events(opened(1, type="tool_use", id="toolu_1", name="weather", input={}))),
        (0.3, events(grew(1, "input_json_delta", partial_json=""))),
        (0.4, events(grew(1, "input_json_delta", partial_json='{"city": "Se'))),
        (0.5, events(grew(1, "input_json_delta", partial_json='oul"}'), stopped(1))),
        (0.6, events(opened(2, type="tool_use", id="toolu_2", name="now", input={}), stopped(2))),
        (0.7, events(ended("tool_use"), STOP)),
    ]
    reading = read(body, wire=WIRE)
    assert reading.tool_calls == [
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Seoul"}},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
    ]
    assert (reading.outcome, reading.finish_reason, reading.last_content) == ("ok", "tool_use", 0.6)
    assert len(reading.gaps) == 4


def test_an_input_that_is_no_json_stays_a_text() -> None:
    body = events(
        opened(0, type="tool_use", id="t", name="f", input={}), grew(0, "input_json_delta", partial_json='{"a')
    )
    assert read(body, wire=WIRE).tool_calls[0]["input"] == '{"a'


def test_a_tool_of_the_servers_is_output_and_no_call_of_the_clients() -> None:
    body = events(
        opened(0, type="server_tool_use", id="s", name="web_search", input={}),
        grew(0, "input_json_delta", partial_json='{"query": "x"}'),
        opened(1, type="web_search_tool_result", tool_use_id="s", content=[]),
        ended("pause_turn"),
        STOP,
    )
    reading = read(body, wire=WIRE)
    assert (reading.outcome, reading.tool_calls, len(reading.gaps)) == ("ok", [], 1)


def test_the_usage_of_start_and_delta_is_merged_and_never_summed() -> None:
    first = start(input_tokens=10, cache_creation_input_tokens=100, cache_read_input_tokens=1000, output_tokens=1)
    last = ended(input_tokens=12, cache_creation_input_tokens=None, cache_read_input_tokens=1000, output_tokens=50)
    reading = read(events(first, text("a"), ended(None, output_tokens=20), last, STOP), wire=WIRE)
    assert reading.usage == Usage(input_tokens=1112, output_tokens=50, cached_tokens=1000, cache_write_tokens=100)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("end_turn", "ok"),
        ("stop_sequence", "ok"),
        ("pause_turn", "ok"),
        ("max_tokens", "incomplete"),
        ("model_context_window_exceeded", "incomplete"),
        ("refusal", "refusal"),
    ],
)
def test_the_stop_reason_decides(reason: str, outcome: str) -> None:
    streamed = read(events(start(), text("a"), ended(reason), STOP), wire=WIRE)
    document = read_json({"content": [{"type": "text", "text": "a"}], "stop_reason": reason}, wire=WIRE)
    for reading in (streamed, document):
        assert (reading.outcome, reading.finish_reason, reading.text) == (outcome, reason, "a")


@pytest.mark.parametrize("before", [[], [start(), text("a")], [start(), text("a"), ended()]])
def test_an_overload_inside_a_200_is_a_stream_error(before: list[dict[str, Any]]) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    reading = read(events(*before, error), wire=WIRE)
    assert (reading.outcome, reading.detail) == ("stream_error", "overloaded_error: Overloaded")
    assert read_json(error, wire=WIRE).outcome == "stream_error"


def test_a_gateways_own_error_is_a_stream_error() -> None:
    assert read(events({"error": {"code": 502, "message": "bad upstream"}}), wire=WIRE).detail == "502: bad upstream"
    assert read(b'event: error\ndata: {"message": "gone"}\n\n', wire=WIRE).detail == "gone"


@pytest.mark.parametrize(
    ("last", "ending", "outcome", "notes"),
    [
        ([], Ending.COMPLETE, "truncated", ()),
        ([], Ending.DISCONNECTED, "disconnected", ()),
        ([ended()], Ending.COMPLETE, "ok", ("a finish reason without message_stop",)),
        ([ended()], Ending.CANCELLED, "ok", ("cancelled after the reply was complete",)),
        ([STOP], Ending.COMPLETE, "ok", ()),
    ],
)
def test_a_stream_is_complete_with_its_stop_reason(
    last: list[dict[str, Any]], ending: Ending, outcome: str, notes: tuple[str, ...]
) -> None:
    reading = read(events(start(), text("a"), *last), wire=WIRE, ending=ending)
    assert (reading.outcome, reading.notes) == (outcome, notes)


def test_the_name_of_an_event_stands_in_for_its_type() -> None:
    body = b'event: content_block_delta\ndata: {"index": 0, "delta": {"type": "text_delta", "text": "a"}}\n\n'
    assert read(body, wire=WIRE).text == "a"


def test_text_in_the_start_of_a_block_counts() -> None:
    reading = read([(0.1, events(opened(0, type="text", text="a"))), (0.2, events(text("b")))], wire=WIRE)
    assert (reading.text, reading.first_token) == ("ab", 0.1)


def test_an_empty_turn_is_empty() -> None:
    assert read(events(start(), ended(), STOP), wire=WIRE).outcome == "empty"
    assert read_json({"content": [], "stop_reason": "end_turn"}, wire=WIRE).outcome == "empty"


def test_a_document() -> None:
    body = {
        "id": "msg_2",
        "type": "message",
        "model": "claude-x",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Hel"},
            {"type": "text", "text": "lo"},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 36, "output_tokens": 4},
    }
    reading = read_json(body, wire=WIRE)
    assert (reading.outcome, reading.text, reading.reasoning) == ("ok", "Hello", "hm")
    assert reading.tool_calls == [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]
    assert (reading.first_token, reading.last_content, reading.raw) == (None, 1.0, body)
    assert reading.usage is not None
    assert (reading.usage.input_tokens, reading.usage.cached_tokens) == (39, 36)


@pytest.mark.parametrize("body", [{}, {"content": "text"}, {"choices": []}])
def test_what_is_no_message_is_malformed(body: object) -> None:
    assert read_json(body, wire=WIRE).outcome == "malformed"


def test_a_refused_request_shows_its_type() -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: required"}}
    reading = read_json(error, wire=WIRE, status=400, headers={**DOCUMENT, "request-id": "req_1"})
    assert (reading.outcome, reading.request_id) == ("client_error", "req_1")
    assert reading.detail == "HTTP 400 invalid_request_error: max_tokens: required"
