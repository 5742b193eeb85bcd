"""The OpenAI Responses API as the vendor sends it, streamed and not."""

from __future__ import annotations

from typing import Any

import pytest
from reading_samples import events, read, read_json

from pytest_swarm.exchange import Ending

WIRE = "responses"
USAGE = {"input_tokens": 20, "output_tokens": 9, "total_tokens": 29, "input_tokens_details": {"cached_tokens": 8}}


def message(*content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(content)}


def output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def call(arguments: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": arguments, **more}


def response(status: str = "completed", output: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    head = {"id": "resp_1", "object": "response", "model": "m1", "status": status, "error": None}
    return {**head, "incomplete_details": None, "output": output or [], **more}


def begun() -> dict[str, Any]:
    return {"type": "response.created", "response": response("in_progress")}


def delta(piece: str, kind: str = "output_text", index: int = 0) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": index, "content_index": 0, "delta": piece}


def added(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def final(status: str = "completed", output: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": response(status, output, **more)}


def test_a_plain_stream() -> None:
    body = [
        (0.1, events(begun(), {"type": "response.in_progress", "response": response("in_progress")})),
        (0.2, events(added(message()), {"type": "response.content_part.added", "part": output_text("")}, delta(""))),
        (0.3, events(delta("Hel"))),
        (0.5, events(delta("lo"))),
        (0.6, events({"type": "response.output_text.done", "text": "Hello"})),
        (0.8, events(final(output=[message(output_text("Hello"))], usage=USAGE))),
    ]
    reading = read(body, wire=WIRE)
    assert (reading.outcome, reading.text, reading.finish_reason) == ("ok", "Hello", "completed")
    assert (reading.first_token, reading.first_output, reading.last_content) == (0.3, 0.3, 0.5)
    assert list(reading.gaps) == [pytest.approx(0.2)]
    assert (reading.model, reading.request_id, reading.notes) == ("m1", "resp_1", ())
    assert reading.usage is not None
    assert (reading.usage.input_tokens, reading.usage.cached_tokens, reading.usage.output_tokens) == (20, 8, 9)


def test_first_events_that_come_again_are_no_pieces() -> None:
    """llama.cpp repeats them while it holds half a character back."""
    body = [
        (0.1, events(begun(), added(message()))),
        (0.2, events(delta("안"), begun())),
        (0.3, events(begun(), begun())),
        (0.4, events(delta("녕"), final(output=[message(output_text("안녕"))], usage=USAGE))),
    ]
    reading = read(body, wire=WIRE)
    assert (reading.outcome, reading.text, reading.notes) == ("ok", "안녕", ())
    assert (reading.first_token, reading.last_content, len(reading.gaps)) == (0.2, 0.4, 1)


@pytest.mark.parametrize("kind", ["reasoning_text", "reasoning_summary_text"])
def test_reasoning_starts_the_first_token_and_not_the_first_output(kind: str) -> None:
    reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    body = [
        (0.1, events(begun(), added({"type": "reasoning"}))),
        (0.2, events(delta("hm", kind))),
        (0.4, events(delta("4", index=1))),
        (0.5, events(final(output=[reasoning, message(output_text("4"))]))),
    ]
    reading = read(body, wire=WIRE)
    assert (reading.first_token, reading.first_output, reading.last_content) == (0.2, 0.4, 0.4)
    assert (reading.reasoning, reading.text) == ("hm", "4")


def test_a_function_call_is_output_and_its_arguments_are_joined() -> None:
    kind = "function_call_arguments"
    body = [
        (0.1, events(begun())),
        (0.2, events(added(call(), 1))),
        (0.3, events(delta("", kind, 1), delta('{"a"', kind, 1))),
        (0.4, events(delta(":1}", kind, 1))),
        (0.5, events(final(output=[{"type": "reasoning", "summary": []}, call('{"a":1}')]))),
    ]
    reading = read(body, wire=WIRE)
    assert reading.tool_calls == [call('{"a":1}')]
    assert (reading.first_output, reading.last_content, len(reading.gaps)) == (0.2, 0.4, 2)
    assert (reading.outcome, reading.finish_reason) == ("ok", "function_call")


def test_a_custom_tool_call_keeps_its_input() -> None:
    item = {"type": "custom_tool_call", "call_id": "c", "name": "f"}
    body = events(begun(), added({**item, "input": ""}), delta("SELECT", "custom_tool_call_input"), final())
    reading = read(body, wire=WIRE)
    assert reading.tool_calls == [{**item, "input": "SELECT"}]
    assert reading.finish_reason == "function_call"


def test_a_tool_of_the_servers_is_output_and_no_call_of_the_clients() -> None:
    body = events(begun(), added({"type": "web_search_call", "id": "ws"}), final(output=[{"type": "web_search_call"}]))
    reading = read(body, wire=WIRE)
    assert (reading.outcome, reading.tool_calls, reading.finish_reason) == ("ok", [], "completed")


def test_what_was_not_streamed_arrives_with_the_last_event() -> None:
    output = [
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}], "summary": []},
        message(output_text("Hel"), output_text("lo")),
        call("{}"),
    ]
    reading = read([(0.1, events(begun())), (0.5, events(final(output=output)))], wire=WIRE)
    assert (reading.text, reading.reasoning, reading.tool_calls) == ("Hello", "hm", [call("{}")])
    assert (reading.first_token, reading.first_output, reading.last_content) == (0.5, 0.5, 0.5)
    late = [(0.1, events(delta("hm", "reasoning_text"))), (0.5, events(final(output=output[:2])))]
    reading = read(late, wire=WIRE)
    assert (reading.reasoning, reading.text) == ("hm", "Hello")
    assert (reading.first_token, reading.first_output, reading.last_content) == (0.1, 0.5, 0.5)


@pytest.mark.parametrize(
    ("last", "outcome", "reason", "detail"),
    [
        (final(), "empty", "completed", "no content (finish reason completed)"),
        (
            final("incomplete", incomplete_details={"reason": "max_output_tokens"}),
            "incomplete",
            "max_output_tokens",
            "finish reason max_output_tokens",
        ),
        (
            final("incomplete", incomplete_details={"reason": "content_filter"}),
            "content_filter",
            "content_filter",
            "finish reason content_filter",
        ),
        (final("incomplete"), "incomplete", "incomplete", "finish reason incomplete"),
        (
            final("failed", error={"code": "server_error", "message": "boom"}),
            "stream_error",
            "failed",
            "server_error: boom",
        ),
        (final("failed"), "stream_error", "failed", "failed"),
        (final("cancelled"), "stream_error", "cancelled", "cancelled"),
        (final("completed", [message({"type": "refusal", "refusal": "no"})]), "refusal", "completed", "no"),
    ],
)
def test_the_last_event_decides(last: dict[str, Any], outcome: str, reason: str, detail: str) -> None:
    streamed = read(events(begun(), last), wire=WIRE)
    document = read_json(last["response"], wire=WIRE)
    for reading in (streamed, document):
        assert (reading.outcome, reading.finish_reason, reading.detail) == (outcome, reason, detail)


def test_a_streamed_refusal_is_collected() -> None:
    body = events(begun(), delta("no", "refusal"), final(output=[message({"type": "refusal", "refusal": "no"})]))
    reading = read(body, wire=WIRE)
    assert (reading.outcome, reading.refusal, reading.first_output) == ("refusal", "no", 1.0)


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        ({"type": "error", "code": "rate_limit", "message": "slow", "param": None}, "rate_limit: slow"),
        ({"type": "error", "error": {"type": "server_error", "message": "boom"}}, "server_error: boom"),
        ({"error": {"code": 502, "message": "bad upstream"}}, "502: bad upstream"),
    ],
)
def test_an_error_event_inside_a_200_is_a_stream_error(error: dict[str, Any], detail: str) -> None:
    for before in ([], [begun(), delta("a")]):
        reading = read(events(*before, error), wire=WIRE)
        assert (reading.outcome, reading.detail) == ("stream_error", detail)


def test_without_its_last_event_a_stream_is_cut() -> None:
    body = events(begun(), delta("a"))
    assert read(body, wire=WIRE).outcome == "truncated"
    assert "response.completed" in read(body, wire=WIRE).detail
    assert read(body, wire=WIRE, ending=Ending.DISCONNECTED).outcome == "disconnected"
    whole = body + events(final())
    assert read(whole, wire=WIRE, ending=Ending.DISCONNECTED).outcome == "ok"


def test_a_document() -> None:
    body = response(output=[message(output_text("Hello")), call("{}")], usage=USAGE)
    reading = read_json(body, wire=WIRE)
    assert (reading.outcome, reading.text, reading.finish_reason) == ("ok", "Hello", "function_call")
    assert (reading.first_token, reading.last_content, reading.raw) == (None, 1.0, body)
    assert reading.tool_calls == [call("{}")]


def test_a_document_that_waits_in_the_background_has_no_content_yet() -> None:
    assert read_json(response("queued"), wire=WIRE).detail == "no content (finish reason queued)"


@pytest.mark.parametrize("body", [{}, {"output": "text"}, {"choices": []}])
def test_what_is_no_response_is_malformed(body: object) -> None:
    assert read_json(body, wire=WIRE).outcome == "malformed"


def test_a_document_that_holds_an_error_is_a_stream_error() -> None:
    assert read_json({"error": {"code": "x", "message": "boom"}}, wire=WIRE).detail == "x: boom"
