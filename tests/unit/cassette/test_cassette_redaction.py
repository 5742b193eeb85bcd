"""What identifies or authorises somebody is in no interaction, and everything else stays."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.sources.cassette.interaction import Interaction
from pytest_swarm.sources.cassette.redact import Redactor
from tests.unit.cassette.cassette_samples import STREAMED, URL, events, request

REDACTOR = Redactor(["ssn", "Customer-Id"])


def asked(body: Any) -> Any:
    return json.loads(REDACTOR.request_body(json.dumps(body).encode()))


def answered(body: Any) -> Any:
    text = json.dumps(body, ensure_ascii=False).encode()
    masked = REDACTOR.response_body(text)
    assert len(masked) == len(text)
    return json.loads(masked)


def test_only_allowed_request_headers_stay() -> None:
    headers = {
        "authorization": "Bearer x",
        "x-api-key": "x",
        "api-key": "x",
        "cookie": "a=b",
        "openai-organization": "org-1",
        "openai-project": "p",
        "x-title": "ours",
        "content-type": "application/json",
        "accept": "*/*",
        "anthropic-version": "2023-06-01",
        "x-stainless-retry-count": "1",
    }
    kept = REDACTOR.request(request(headers=headers)).headers
    assert sorted(kept) == ["accept", "anthropic-version", "content-type", "x-stainless-retry-count"]


def test_only_allowed_response_headers_stay() -> None:
    headers = {
        "set-cookie": "a=b",
        "openai-organization": "acme",
        "openai-project": "p",
        "anthropic-organization-id": "x",
        "location": "https://x/?token=1",
        "content-type": "text/event-stream",
        "retry-after": "1",
        "x-ratelimit-remaining-tokens": "9",
        "x-swarm-simulated": "gpt-6-agent;1",
        "x-request-id": "req_1",
    }
    kept = REDACTOR.interaction(replace(STREAMED, headers=headers)).headers
    assert list(kept) == [
        "content-type",
        "retry-after",
        "x-ratelimit-remaining-tokens",
        "x-swarm-simulated",
        "x-request-id",
    ]


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        (URL, URL),
        ("https://me:pass@h:8/v1/messages", "https://h:8/v1/messages"),
        ("https://h/v1?key=abc&api-version=2&api_key=x&Access-Token=y&user=me&ssn=1", "https://h/v1?api-version=2"),
        ("https://h/v1?sig=%20&X-Amz-Signature=1#part", "https://h/v1"),
        ("https://h/v1?a=1&b", "https://h/v1?a=1&b"),
    ],
)
def test_addresses_lose_users_and_keys(url: str, kept: str) -> None:
    assert REDACTOR.url(url) == kept


def test_identifying_fields_of_a_request_are_removed() -> None:
    body = {"model": "m", "user": "bob", "safety_identifier": "b", "metadata": {"user_id": "u", "topic": "t"}}
    assert asked(body) == {"model": "m", "metadata": {"topic": "t"}}


def test_secret_and_configured_fields_are_removed_at_any_depth() -> None:
    body = {
        "tools": [{"api_key": "x", "API-KEY": "y", "name": "n", "password": "p", "customer_id": {"a": 1}, "SSN": 5}]
    }
    assert asked(body) == {"tools": [{"name": "n"}]}


def test_words_that_only_look_like_fields_stay() -> None:
    body = {
        "messages": [{"role": "user", "content": "the user said: password"}],
        "tools": [{"parameters": {"properties": {"user": {"type": "string"}, "password": {"type": "string"}}}}],
        "input": {"user": "bob"},
        "logprobs": [{"token": "Hello"}],
    }
    assert asked(body) == answered(body) == body


def test_a_request_without_such_fields_stays_byte_for_byte() -> None:
    body = b'{ "model" : "m",\n "messages": [{"role": "user", "content": "\\u00e9"}] }'
    assert REDACTOR.request_body(body) == body
    assert REDACTOR.request_body(b"\xff user") == b"\xff user"


def test_ids_and_passwords_in_texts_are_masked() -> None:
    text = b'{"error": {"message": "Limit of org-Abc123456789 and proj_Abc123456789; see http://me:pw@h/x"}}'
    masked = REDACTOR.response_body(text)
    assert len(masked) == len(text)
    for secret in (b"org-Abc", b"proj_Abc", b"me:pw"):
        assert secret not in masked
    assert b"@h/x" in masked
    assert b"Abc123456789" not in REDACTOR.request_body(text)
    assert b"org-chart" in REDACTOR.response_body(b"an org-chart")


def test_fields_of_a_reply_are_masked_at_their_length() -> None:
    body = {"id": "r", "user": "bob", "metadata": {"user_id": "é"}, "ssn": [1, {"a": "}"}], "response": {"user": "bob"}}
    found = answered(body)
    assert (found["id"], found["user"], found["response"]) == ("r", "***", {"user": "***"})
    assert found["metadata"]["user_id"] == "**"
    assert set(found["ssn"]) == {"*"}


def test_an_empty_field_stays_empty() -> None:
    assert answered({"user": None, "ssn": None, "password": ""}) == {"user": None, "ssn": None, "password": ""}
    assert answered({"ssn": 5, "user": 12}) == {"ssn": 0, "user": ""}


def test_the_events_of_a_stream_are_masked_each() -> None:
    stream = events("a", "b", user="bob", ssn="123")
    masked = REDACTOR.response_body(stream)
    assert masked == events("a", "b", user="***", ssn="***")


def test_an_error_text_is_redacted() -> None:
    found = REDACTOR.interaction(replace(STREAMED, error="no host at https://me:pw@h/ with api_key=abcdef"))
    assert found.error == "no host at https://***@h/ with api_key=***"


NAMES = st.sampled_from(["user", "ssn", "Customer-Id", "api_key", "metadata", "a", "content", "token", "password"])
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | st.just("a://b@c")
)
BODIES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


@given(BODIES, BODIES)
def test_redacting_twice_changes_nothing_more(question: Any, answer: Any) -> None:
    written = json.dumps(answer, ensure_ascii=False).encode()
    for body in (written, b"data: " + written + b"\n\ndata: {}\n\n"):
        once = REDACTOR.interaction(replace(STREAMED, request=request(question), body=body))
        assert REDACTOR.interaction(once) == once
        assert len(once.body) == len(body)


@given(BODIES)
def test_a_redacted_reply_is_still_json(answer: Any) -> None:
    answered(answer)


def test_every_part_of_an_interaction_is_redacted() -> None:
    secret = "hunter2-hunter2"
    dirty = Interaction(
        request(
            {"password": secret, "user": secret},
            url=f"https://me:{secret}@h/v1/messages?key={secret}",
            headers={"x-api-key": secret},
        ),
        200,
        {"set-cookie": secret},
        json.dumps({"user": secret}).encode(),
        0,
        0,
        0,
        error=f"password={secret}",
    )
    assert secret not in repr(REDACTOR.interaction(dirty))
