"""What may carry a secret: addresses, headers, the API key. No error of this module shows one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.values import shown

__all__ = [
    "KEY_VARIABLE",
    "VENDOR_KEYS",
    "Secret",
    "find_key",
    "parse_base_url",
    "parse_field",
    "parse_header",
    "parse_host",
    "parse_key_variable",
]

KEY_VARIABLE: Final = "SWARM_API_KEY"
"""The environment variable that holds the key for any gateway."""

VENDOR_KEYS: Final[Mapping[str, str]] = {
    "api.openai.com": "OPENAI_API_KEY",
    "api.anthropic.com": "ANTHROPIC_API_KEY",
}
"""Variables of vendors by the one host to which their key may go."""

_KEY_SHAPE: Final = re.compile(
    r"(?:sk|gsk|xai|hf|r8|ghp)_[0-9A-Za-z_]{16,}|AIza|AKIA|(?=.*[a-z])(?=.*[0-9])[0-9A-Za-z]{16,}$"
)
"""Keys that could pass for names: by a vendor's prefix, or long, without a break, with letters and digits mixed."""

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HOST: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|[0-9a-f.]*:[0-9a-f:.]*:[0-9a-f:.]*")
_LOOPBACK: Final = re.compile(r"(localhost|127\.|\[::1\]|0\.0\.0\.0)")


class Secret:
    """A text that does not show itself in a repr, a log line or a traceback."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one place that sends it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def parse_base_url(value: object, what: str) -> str:
    """An http or https address with host and perhaps path, without its trailing slash."""
    if not isinstance(value, str) or not value.strip():
        raise SettingError(f"{what}: {shown(value)} is not a URL; write one such as 'https://gateway.example.com/v1'")
    text = value.strip()
    if "@" in text:
        raise SettingError(
            f"{what}: the URL holds a user name or password (not shown); leave it out and name a key's variable with "
            f"--swarm-api-key-env"
        )
    if "?" in text or "#" in text:
        raise SettingError(f"{what}: the URL has a query or fragment (not shown); end it at its path")
    if "://" not in text:
        scheme = "http" if _LOOPBACK.match(text) else "https"
        raise SettingError(
            f"{what}: {shown(text)} has no scheme; write http:// or https:// before it; "
            f"did you mean {f'{scheme}://{text}'!r}?"
        )
    problem = _problem(text)
    if problem:
        raise SettingError(f"{what}: {shown(text)} {problem}")
    return text.rstrip("/")


def _problem(url: str) -> str:
    """What is wrong with a URL that has a scheme; empty when nothing is."""
    if re.search(r"[\s\x00-\x1f\x7f\\]", url):
        return "holds a space, a backslash or a control character; write it without"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is not a URL: its host or port cannot be read; write one such as 'http://127.0.0.1:8000/v1'"
    if parts.scheme not in {"http", "https"}:
        hint = nearest(parts.scheme, ("http", "https"))
        return f"has the scheme {parts.scheme!r}; allowed are http, https{hint}"
    if not parts.hostname or port == 0:
        return "names no host and port that can be reached; write one such as 'http://127.0.0.1:8000/v1'"
    return ""


def parse_host(value: object, what: str) -> str:
    """A host name or address, without scheme, port or path; in lower case."""
    text = value.strip().lower() if isinstance(value, str) else ""
    if _HOST.fullmatch(text):
        return text
    if any(mark in text for mark in "@?#"):
        raise SettingError(f"{what}: the value (not shown) is more than a host; write its name alone")
    inner = re.fullmatch(r"(?:[a-z]+://)?([a-z0-9_.-]+)(?::[0-9]*)?(?:/.*)?", text)
    hint = f"; did you mean {inner[1]!r}?" if inner else ""
    raise SettingError(f"{what}: {shown(value)} is not a host; write its name alone, such as 'api.example.com'{hint}")


def parse_header(value: object, what: str) -> tuple[str, Secret]:
    """Name and value of ``"Name: value"``. The value may be a secret."""
    name, colon, content = value.partition(":") if isinstance(value, str) else ("", "", "")
    name, content = name.strip(), content.strip()
    if not colon or not _HEADER_NAME.fullmatch(name):
        raise SettingError(f"{what}: the text (not shown) is not a header; write it as 'Name: value'")
    if not content:
        raise SettingError(f"{what}: the header {shown(name)} has no value; write it as 'Name: value'")
    if not content.isascii() or not content.isprintable():
        raise SettingError(
            f"{what}: the value of {shown(name)} (not shown) holds a character that no header can carry; "
            f"allowed are printable ASCII characters"
        )
    return name, Secret(content)


def parse_field(value: object, what: str) -> str:
    """The name of a JSON field, without the path to it: it is meant wherever it stands."""
    text = value.strip() if isinstance(value, str) else ""
    if not text or re.search(r"""[\s"'\\$.\[\]]""", text):
        last = re.split(r"""[\s"'\\$.\[\]]+""", text.rstrip("]\"'.["))[-1]
        hint = f"; did you mean {last!r}?" if last else ""
        raise SettingError(
            f"{what}: {shown(value)} is no name of a JSON field; write the name alone, such as 'customer_id'{hint}"
        )
    return text


def parse_key_variable(value: object, what: str) -> str:
    """The name of the environment variable that holds the API key; never the key itself."""
    text = value.strip() if isinstance(value, str) else ""
    if not _VARIABLE.fullmatch(text) or _KEY_SHAPE.match(text):
        raise SettingError(
            f"{what}: the value (not shown, it may be a key) is no variable name; give the NAME of the variable that "
            f"holds the key, such as {KEY_VARIABLE}"
        )
    return text


def find_key(
    environ: Mapping[str, str], named: str | None, what: str, base_url: str | None
) -> tuple[Secret | None, str | None]:
    """The API key to send to `base_url` and the variable it came from; (None, None) when there is none.

    `named` is the variable that the user named at `what`: it must exist. Otherwise `SWARM_API_KEY` counts, otherwise
    the variable of the vendor whose host `base_url` names.
    """
    if named is not None:
        if not environ.get(named, "").strip():
            state = "is empty" if named in environ else "is not set"
            hint = nearest(named, (name for name in environ if "KEY" in name.upper() or "TOKEN" in name.upper()))
            raise SettingError(f"{what}: the environment variable {named} {state}; export it, or name another{hint}")
        return _key(environ, named), named
    host = urlsplit(base_url).hostname if base_url is not None else None
    for variable in (KEY_VARIABLE, VENDOR_KEYS.get(host or "")):
        if variable is not None and environ.get(variable, "").strip():
            return _key(environ, variable), variable
    return None, None


def _key(environ: Mapping[str, str], variable: str) -> Secret:
    text = environ[variable].strip()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise SettingError(
            f"environment variable {variable}: the key (not shown) holds a space or a character that no header can "
            f"carry; export it again"
        )
    return Secret(text)
