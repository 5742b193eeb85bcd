"""What an exchange comes to: status, ending and body, each with its evidence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from reading_samples import DOCUMENT, DONE, chunk, completion, event, read, read_json, text_chunk

from pytest_swarm.exchange import Ending
from pytest_swarm.records import CALL_OUTCOMES

ENDINGS = [ending for ending in Ending if ending is not Ending.COMPLETE]
FINISH = chunk(finish="stop")


def error(message: str = "m", **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


@pytest.mark.parametrize(
    ("status", "body", "outcome", "detail"),
    [
        (429, error("slow down", type="rate_limit"), "rate_limited", "HTTP 429 rate_limit: slow down"),
        (429, error("slow down", code="429"), "rate_limited", "HTTP 429: slow down"),
        (429, [error(code=429, status="RESOURCE_EXHAUSTED")], "rate_limited", "HTTP 429: m"),
        (429, {}, "rate_limited", "HTTP 429: {}"),
        (429, error(code="insufficient_quota"), "quota_exhausted", "HTTP 429 insufficient_quota: m"),
        (429, error(code=None, type="insufficient_quota"), "quota_exhausted", "HTTP 429 insufficient_quota: m"),
        (
            429,
            error(type="exceeded_current_quota_error"),
            "quota_exhausted",
            "HTTP 429 exceeded_current_quota_error: m",
        ),
        (400, error(code="billing_hard_limit_reached"), "quota_exhausted", "HTTP 400 billing_hard_limit_reached: m"),
        (403, error(type="Billing_Error"), "quota_exhausted", "HTTP 403 Billing_Error: m"),
        (400, error(type="budget_exceeded"), "quota_exhausted", "HTTP 400 budget_exceeded: m"),
        (402, error("Insufficient Balance"), "quota_exhausted", "HTTP 402: Insufficient Balance"),
        (402, "pay", "quota_exhausted", 'HTTP 402: "pay"'),
        (
            400,
            error("Your credit balance is too low to access the API", type="invalid_request_error"),
            "quota_exhausted",
            "HTTP 400 invalid_request_error: Your credit balance is too low to access the API",
        ),
        (400, error(type="invalid_request_error"), "client_error", "HTTP 400 invalid_request_error: m"),
        (401, error("no key"), "client_error", "HTTP 401: no key"),
        (404, {"detail": "Not Found"}, "client_error", "HTTP 404: Not Found"),
        (400, error("", code="bad"), "client_error", "HTTP 400 bad"),
        (302, error(code="insufficient_quota"), "client_error", "HTTP 302 insufficient_quota: m"),
        (503, error(type="billing_error"), "server_error", "HTTP 503 billing_error: m"),
        (
            529,
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            "server_error",
            "HTTP 529 overloaded_error: Overloaded",
        ),
    ],
)
def test_a_status_that_is_no_success_decides(status: int, body: object, outcome: str, detail: str) -> None:
    reading = read_json(body, status=status)
    assert (reading.outcome, reading.detail) == (outcome, detail)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"<html>\n  <h1>502\tBad Gateway</h1>\r\n</html>", "HTTP 502: <html> <h1>502 Bad Gateway</h1> </html>"),
        (b"", "HTTP 502 with an empty body"),
        (b"\xff\xfe", "HTTP 502: \ufffd\ufffd"),
        (b"data: {}\n\n", "HTTP 502: data: {}"),
        (b"[" * 5000, "HTTP 502: " + "[" * 199 + "…"),
        (b"key sk-abcdefgh12345678 " + b"x " * 300, "HTTP 502: key *** " + ("x " * 300)[:191] + "…"),
    ],
)
def test_the_evidence_is_one_short_line_without_secrets(body: bytes, detail: str) -> None:
    reading = read(body, status=502, headers={"content-type": "text/html"})
    assert (reading.outcome, reading.detail) == ("server_error", detail)


def test_a_secret_that_the_cut_would_split_is_not_shown() -> None:
    secret = "sk-" + "a1" * 40
    detail = read(b"x " * 98 + secret.encode(), status=500).detail
    assert "sk-" not in detail
    assert detail.endswith("***")


def test_of_an_error_only_the_front_is_kept() -> None:
    reading = read([(0.1, b" " * 65536), (0.2, json.dumps(error()).encode())], status=500)
    assert reading.detail == "HTTP 500 with an empty body"


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_status_of_an_error_counts_more_than_the_end_of_its_body(ending: Ending) -> None:
    reading = read(b"", status=429, ending=ending)
    assert reading.outcome == "rate_limited"
    assert reading.notes == (f"{ending.value} before the end of the error's body",)


def test_the_parsed_body_of_an_error_is_kept() -> None:
    assert read_json([error()], status=429).raw == error()
    assert read(b"<html>", status=429).raw is None
    assert read_json(error(), status=429, keep_raw=False).raw is None


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (text_chunk("a"), {}),
        (b"", {}),
        (b": ping\n\n", {}),
        (b'{"choices": [{"mess', DOCUMENT),
        (b"", DOCUMENT),
        (b"data: {broken\n\n", {}),
    ],
)
def test_an_ending_decides_over_a_reply_that_was_not_complete(
    ending: Ending, body: bytes, headers: dict[str, str]
) -> None:
    reading = read(body, headers=headers, ending=ending, error="peer said: api_key=abc123")
    assert reading.outcome == ending.value
    assert reading.outcome in CALL_OUTCOMES
    assert reading.detail == "peer said: api_key=***"


def test_an_ending_without_words_is_told_with_what_had_arrived() -> None:
    assert read(text_chunk("a"), ending=Ending.IDLE_TIMEOUT).detail == "idle_timeout after 1 content chunk"
    assert read(b"", ending=Ending.CANCELLED).detail == "cancelled after 0 content chunks"


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("end", [FINISH, DONE, FINISH + DONE, FINISH + b"data: {bro"])
def test_what_ends_a_complete_reply_is_only_a_note(ending: Ending, end: bytes) -> None:
    reading = read(text_chunk("a") + end, ending=ending, error="gone")
    assert (reading.outcome, reading.detail, reading.text) == ("ok", "", "a")
    assert f"{ending.value} after the reply was complete" in reading.notes


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_document_that_was_whole_before_the_connection_broke_is_a_reply(ending: Ending) -> None:
    reading = read_json(completion({"content": "a"}), ending=ending)
    assert (reading.outcome, reading.text) == ("ok", "a")
    assert reading.notes == (f"{ending.value} after the reply was complete",)


def test_a_reply_that_was_cut_at_its_length_stays_incomplete_when_the_connection_breaks() -> None:
    assert read(text_chunk("a") + chunk(finish="length"), ending=Ending.DISCONNECTED).outcome == "incomplete"


@pytest.mark.parametrize(
    ("body", "outcome", "detail"),
    [
        (text_chunk("a") + FINISH, "ok", ""),
        (text_chunk("a") + DONE, "ok", ""),
        (text_chunk("a") + FINISH + b"data: [DONE]", "ok", ""),
        (text_chunk("a") + FINISH + b"data:  [DONE] \n\n", "ok", ""),
        (text_chunk("a") + chunk(finish="tool_calls") + DONE, "ok", ""),
        (text_chunk("a") + chunk(finish="length") + DONE, "incomplete", "finish reason length"),
        (chunk({"reasoning": "a"}) + chunk(finish="length") + DONE, "incomplete", "finish reason length"),
        (text_chunk("a") + chunk(finish="content_filter") + DONE, "content_filter", "finish reason content_filter"),
        (FINISH + DONE, "empty", "no content (finish reason stop)"),
        (DONE, "empty", "no content (finish reason not given)"),
        (chunk({"reasoning": "a"}) + FINISH, "empty", "reasoning and nothing else (finish reason stop)"),
        (chunk(finish="refusal"), "refusal", "finish reason refusal"),
        (
            text_chunk("a"),
            "truncated",
            "the stream ended after 1 content chunk with neither a finish reason nor [DONE]",
        ),
        (
            b": ping\n\n",
            "truncated",
            "the stream ended after 0 content chunks with neither a finish reason nor [DONE]",
        ),
        (b"", "empty", "a 2xx status with an empty body"),
        (b"data: nonsense\n\n", "malformed", "no event of the stream is a JSON object: nonsense"),
        (b"data: [1]\n\ndata: 2\n\n", "malformed", "no event of the stream is a JSON object: [1]"),
    ],
)
def test_a_stream_comes_to_its_outcome(body: bytes, outcome: str, detail: str) -> None:
    reading = read(body)
    assert (reading.outcome, reading.detail) == (outcome, detail)


@pytest.mark.parametrize(
    ("body", "headers", "outcome", "detail"),
    [
        (b"", DOCUMENT, "empty", "a 2xx status with an empty body"),
        (b" \n ", DOCUMENT, "empty", "a 2xx status with an empty body"),
        (b"", {}, "empty", "a 2xx status with an empty body"),
        (b'{"choices": [', DOCUMENT, "malformed", 'not JSON (application/json): {"choices": ['),
        (b"<html>", {"content-type": "text/html"}, "malformed", "not JSON (text/html): <html>"),
        (b"<html>", {}, "malformed", "not JSON (no content type): <html>"),
        (b'{"x": 1}', DOCUMENT, "malformed", 'no reply of the chat wire: {"x": 1}'),
        (b"[" * 100_000, DOCUMENT, "malformed", "not JSON (application/json): " + "[" * 199 + "…"),
    ],
)
def test_a_document_that_is_no_reply_shows_its_front(
    body: bytes, headers: dict[str, str], outcome: str, detail: str
) -> None:
    reading = read(body, headers=headers)
    assert (reading.outcome, reading.detail) == (outcome, detail)


@pytest.mark.parametrize(
    ("body", "notes"),
    [
        (text_chunk("a") + FINISH + DONE, ()),
        (text_chunk("a") + FINISH, ("a finish reason without [DONE]",)),
        (text_chunk("a") + FINISH + b"data: [DONE]", ("the last event was not terminated",)),
        (text_chunk("a") + b'data: {"id', ("the last event was cut",)),
        (text_chunk("a") + b"data: {x\n\n" + FINISH + DONE, ("1 event without a JSON object: {x",)),
        (b"data: 1\n\ndata: {x\n\n" + text_chunk("a") + DONE, ("2 events without a JSON object: 1",)),
        (text_chunk("a") + b"data: " + b"[" * 50_000 + b"\n\n" + DONE, (f"1 event without a JSON object: {'[' * 80}",)),
        (event({"choices": []}) + b"data: sk-abcdef123456\n\n" + DONE, ("1 event without a JSON object: ***",)),
    ],
)
def test_oddities_that_change_no_outcome_are_noted(body: bytes, notes: tuple[str, ...]) -> None:
    assert read(body).notes == notes


def test_the_tail_of_a_stream_is_read() -> None:
    reading = read(text_chunk("a") + text_chunk("b").rstrip())
    assert (reading.text, reading.outcome) == ("ab", "truncated")
