"""Chat completions: what counts as a token, where things stand, how replies of many servers end."""

from __future__ import annotations

from typing import Any

import pytest
from reading_samples import DONE, chunk, completion, event, read, read_json, text_chunk

from pytest_swarm.exchange import Ending
from pytest_swarm.reading import reader_factory

FINISH = chunk(finish="stop")


@pytest.mark.parametrize(
    "silent",
    [
        chunk({"role": "assistant"}),
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": None}),
        chunk({"content": "", "reasoning": "", "reasoning_content": None, "refusal": None}),
        chunk({"tool_calls": None}),
        chunk({"tool_calls": []}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ""}}]}),
        chunk({"tool_calls": [None, 3]}),
        chunk({"content": 5, "reasoning": 7, "refusal": [1]}),
        chunk({"content": []}),
        chunk("not an object"),
        event({"choices": [], "usage": {"prompt_tokens": 1}}),
        event({"id": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}),
        event({"choices": None}),
        event({"choices": "x"}),
        event({"choices": [None]}),
        event({"choices": [{"index": 0, "logprobs": {"content": []}, "delta": {}}]}),
        b": ping\n\n",
        b"data:\n\n",
    ],
)
def test_what_carries_no_piece_starts_no_token_and_makes_no_gap(silent: bytes) -> None:
    reading = read([(0.1, silent), (0.2, text_chunk("a")), (0.3, silent), (0.5, text_chunk("b")), (0.9, FINISH + DONE)])
    assert (reading.first_token, reading.first_output, reading.last_content) == (0.2, 0.2, 0.5)
    assert list(reading.gaps) == [pytest.approx(0.3)]
    assert (reading.outcome, reading.text) == ("ok", "ab")


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_starts_the_first_token_and_not_the_first_output(field: str) -> None:
    reading = read([(0.1, chunk({field: "hm"})), (0.2, chunk({field: "m", "content": ""})), (0.5, text_chunk("4"))])
    assert (reading.first_token, reading.first_output, reading.last_content) == (0.1, 0.5, 0.5)
    assert (reading.reasoning, reading.text) == ("hmm", "4")


def test_reasoning_that_is_sent_under_both_names_counts_once() -> None:
    reading = read(chunk({"reasoning": "hm", "reasoning_content": "hm"}))
    assert reading.reasoning == "hm"


def test_events_of_one_read_are_chunks_without_a_gap() -> None:
    reading = read([(0.1, text_chunk("a") + text_chunk("b")), (0.3, text_chunk("c"))])
    assert list(reading.gaps) == [0.0, pytest.approx(0.2)]


def test_one_chunk_with_content_and_reasoning_is_one_chunk() -> None:
    reading = read([(0.1, chunk({"content": "a", "reasoning": "b"})), (0.3, text_chunk("c"))])
    assert len(reading.gaps) == 1
    assert reading.first_output == 0.1


def test_the_arguments_of_tool_calls_are_joined() -> None:
    def call(index: int, **function: str) -> dict[str, Any]:
        return {"index": index, "function": function}

    pieces = [
        chunk({"tool_calls": [{"id": "a", "type": "function", **call(0, name="f", arguments="")}]}),
        chunk({"tool_calls": [call(0, arguments='{"x"')]}),
        chunk({"tool_calls": [{"id": "b", "type": "function", **call(1, name="g", arguments="{")}]}),
        chunk({"tool_calls": [call(0, arguments=":1}"), call(1, arguments="}")]}),
        chunk(finish="tool_calls"),
    ]
    reading = read([*enumerate(pieces), (9.0, DONE)])
    assert reading.tool_calls == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
    assert (reading.outcome, reading.finish_reason) == ("ok", "tool_calls")
    assert (reading.first_token, reading.first_output, reading.last_content) == (0, 0, 3)


def test_tool_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    def piece(**call: Any) -> bytes:
        return chunk({"tool_calls": [call]})

    body = (
        piece(id="a", function={"name": "f", "arguments": "1"})
        + piece(id="b", function={"name": "g", "arguments": "2"})
        + piece(function={"arguments": "3"})
    )
    calls = read(body).tool_calls
    assert [(call["id"], call["function"]) for call in calls] == [
        ("a", {"name": "f", "arguments": "1"}),
        ("b", {"name": "g", "arguments": "23"}),
    ]


def test_a_function_call_of_the_old_kind_is_output() -> None:
    body = chunk({"function_call": {"name": "f", "arguments": "{"}}) + chunk({"function_call": {"arguments": "}"}})
    reading = read(body + chunk(finish="function_call"))
    assert reading.outcome == "ok"
    assert reading.tool_calls[0]["function"] == {"name": "f", "arguments": "{}"}


def test_whole_tool_calls_of_a_document_stay_apart() -> None:
    calls = [{"type": "function", "function": {"name": name, "arguments": "{}"}} for name in "fg"]
    reading = read_json(completion({"content": None, "tool_calls": [*calls, None]}, "tool_calls"))
    assert [call["function"]["name"] for call in reading.tool_calls] == ["f", "g"]
    assert reading.outcome == "ok"


def test_of_several_choices_the_first_is_the_text_and_all_are_timed() -> None:
    body = [
        (0.1, chunk({"content": "B"}, index=1)),
        (0.2, chunk({"content": "A", "reasoning": "r"})),
        (0.3, chunk({"reasoning": "s", "refusal": "t", "tool_calls": [{"id": "x"}]}, index=1)),
        (0.4, chunk(finish="length", index=1) + chunk(finish="stop")),
        (0.5, DONE),
    ]
    reading = read(body)
    assert (reading.text, reading.reasoning, reading.refusal, reading.tool_calls) == ("A", "r", "", [])
    assert (reading.finish_reason, reading.outcome) == ("stop", "ok")
    assert (reading.first_token, reading.last_content, len(reading.gaps)) == (0.1, 0.3, 2)


def test_several_choices_are_complete_when_all_of_them_are() -> None:
    body = chunk({"content": "B"}, index=1) + text_chunk("A") + FINISH
    assert read(body, ending=Ending.DISCONNECTED).outcome == "disconnected"
    body += chunk(finish="stop", index=1)
    assert read(body, ending=Ending.DISCONNECTED).outcome == "ok"
    assert read(body + chunk({}, index=1), ending=Ending.DISCONNECTED).outcome == "ok"


def test_a_refusal_is_collected() -> None:
    reading = read([(0.1, chunk({"refusal": "I can"})), (0.2, chunk({"refusal": "'t"})), (0.3, FINISH + DONE)])
    assert (reading.outcome, reading.refusal, reading.detail) == ("refusal", "I can't", "I can't")
    assert (reading.first_output, reading.text) == (0.1, "")


def test_content_in_parts_is_text_and_thoughts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
        {"type": "thinking", "thinking": "m"},
        {"type": "other"},
        None,
    ]
    reading = read(chunk({"content": parts}))
    assert (reading.text, reading.reasoning) == ("yes", "hmm")
    assert read_json(completion({"content": parts})).text == "yes"


@pytest.mark.parametrize(
    "usage_at",
    [
        lambda usage: chunk(finish="stop") + event({"choices": [], "usage": usage}),
        lambda usage: chunk(finish="stop", usage=usage),
        lambda usage: event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}]}),
        lambda usage: chunk(finish="stop", x_groq={"id": "r", "usage": usage}),
        lambda usage: event({"choices": [], "x_groq": {"id": "r", "usage": usage}}) + FINISH,
        lambda usage: chunk({"content": "b"}, usage={"prompt_tokens": 1, "completion_tokens": 1}) + chunk(usage=usage),
        lambda usage: event({"choices": [], "usage": usage}) + chunk(finish="stop", usage=None) + event({"usage": {}}),
    ],
    ids=["last chunk", "finish chunk", "in the choice", "groq", "groq without choices", "continuous", "null after it"],
)
def test_usage_is_found_wherever_it_stands_and_the_last_one_counts(usage_at: Any) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}
    found = read(text_chunk("a") + usage_at(usage) + DONE).usage
    assert found is not None
    assert (found.input_tokens, found.output_tokens) == (7, 4)


def test_without_usage_tokens_are_unknown() -> None:
    assert read(text_chunk("a") + FINISH + DONE).usage is None


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (event({"error": {"code": 504, "message": "upstream timed out"}}), "504: upstream timed out"),
        (event({"error": {"type": "server_error", "code": None, "message": "boom"}}), "server_error: boom"),
        (event({"error": "boom"}), "boom"),
        (event({"error": {"message": "boom"}, "choices": []}), "boom"),
        (event({"message": "boom", "code": 500}, "error"), "500: boom"),
        (event({"object": "error", "message": "boom", "type": "BadRequestError"}), "BadRequestError: boom"),
        (event({"detail": "boom"}), "boom"),
        (event({"detail": [{"msg": "boom"}]}), "[{'msg': 'boom'}]"),
        (event({"error": {"message": {"a": 1}}}), "{'a': 1}"),
        (event({"error": {"x": 1}}), "an error without a text"),
        (chunk(finish="error"), "finish_reason error"),
        (
            event({"choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"message": "boom"}}]}),
            "boom",
        ),
    ],
)
def test_an_error_inside_a_200_is_a_stream_error_even_after_tokens(body: bytes, detail: str) -> None:
    for before in (b"", text_chunk("a")):
        for after in (b"", DONE):
            reading = read(before + body + after)
            assert (reading.outcome, reading.detail) == ("stream_error", detail)
    assert read(text_chunk("a") + body, ending=Ending.DISCONNECTED).outcome == "stream_error"


def test_of_two_errors_the_first_is_told() -> None:
    assert read(event({"error": "one"}) + event({"error": "two"})).detail == "one"


def test_an_error_of_null_is_none() -> None:
    assert read(chunk({"content": "a"}, error=None) + chunk(finish="stop", error=None) + DONE).outcome == "ok"


def test_nothing_is_read_behind_the_end_mark() -> None:
    reading = read(text_chunk("a") + FINISH + DONE + text_chunk("b") + event({"error": "late"}))
    assert (reading.outcome, reading.text) == ("ok", "a")


def test_the_reply_names_its_model_and_id() -> None:
    first = event({"id": "", "model": "", "choices": []})
    reading = read(first + text_chunk("a"))
    assert (reading.model, reading.request_id) == ("m1", "c1")
    assert read_json(completion({"content": "a"}, model="m2")).model == "m2"


def test_a_document_has_no_first_token_and_ends_with_its_last_byte() -> None:
    body = b'{"choices": [{"message": {"content": "hi", "reasoning": "hm"}, "finish_reason": "stop"}]}'
    reading = read([(0.2, body[:30]), (0.4, body[30:])], headers={"content-type": "application/json"})
    assert (reading.first_token, reading.first_output, reading.last_content) == (None, None, 0.4)
    assert (reading.outcome, reading.text, reading.reasoning, list(reading.gaps)) == ("ok", "hi", "hm", [])


def test_the_raw_body_is_kept_on_request() -> None:
    body = completion({"content": "a"})
    assert read_json(body).raw == body
    assert read_json(body, keep_raw=False).raw is None
    assert read(text_chunk("a")).raw is None


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (completion({"content": "a"}), "ok"),
        (completion({"content": "a"}, None), "ok"),
        (completion({"content": "a"}, "length"), "incomplete"),
        (completion({"content": ""}, "content_filter"), "content_filter"),
        (completion({"content": None, "refusal": "no"}), "refusal"),
        (completion({"content": ""}), "empty"),
        (completion(None), "empty"),
        (completion({"content": "", "reasoning": '{"a": 1}'}), "empty"),
        ({"error": {"message": "boom"}}, "stream_error"),
        ({**completion({"content": "a"}), "error": {"message": "boom"}}, "stream_error"),
        ([{"error": {"message": "boom"}}], "stream_error"),
        ({"choices": []}, "malformed"),
        ({}, "malformed"),
        ([], "malformed"),
        ("text", "malformed"),
        (None, "malformed"),
    ],
)
def test_a_document_comes_to_its_outcome(body: object, outcome: str) -> None:
    assert read_json(body).outcome == outcome


def test_first_token_and_pieces_are_there_while_the_stream_goes_on() -> None:
    reader = reader_factory("chat")(200, {"content-type": "text/event-stream"})
    assert (reader.first_token, reader.pieces) == (None, [])
    reader.feed(0.5, text_chunk("a"))
    assert (reader.first_token, reader.pieces) == (0.5, ["a"])
    reader.feed(0.6, text_chunk("b"))
    assert reader.pieces == ["a", "b"]
