"""Addresses and keys: which key goes where, and that none is ever shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.credentials import Secret, find_key, parse_base_url, parse_header, parse_host, parse_key_variable
from pytest_swarm.errors import SettingError

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"
GATEWAY = "https://gateway.example.com/v1"
VENDORS = {"OPENAI_API_KEY": "sk-open", "ANTHROPIC_API_KEY": "sk-ant"}


def test_a_secret_shows_itself_in_no_text() -> None:
    secret = Secret("hush")
    assert "hush" not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == "hush"


def test_secrets_compare_by_what_they_hold() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://gateway.example.com/v1/", "https://gateway.example.com/v1"),
        (" http://127.0.0.1:8000 ", "http://127.0.0.1:8000"),
        ("HTTPS://gateway.example.com", "HTTPS://gateway.example.com"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_base_urls(text: str, url: str) -> None:
    assert parse_base_url(text, "x") == url


@pytest.mark.parametrize("text", ["http://[::1", "http://host:port", "http://host:0", "http:///v1", "ftp://host"])
def test_a_base_url_that_nothing_can_be_sent_to(text: str) -> None:
    with pytest.raises(SettingError) as error:
        parse_base_url(text, "x")
    assert len(str(error.value).splitlines()) == 1


@given(
    secret=st.text(alphabet="abcdefgh0123456789", min_size=8, max_size=20),
    form=st.sampled_from(
        [
            "https://user:{}@host/v1",
            "user:{}@host",
            "https://{}@host",
            "https://host/v1?key={}",
            "https://host/v1#{}",
            "host?token={}",
        ]
    ),
)
def test_no_error_about_an_address_shows_a_secret_in_it(secret: str, form: str) -> None:
    for parse in (parse_base_url, parse_host):
        with pytest.raises(SettingError) as error:
            parse(form.format(secret), "--swarm-base-url")
        assert secret not in str(error.value)


@pytest.mark.parametrize("text", ["api.example.com", "localhost", "127.0.0.1", "::1", "my_host"])
def test_hosts(text: str) -> None:
    assert parse_host(text.upper(), "x") == text


@pytest.mark.parametrize("value", ["", "a b", "-host", None, "host."])
def test_what_is_no_host(value: object) -> None:
    with pytest.raises(SettingError, match="is not a host"):
        parse_host(value, "x")


def test_a_header_keeps_the_spelling_of_its_name() -> None:
    assert parse_header("X-Team:  search : two ", "x") == ("X-Team", Secret("search : two"))


@pytest.mark.parametrize("text", ["no colon hush", ": hush", "two words: hush", "X: hush\r\nY: z", None])
def test_no_error_about_a_header_shows_its_value(text: object) -> None:
    with pytest.raises(SettingError) as error:
        parse_header(text, "x")
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("name", ["SWARM_API_KEY", "OPENAI_API_KEY_2", "my_openai_key_v2", "hf_token", "_K"])
def test_names_of_variables(name: str) -> None:
    assert parse_key_variable(f" {name} ", "x") == name


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abcdefgh12345678",
        "sk_live_abcdefgh12345678",
        "gsk_abcdefgh1234567890ABCD",
        "AIzaSyD12345678",
        "d41d8cd98f00b204e9800998ecf8427e",
        "Bearer abcdefgh",
        "",
    ],
)
def test_a_key_in_the_place_of_its_name_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(SettingError, match="give the NAME of the variable") as error:
        parse_key_variable(key, "x")
    assert not key or key not in str(error.value)


def test_the_named_variable_beats_all_others() -> None:
    environ = {"MINE": " hush\n", "SWARM_API_KEY": "other", **VENDORS}
    assert find_key(environ, "MINE", "x", OPENAI) == (Secret("hush"), "MINE")


def test_a_named_variable_must_be_set() -> None:
    with pytest.raises(SettingError) as error:
        find_key({"OPENAI_API_KEY": "hush", "HOME": "/"}, "OPENAPI_API_KEY", "--swarm-api-key-env", GATEWAY)
    assert str(error.value) == (
        "--swarm-api-key-env: the environment variable OPENAPI_API_KEY is not set; export it, or name another; "
        "did you mean 'OPENAI_API_KEY'?"
    )


def test_a_named_variable_must_hold_something() -> None:
    with pytest.raises(SettingError, match="the environment variable MINE is empty"):
        find_key({"MINE": " "}, "MINE", "x", GATEWAY)


def test_the_general_key_goes_to_any_gateway() -> None:
    for url in (GATEWAY, OPENAI, None):
        assert find_key({"SWARM_API_KEY": "hush", **VENDORS}, None, "x", url) == (Secret("hush"), "SWARM_API_KEY")


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        (OPENAI, "OPENAI_API_KEY"),
        ("https://API.OpenAI.com:443/v1", "OPENAI_API_KEY"),
        (ANTHROPIC, "ANTHROPIC_API_KEY"),
        (GATEWAY, None),
        ("https://api.openai.com.example.com/v1", None),
        ("https://example.com/api.openai.com", None),
        (None, None),
    ],
)
def test_a_vendors_key_goes_to_its_own_host_only(url: str | None, variable: str | None) -> None:
    key, found = find_key(VENDORS, None, "x", url)
    assert found == variable
    assert key == (None if variable is None else Secret(VENDORS[variable]))


def test_an_empty_general_key_counts_as_none() -> None:
    assert find_key({"SWARM_API_KEY": " "}, None, "x", GATEWAY) == (None, None)


@pytest.mark.parametrize("key", ["two words", "hüsh", "hu\x00sh"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(SettingError, match="environment variable SWARM_API_KEY: the key \\(not shown\\)") as error:
        find_key({"SWARM_API_KEY": key}, None, "x", GATEWAY)
    assert key not in str(error.value)
