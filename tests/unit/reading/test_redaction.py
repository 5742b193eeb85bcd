"""What looks like a secret is taken out of texts, and the rest stays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_swarm.redaction import redact_text

HEX = "0123456789abcdef0123456789abcdef"
MIXED = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"

SECRETS = {
    "sk-abcDEF123456": "key sk-abcDEF123456 is wrong",
    "sk-proj-a_b-C1d2E3": "Incorrect API key provided: sk-proj-a_b-C1d2E3.",
    "sk-abcd********wxyz": "Incorrect API key provided: sk-abcd********wxyz. You can find your key",
    "sk-ant-api03-Zz_9-x": "'sk-ant-api03-Zz_9-x'",
    "gsk_abcdefGHIJKL0123": "gsk_abcdefGHIJKL0123",
    "hf_abcdefghijklmnop": "token hf_abcdefghijklmnop",
    "xai-1234567890ab": "xai-1234567890ab",
    "AIzaSyA-1234567890_bcdefg": "?key=x AIzaSyA-1234567890_bcdefg",
    "AKIAIOSFODNN7EXAMPLE": "id AKIAIOSFODNN7EXAMPLE",
    "ghp_16C7e42F292c6912E7710c": "ghp_16C7e42F292c6912E7710c",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln": "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln end",
    "abc.def-123": "Authorization: Bearer abc.def-123",
    "dXNlcjpwYXNz": "authorization: Basic dXNlcjpwYXNz==",
    "hunter2": "http://user:hunter2@host/v1",
    "user:": "postgres://user:p%40ss@db:5432/x",
    "s3cret!": "password=s3cret!",
    "short": 'api_key="short"',
    "other": "{'x-api-key': 'other', 'a': 1}",
    "third": "OPENAI_API_KEY=third",
    "fourth": "client_secret: fourth",
    "tok123": "https://host/path?token=tok123&x=1",
    HEX: f"digest {HEX}",
    MIXED: f"({MIXED})",
    "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXo+/w==": "key YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXo+/w== end",
}

HARMLESS = [
    "",
    "HTTP 429 rate_limit_exceeded: try again in 20s",
    "max_tokens: 100, total_tokens=300, finish_reason: stop",
    "Unexpected token: '<' at line 1",
    "test_summarise_with_100_agents_and_50_in_flight_never_loses_a_call",
    "/home/someone/projects/quite/a/long/path/with/2/numbers/test_module.py:12",
    "request 123e4567-e89b-12d3-a456-426614174000 failed",
    "request_id req_011CSHoEeqs5C35K2UUqR7Fy",
    "https://host.example.com:8000/v1/chat/completions",
    "someone@example.com wrote",
    "1234567890123456789012345678901234567890",
    "a" * 64,
    "The bearer of bad news; basic training; task-based",
    "key: value, keyboard=on, monkey=1, tokens=5",
    "risk-averse ask-me-anything desk-lamp-number",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_masked(secret: str) -> None:
    text = SECRETS[secret]
    assert secret in text
    redacted = redact_text(text)
    assert secret not in redacted
    assert "***" in redacted


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact_text(text) == text


def test_the_words_around_a_secret_stay() -> None:
    text = "POST http://me:pw@host/v1 api_key=abc, Authorization: Bearer abc123xyz; gave 401"
    assert redact_text(text) == "POST http://***@host/v1 api_key=***, Authorization: Bearer ***; gave 401"


def test_keys_without_a_space_between_them_are_masked() -> None:
    assert (
        redact_text("id AKIAIOSFODNN7EXAMPLEgsk_abcdefGHIJKL0123,sk-abcdef12;hf_abcdefghijklmnop") == "id ***,***;***"
    )


PARTS = st.sampled_from([*SECRETS.values(), *HARMLESS, "***", "=", ":", " ", "\n", '"', "sk-", "Bearer ", "://", "@"])


@settings(max_examples=300)
@given(st.lists(st.one_of(PARTS, st.text(max_size=8)), max_size=6).map(" ".join))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


@given(st.sampled_from(sorted(SECRETS)), st.text("abc ,;", max_size=5))
def test_a_secret_is_masked_in_the_middle_of_a_text(secret: str, around: str) -> None:
    assert secret not in redact_text(f"{around} {SECRETS[secret]} {around}")
