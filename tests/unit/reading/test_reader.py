"""What holds for every wire: kinds of bodies, splits, neighbours, bounds, identity."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_samples import DOCUMENT, DONE, STREAM, chunk, completion, event, read, read_json, text_chunk

from pytest_swarm.errors import SettingError
from pytest_swarm.exchange import Ending
from pytest_swarm.reading import WIRES, body, draft, reader_factory, wire_of
from pytest_swarm.records import CALL_OUTCOMES, Reading

FINISH = chunk(finish="stop")
WHOLE = text_chunk("hé") + FINISH + DONE


@pytest.mark.parametrize(
    ("path", "wire"),
    [
        ("/v1/chat/completions", "chat"),
        ("/chat/completions", "chat"),
        ("/openai/deployments/x/chat/completions?api-version=1", "chat"),
        ("/v1/messages", "messages"),
        ("/v1/messages/?beta=true", "messages"),
        ("/v1/responses", "responses"),
        ("/v1/responses#x", "responses"),
        ("/v1/completions", None),
        ("/v1/messages/count_tokens", None),
        ("/v1/embeddings", None),
        ("/v1/models?next=/chat/completions", None),
        ("/badmessages", None),
        ("/", None),
        ("", None),
    ],
)
def test_the_path_tells_the_wire(path: str, wire: str | None) -> None:
    assert wire_of(path) == wire


def test_an_unknown_wire_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SettingError, match=r"'message' is unknown; allowed are chat, .*did you mean 'messages'\?"):
        reader_factory("message")


@pytest.mark.parametrize(
    ("headers", "content", "streamed", "noted"),
    [
        ({"content-type": "text/event-stream; charset=utf-8"}, WHOLE, True, False),
        ({"content-type": "Application/JSON"}, json.dumps(completion({"content": "hé"})).encode(), False, False),
        ({}, WHOLE, True, False),
        ({}, b"\n\n: hello\n\n" + WHOLE, True, False),
        ({}, b"event: x\n" + WHOLE, True, False),
        ({}, b"\xef\xbb\xbf" + WHOLE, True, False),
        ({}, b"   " + json.dumps(completion({"content": "hé"})).encode(), False, False),
        ({}, b"\xef\xbb\xbf" + json.dumps(completion({"content": "hé"})).encode(), False, False),
        ({"content-type": "application/json"}, WHOLE, True, True),
        ({"content-type": "text/event-stream"}, json.dumps(completion({"content": "hé"})).encode(), False, True),
        ({"content-type": "application/json"}, b"\n" * 5000 + json.dumps(completion({"content": "hé"})).encode(), 0, 0),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_the_first_bytes_tell_a_stream_from_a_document(
    headers: dict[str, str], content: bytes, streamed: bool, noted: bool, size: int
) -> None:
    pieces = [(0.1 * place, content[place : place + size]) for place in range(0, len(content), size)]
    reading = read(pieces, headers=headers)
    assert (reading.outcome, reading.text) == ("ok", "hé")
    assert (reading.first_token is not None) == streamed
    assert any("the content type says" in note for note in reading.notes) == noted


@pytest.mark.parametrize(
    ("content", "outcome"),
    [(b"da", "malformed"), (b"e", "malformed"), (b"error: down", "malformed"), (b"\xef", "malformed")],
)
def test_a_body_that_never_shows_what_it_is_counts_as_what_the_header_says(content: bytes, outcome: str) -> None:
    assert read(content, headers=DOCUMENT).outcome == outcome
    assert read(content, headers=STREAM).outcome == "truncated"


def test_an_html_page_under_the_header_of_a_stream_is_malformed() -> None:
    assert read(b"<html>oops</html>").outcome == "malformed"


def test_empty_reads_change_nothing() -> None:
    assert read([(0.1, b""), (0.2, WHOLE), (0.3, b"")]).first_token == 0.2
    assert read([(0.1, b""), (0.2, b"")]).outcome == "empty"


# --- any split, any neighbour -----------------------------------------------------------------------------------------

TEXTS = st.text('ab {}"\\\u2028\u2029\u0085\x0b\x1c안🌍é', min_size=1, max_size=8)
DELTAS = st.one_of(
    st.builds(lambda text: {"content": text}, TEXTS),
    st.builds(lambda text: {"reasoning": text}, TEXTS),
    st.builds(lambda text: {"refusal": text}, TEXTS),
    st.builds(lambda text: {"tool_calls": [{"index": 0, "id": "t", "function": {"arguments": text}}]}, TEXTS),
    st.just({"content": ""}),
)
PAYLOADS = st.one_of(
    st.builds(lambda delta: {"id": "c", "choices": [{"index": 0, "delta": delta}]}, DELTAS),
    st.builds(lambda n: {"choices": [], "usage": {"prompt_tokens": n, "completion_tokens": n}}, st.integers(0, 9)),
    st.just({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
)


@st.composite
def framed(draw: st.DrawFn, payload: str) -> str:
    """One event with its payload over one or more lines, among comments and other fields."""
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    if payload.startswith("{"):
        # JSON may be broken over lines between its tokens; no text of these tests holds a comma.
        payload = payload.replace(", ", ",\n", draw(st.integers(0, 2)))
    space = draw(st.sampled_from(["", " "]))
    lines = [f"data:{space}{line}" for line in payload.split("\n")]
    before = draw(st.sampled_from([[], [": ping"], ["event: message"], ["id: 1", "retry: 5"], [":", ""]]))
    return end.join([*before, *lines, "", ""])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    payloads = [json.dumps(payload, ensure_ascii=False) for payload in draw(st.lists(PAYLOADS, max_size=8))]
    ends = draw(st.sampled_from([[], ["[DONE]"]]))
    text = "".join(draw(framed(payload)) for payload in [*payloads, *ends])
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


def split(content: bytes, cuts: list[int]) -> Iterator[tuple[float, bytes]]:
    places = sorted({min(cut, len(content)) for cut in cuts} | {0, len(content)})
    for start, end in pairwise(places):
        yield 1.0, content[start:end]


@given(streams(), st.lists(st.integers(0, 600), max_size=20), st.sampled_from(["", "text/event-stream"]))
def test_any_split_of_a_stream_gives_the_same_reading(content: bytes, cuts: list[int], declared: str) -> None:
    headers = {"content-type": declared} if declared else {}
    assert asdict(read(split(content, cuts), headers=headers)) == asdict(read(content, headers=headers))


@given(streams())
def test_a_stream_split_into_single_bytes_gives_the_same_reading(content: bytes) -> None:
    assert read(split(content, list(range(len(content))))) == read(content)


BAD = st.sampled_from(
    [
        "{broken",
        "[1, 2]",
        "null",
        "3",
        '"text"',
        "{'a': 1}",
        '{"a": NaN',
        "[" * 3000,
        '{"a": ' + "9" * 5000 + "}",
        "\ufffd",
    ]
)


@given(st.lists(TEXTS, min_size=1, max_size=5), st.lists(st.tuples(st.integers(0, 5), BAD), min_size=1, max_size=4))
def test_bad_events_never_lose_their_neighbours(texts: list[str], bad: list[tuple[int, str]]) -> None:
    pieces = [text_chunk(text) for text in texts]
    for place, payload in bad:
        pieces.insert(place, f"data: {payload}\n\n".encode())
    reading = read(b"".join([*pieces, FINISH, DONE]))
    assert (reading.outcome, reading.text) == ("ok", "".join(texts))
    (note,) = reading.notes
    assert note.startswith(f"{len(bad)} event")


KEYS = [
    *(
        "choices",
        "delta",
        "message",
        "content",
        "tool_calls",
        "function_call",
        "function",
        "name",
        "arguments",
        "index",
    ),
    *("finish_reason", "usage", "error", "code", "x_groq", "reasoning", "refusal", "text", "thinking", "type", "id"),
    *(
        "content_block",
        "partial_json",
        "stop_reason",
        "response",
        "output",
        "item",
        "status",
        "summary",
        "output_index",
    ),
    *("prompt_tokens", "input_tokens", "cache_creation", "model", "detail", "incomplete_details", "reason", "input"),
]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
TYPES = [
    *("content_block_start", "content_block_delta", "message_start", "message_delta", "input_json_delta", "error"),
    *("response.completed", "response.created", "response.output_text.delta", "response.output_item.added"),
    *("response.output_item.done", "response.function_call_arguments.delta", "response.failed", "response.incomplete"),
]


@given(
    st.sampled_from(WIRES),
    st.lists(st.dictionaries(st.sampled_from(KEYS), JSON_VALUES, max_size=4), max_size=4),
    st.sampled_from(TYPES),
)
def test_whatever_json_a_server_sends_is_read(wire: str, payloads: list[dict[str, Any]], kind: str) -> None:
    streamed = b"".join(f"event: {kind}\ndata: {json.dumps(payload)}\n\n".encode() for payload in payloads)
    assert read(streamed, wire=wire).outcome in CALL_OUTCOMES
    for payload in payloads:
        assert read_json(payload, wire=wire).outcome in CALL_OUTCOMES
        assert read_json(payload, wire=wire, status=400).outcome in {"client_error", "quota_exhausted"}


# --- bounds -----------------------------------------------------------------------------------------------------------


def peak_of(content: Iterator[bytes], headers: dict[str, str]) -> tuple[Reading, int]:
    """The reading of a long body, and the bytes that it took at most."""
    reader = reader_factory("chat")(200, headers)
    tracemalloc.start()
    try:
        for place, data in enumerate(content):
            reader.feed(place / 1000, data)
        reading = reader.finish(Ending.COMPLETE, "")
        return reading, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["tok ", "x" * 400], ids=["short pieces", "long pieces"])
def test_memory_stays_bounded_in_a_long_stream(text: str) -> None:
    single = text_chunk(text)
    block = single * (2**16 // len(single) + 1)
    reading, peak = peak_of((block for _ in range(30 * 2**20 // len(block))), STREAM)
    assert peak < 20 * 2**20
    assert reading.text.startswith(text)
    assert reading.last_content == pytest.approx((30 * 2**20 // len(block) - 1) / 1000)


def test_text_beyond_its_bound_is_dropped_and_timing_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "TEXT_KEPT", 2**20)
    piece = "x" * 2**18
    reading = read([*((n, text_chunk(piece)) for n in range(6)), (6, chunk({"reasoning": "r"})), (7, FINISH + DONE)])
    assert (len(reading.text), reading.reasoning) == (2**20, "")
    assert (reading.outcome, reading.last_content, len(reading.gaps)) == ("ok", 6, 6)
    assert reading.notes == ("the reply's text was kept up to 1 MiB and dropped beyond",)


def test_tool_calls_beyond_the_bound_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "TEXT_KEPT", 2 * draft.CALL_COST + 10)
    calls = [chunk({"tool_calls": [{"index": n, "function": {"name": "f", "arguments": "12345"}}]}) for n in range(9)]
    reading = read([*enumerate(calls), (9, chunk(finish="tool_calls") + DONE)])
    assert len(reading.tool_calls) == 2
    assert (reading.outcome, reading.last_content) == ("ok", 8)


def test_many_pieces_are_joined_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "SINGLE_PIECES", 3)
    monkeypatch.setattr(draft, "BLOCK_PIECES", 4)
    reader = reader_factory("chat")(200, STREAM)
    for letter in "abcdefghij":
        reader.feed(1.0, text_chunk(letter))
    assert reader.pieces == ["a", "b", "c", "defg"]
    assert reader.finish(Ending.COMPLETE, "").text == "abcdefghij"
    assert reader.pieces == ["a", "b", "c", "defg", "hij"]


def test_gaps_beyond_their_bound_are_dropped_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "GAPS_KEPT", 3)
    for chunks, notes in ((4, ()), (5, ("only the first 3 gaps between chunks were kept",))):
        reading = read([*((n, text_chunk("a")) for n in range(chunks)), (9, FINISH + DONE)])
        assert list(reading.gaps) == [1, 1, 1]
        assert reading.notes == notes


def test_an_event_beyond_its_bound_is_dropped_with_a_note() -> None:
    large = event({"choices": [], "padding": "x" * (16 * 2**20)})
    reading = read(text_chunk("a") + large + text_chunk("b") + FINISH + DONE)
    assert (reading.outcome, reading.text) == ("ok", "ab")
    assert reading.notes == ("1 event of more than 16 MiB dropped",)


def test_a_document_beyond_its_bound_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "DOCUMENT_BYTES", 2**20)
    reading, peak = peak_of((b" " * 2**16 + b"{" for _ in range(160)), DOCUMENT)
    assert (reading.outcome, reading.detail) == ("malformed", "a body of more than 1 MiB was dropped")
    assert reading.notes == (reading.detail,)
    assert peak < 4 * 2**20


# --- identity and cost ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x-request-id": "a", "request-id": "b"}, "a"),
        ({"request-id": "b"}, "b"),
        ({"x-litellm-call-id": "c"}, "c"),
        ({"apim-request-id": "d"}, "d"),
        ({"x-request-id": ""}, "c1"),
        ({}, "c1"),
    ],
)
def test_the_request_id_is_that_of_the_headers_else_that_of_the_body(headers: dict[str, str], expected: str) -> None:
    assert read(WHOLE, headers={**STREAM, **headers}).request_id == expected
    assert read_json(completion({"content": "a"}), headers={**DOCUMENT, **headers}).request_id == expected


def test_an_error_has_the_request_id_of_its_headers() -> None:
    assert read(b"", status=500, headers={"x-request-id": "a"}).request_id == "a"
    assert read(b"", status=500, headers={}).request_id is None


def test_the_cost_header_counts_for_documents_alone_and_behind_the_body() -> None:
    headers = {"x-litellm-response-cost": "0.5"}
    usage = {"prompt_tokens": 1, "completion_tokens": 2}

    def cost(reading: Reading) -> float | None:
        return None if reading.usage is None else reading.usage.reported_cost

    document = read_json(completion({"content": "a"}, usage=usage), headers={**DOCUMENT, **headers})
    assert cost(document) == 0.5
    assert document.usage is not None
    assert document.usage.output_tokens == 2
    assert cost(read_json(completion({"content": "a"}), headers={**DOCUMENT, **headers})) == 0.5
    own = completion({"content": "a"}, usage={**usage, "cost": 0.25})
    assert cost(read_json(own, headers={**DOCUMENT, **headers})) == 0.25
    assert cost(read(WHOLE, headers={**STREAM, **headers})) is None


def test_readings_of_one_factory_share_nothing() -> None:
    factory = reader_factory("chat")
    one, two = factory(200, STREAM), factory(200, STREAM)
    one.feed(0.1, text_chunk("a"))
    two.feed(0.2, text_chunk("b"))
    first, second = (reader.finish(Ending.COMPLETE, "") for reader in (one, two))
    assert (first.text, second.text) == ("a", "b")
    assert replace(first, text="b", first_token=0.2, first_output=0.2, last_content=0.2) == second
