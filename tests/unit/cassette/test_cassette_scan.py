"""No secret that is still in an interaction is missed, however it is wrapped; and no word is taken for one."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_swarm.sources.cassette.interaction import Interaction, to_vcr
from pytest_swarm.sources.cassette.redact import Redactor
from pytest_swarm.sources.cassette.scan import Scanner, live_secrets
from pytest_swarm.sources.cassette.text import yaml_item
from tests.unit.cassette.cassette_samples import EVERY, STREAMED, events, request

KEY = "sk-proj-Abcdef0123456789Abcdef"
KEYS = {
    "openai": KEY,
    "openai, older": "sk-abcdEFGH0123456789abcdEFGH0123456789",
    "hexadecimal": "sk-0123456789abcdef0123456789abcdef",
    "anthropic": "sk-ant-api03-Ab0-cd_EfGh1234567890IjKlMnOp",
    "groq": "gsk_Abcdefgh0123456789",
    "hugging face": "hf_AbcdefghijklmnopQrst012345",
    "github": "github_pat_11ABCDEFG0123456789abc",
    "google": "AIzaSyA-1234567890abcdefghijklmnopqrst",
    "amazon": "AKIAIOSFODNN7EXAMPLE",
    "oauth": "ya29.a0AfH6SMBx1234567890abcdef",
    "web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.SflKxwRJSMeKKF2QT4",
    "bearer": "Bearer abcdefghij0123456789",
    "private key": "-----BEGIN RSA PRIVATE KEY-----",
}
WORDS = (
    "sk-learn-based-regression-2",
    "the risk-free rate of task-42",
    "chatcmpl-9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d",
    "550e8400-e29b-41d4-a716-446655440000",
    "Bearer of good news and of nothing else at all",
    "A basic understanding of authentication",
    "req_0123456789abcdef0123456789abcdef",
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "https://example.com/a/very/long/path/without/any/secret/in/it",
    "eyJ0aXRsZSI6ICJub3RoaW5nIHNlY3JldCJ9",
)


def asking(text: str) -> Interaction:
    return replace(STREAMED, request=request({"model": "m", "messages": [{"role": "user", "content": text}]}))


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_keys_are_known_by_their_shape(key: str) -> None:
    found = Scanner({}).scan(asking(f"my key is {key}, keep it"))
    assert str(found) == "request body, messages[0].content holds what looks like a key"


@pytest.mark.parametrize("text", WORDS)
def test_what_is_no_key_is_left_alone(text: str) -> None:
    assert Scanner({}).scan(asking(f"{text} {text}")) is None


@pytest.mark.parametrize("interaction", EVERY.values(), ids=EVERY)
def test_clean_interactions_are_clean(interaction: Interaction) -> None:
    assert Scanner(live_secrets({"A_TOKEN": "abcdefgh12"}, ())).scan(interaction) is None


def test_the_place_is_named_and_the_secret_is_not() -> None:
    scanner = Scanner(live_secrets({"OPENAI_API_KEY": "correcthorse99"}, [("the header x-team-key", "battery staple")]))
    places = {
        "request address": replace(STREAMED, request=request(url="http://h/correcthorse99")),
        "request header accept": replace(STREAMED, request=request(headers={"accept": "correcthorse99"})),
        "response header x-request-id": replace(STREAMED, headers={"x-request-id": "correcthorse99"}),
        "error text": replace(STREAMED, error="correcthorse99"),
        "request body, messages[0].content": asking("correcthorse99"),
        "response body, choices[0].delta.content": replace(STREAMED, body=events("correct", "horse", "99")),
        "response body": replace(STREAMED, body=b"correcthorse99"),
    }
    for place, interaction in places.items():
        assert str(scanner.scan(interaction)) == f"{place} holds the value of the environment variable OPENAI_API_KEY"
    assert str(scanner.scan(asking("my battery staple"))).endswith("holds the value given for the header x-team-key")


def test_which_values_are_secrets() -> None:
    environ = {
        "A_API_KEY": "abcdefgh1",
        "API_KEY": "abcdefgh2",
        "B_TOKEN": "abcdefgh3",
        "C_SECRET": "abcdefgh4",
        "D_PASSWORD": "abcdefgh5",
        "AWS_SECRET_ACCESS_KEY": "abcdefgh6",
        "SHORT_TOKEN": "test",
        "TOKENIZERS": "abcdefgh7",
        "HOME": "/home/somebody",
    }
    given_values = [("x-title", "My research team"), ("x-key", "wordsonly"), ("authorization", "Bearer abcdefgh8")]
    found = live_secrets(environ, given_values)
    assert sorted(found) == [
        "Bearer abcdefgh8",
        *(f"abcdefgh{number}" for number in (1, 2, 3, 4, 5, 6, 8)),
        "wordsonly",
    ]


def in_base64(secret: str, before: str = "") -> str:
    return base64.b64encode(f"{before}{secret} and more".encode()).decode()


WRAPPINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: f"x {secret} y",
    "base64": in_base64,
    "base64, one later": lambda secret: in_base64(secret, "."),
    "base64, two later": lambda secret: in_base64(secret, ".."),
    "base64 behind a letter": lambda secret: f"x{in_base64(secret)}",
    "base64 for URLs": lambda secret: base64.urlsafe_b64encode(f"???>>>{secret}".encode()).decode().rstrip("="),
    "base64 on lines": lambda secret: base64.encodebytes(f"{'text ' * 12}{secret}{' text' * 30}".encode()).decode(),
    "base64 twice": lambda secret: in_base64(in_base64(secret)),
    "gzip in base64": lambda secret: base64.b64encode(gzip.compress(f"x {secret} y".encode())).decode(),
    "zlib in base64": lambda secret: base64.b64encode(zlib.compress(f"x {secret} y".encode())).decode(),
    "base64 in gzip in base64": lambda secret: base64.b64encode(gzip.compress(in_base64(secret).encode())).decode(),
}

PLACES: dict[str, Callable[[str], Interaction]] = {
    "prompt": asking,
    "nested field": lambda text: replace(STREAMED, request=request({"tools": [{"a": {"b": [1, text]}}]})),
    "name of a field": lambda text: replace(STREAMED, request=request({"metadata": {text: 1}})),
    "escaped": lambda text: replace(
        STREAMED, request=replace(request(), body=b'{"a": "%b"}' % "".join(f"\\u{ord(c):04x}" for c in text).encode())
    ),
    "address": lambda text: replace(STREAMED, request=request(url=f"http://h/{text}")),
    "request header": lambda text: replace(STREAMED, request=request(headers={"user-agent": text, "x-api-key": text})),
    "response header": lambda text: replace(STREAMED, headers={"x-request-id": text, "set-cookie": text}),
    "error": lambda text: replace(STREAMED, error=text),
    "reply": lambda text: replace(STREAMED, body=json.dumps({"choices": [{"message": {"content": text}}]}).encode()),
    "text reply": lambda text: replace(STREAMED, body=text.encode()),
    "stream, letter by letter": lambda text: replace(STREAMED, body=events(*text)),
    "stream, in halves": lambda text: replace(STREAMED, body=events(text[: len(text) // 2], text[len(text) // 2 :])),
    "cut stream": lambda text: replace(STREAMED, body=events("a", text)[:-14] + b'data: {"cut'),
    "packed body": lambda text: replace(STREAMED, body=gzip.compress(text.encode())),
    "packed request": lambda text: replace(STREAMED, request=replace(request(), body=gzip.compress(text.encode()))),
}

SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40)
SHAPES = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["sk-", "sk-proj-", "gsk_", "hf_", "ghp_"]),
        st.text(st.sampled_from("abcXYZ"), min_size=8, max_size=12),
        st.text(st.sampled_from("0123456789"), min_size=8, max_size=12),
    ),
)


def texts_of(it: Interaction) -> str:
    """Every text that a file of it would hold."""
    parts = (it.request.url, *it.request.headers.values(), *it.headers.values(), it.error)
    return "\n".join((*parts, it.request.body.decode("latin-1"), it.body.decode("latin-1")))


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("place", ["prompt", "reply", "text reply", "stream, in halves", "packed body"])
def test_a_key_is_found_however_it_is_wrapped(place: str, wrapping: str) -> None:
    found = Scanner({}).scan(PLACES[place](WRAPPINGS[wrapping](KEY)))
    assert found is not None, (place, wrapping)
    assert found.kind == "what looks like a key"


@given(SECRETS, st.sampled_from(sorted(PLACES)), st.sampled_from(sorted(WRAPPINGS)))
def test_a_secret_of_this_process_survives_nowhere(secret: str, place: str, wrapping: str) -> None:
    assume(not any(secret in yaml_item(to_vcr(one)) for one in EVERY.values()))
    wrapped = WRAPPINGS[wrapping](secret)
    clean = Redactor().interaction(PLACES[place](wrapped))
    assert Scanner(live_secrets({"MY_SECRET": secret}, ())).scan(clean) or wrapped not in texts_of(clean)


@given(SHAPES, st.sampled_from(sorted(PLACES)), st.sampled_from(sorted(WRAPPINGS)))
def test_a_key_of_somebody_else_survives_nowhere(key: str, place: str, wrapping: str) -> None:
    wrapped = WRAPPINGS[wrapping](key)
    clean = Redactor().interaction(PLACES[place](wrapped))
    assert Scanner({}).scan(clean) or wrapped not in texts_of(clean)


def test_values_that_json_escapes_are_found() -> None:
    secret = 'a"b\\c/d<e>f0'
    scanner = Scanner(live_secrets({"MY_SECRET": secret}, ()))
    assert scanner.scan(asking(secret)) is not None
    slashes = json.dumps({"a": secret}).replace("/", "\\/").encode()
    assert scanner.scan(replace(STREAMED, body=slashes)) is not None
