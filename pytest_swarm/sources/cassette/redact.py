"""What is taken out of an exchange before it is written: everything that identifies or authorises who recorded it.

All of it is idempotent, and a request is redacted in the same way before it is looked up in a cassette: a replay needs
neither the key nor the user of the recording.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote_plus, urlsplit, urlunsplit

from pytest_swarm.exchange import Request
from pytest_swarm.redaction import redact_text
from pytest_swarm.sources.cassette.interaction import Interaction

__all__ = ["Redactor"]

REQUEST_HEADERS: Final = re.compile(
    r"accept|content-type|user-agent|anthropic-(?:version|beta)|openai-beta|x-stainless-retry-count"
)
"""Request headers that are kept. All others may hold a key, a cookie, or a name."""

RESPONSE_HEADERS: Final = re.compile(
    r"""
      content-(?:type|length|encoding) | date | retry-after(?:-ms)? | x-should-retry
    | (?:x|anthropic)-ratelimit-[a-z0-9-]+ | x-swarm-simulated | x-cache
    | x-request-id | request-id | x-litellm-call-id | x-litellm-response-cost | apim-request-id | cf-ray
    | openai-(?:model|processing-ms|version)
    """,
    re.VERBOSE,
)
"""Response headers that are kept: what a reading, a retry or a person makes use of."""

SECRET_FIELDS: Final = frozenset(
    (
        "access_key",
        "access_token",
        "api_key",
        "apikey",
        "auth_token",
        "authorization",
        "bearer_token",
        "client_secret",
        "id_token",
        "passwd",
        "password",
        "private_key",
        "refresh_token",
        "secret",
        "secret_access_key",
        "secret_key",
        "session_token",
    )
)
"""JSON fields that are removed wherever they stand, if their value is a text. In lower case, ``-`` as ``_``."""

IDENTITY_FIELDS: Final = frozenset(
    (
        "user",
        "user_id",
        "end_user",
        "safety_identifier",
        "organization",
        "organization_id",
        "organisation",
        "organisation_id",
        "org_id",
        "project",
        "project_id",
    )
)
"""JSON fields that are removed where the wires have them: at the top and in `ENVELOPES`. Deeper, in what a model is
asked or answers, they are words like others, and the arguments of tools."""

ENVELOPES: Final = frozenset(("metadata", "response", "message", "error", "litellm_metadata"))

_QUERY: Final = re.compile(
    r"(?:api|subscription|access)[-_]?key|key|(?:access|auth|id)?[-_]?token|sig|signature|secret|password|code"
    r"|x-(?:amz|goog)-(?:signature|credential|security-token|algorithm)|user",
    re.IGNORECASE,
)
_USERINFO: Final = re.compile(rb"(?<=://)[^\s/@\"'<>\\?#]+(?=@)")
_FIELD: Final = re.compile(rb'"([^"\\]+)"\s*:\s*')
_IDS: Final = re.compile(rb"(?<![A-Za-z0-9])(?:org-|proj_)[A-Za-z0-9]{8,}(?![A-Za-z0-9])")
"""Ids of organisations and projects, which error messages name."""

_DECODER: Final = json.JSONDecoder()
_Path = tuple[str, ...]


class Redactor:
    """Takes secrets out of requests, responses and whole interactions; `fields` are names of further JSON fields."""

    def __init__(self, fields: Iterable[str] = ()) -> None:
        self._own = frozenset(_plain(name.replace(" ", "")) for name in fields)
        self._names = self._own | SECRET_FIELDS | IDENTITY_FIELDS
        self._quoted = frozenset(name.encode() for name in self._names)

    def interaction(self, it: Interaction) -> Interaction:
        """All of it. The response's body keeps its length, so that the sizes of its pieces stay true."""
        return replace(
            it,
            request=self.request(it.request),
            headers=_kept(it.headers, RESPONSE_HEADERS),
            body=self.response_body(it.body),
            error=redact_text(it.error),
        )

    def request(self, request: Request) -> Request:
        """Address, headers and body of a request."""
        body = self.request_body(request.body)
        return Request(request.method, self.url(request.url), _kept(request.headers, REQUEST_HEADERS), body)

    def url(self, url: str) -> str:
        """An address without user and password, and without parameters that hold a key."""
        parts = urlsplit(url)
        netloc = parts.netloc.rpartition("@")[2]
        asked = [one for one in parts.query.split("&") if one and not self._is_secret_parameter(one)]
        return urlunsplit((parts.scheme, netloc, parts.path, "&".join(asked), ""))

    def _is_secret_parameter(self, text: str) -> bool:
        name = unquote_plus(text.partition("=")[0])
        return _QUERY.fullmatch(name) is not None or _plain(name) in self._own

    def request_body(self, body: bytes) -> bytes:
        """The body without the fields; byte for byte as it was where it has none of them."""
        if self._has_any(body):
            parsed = _parsed(body)
            if parsed is not None and self._remove(parsed, ()):
                body = json.dumps(parsed, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        return _masked_patterns(body)

    def _has_any(self, text: bytes) -> bool:
        """Whether a field of one of the names may be there: a look without parsing, made while tasks wait."""
        low = text.lower().replace(b"-", b"_")
        present = self._quoted.intersection(low.split(b'"'))
        if not present:
            return False
        bare = low.translate(None, b" \t\r\n")
        return any(b'"%b":' % name in bare for name in present)

    def _remove(self, value: Any, path: _Path) -> bool:
        """Take the fields out of a parsed body; whether there were any."""
        if isinstance(value, list):
            # Not `any`, which would stop at the first.
            return sum([self._remove(one, path) for one in value]) > 0
        if not isinstance(value, dict):
            return False
        gone = [name for name, inner in value.items() if self._is_sensitive(name, inner, path)]
        for name in gone:
            del value[name]
        return sum([self._remove(inner, (*path, name)) for name, inner in value.items()]) > 0 or bool(gone)

    def _is_sensitive(self, name: str, value: Any, path: _Path) -> bool:
        plain = _plain(name)
        if plain in self._own:
            return True
        if not isinstance(value, str | int) or isinstance(value, bool):
            return False
        if plain in SECRET_FIELDS:
            return isinstance(value, str)
        return plain in IDENTITY_FIELDS and ENVELOPES.issuperset(path)

    def response_body(self, body: bytes) -> bytes:
        """The body with the fields' values masked, its length unchanged; JSON, or events with JSON as their data."""
        if self._has_any(body):
            body = b"".join(self._masked_document(part) for part in _documents(body))
        return _masked_patterns(body)

    def _masked_document(self, text: bytes) -> bytes:
        """One JSON document with the values of its sensitive fields masked; anything else as it is."""
        parsed = _parsed(text) if self._has_any(text) else None
        if parsed is None:
            return text
        found = [(_plain(name), json.dumps(value, sort_keys=True)) for name, value in self._sensitive(parsed, ())]
        if not found:
            return text
        return self._masked_values(text, lambda name, value: (name, json.dumps(value, sort_keys=True)) in found)

    def _sensitive(self, value: Any, path: _Path) -> Iterator[tuple[str, Any]]:
        if isinstance(value, list):
            for one in value:
                yield from self._sensitive(one, path)
        elif isinstance(value, dict):
            for name, inner in value.items():
                if self._is_sensitive(name, inner, path):
                    yield name, inner
                else:
                    yield from self._sensitive(inner, (*path, name))

    def _masked_values(self, text: bytes, is_meant: Callable[[str, Any], bool]) -> bytes:
        """`text` with the values of the fields that are meant masked, whatever their kind."""
        done: list[bytes] = []
        at = 0
        while (found := _FIELD.search(text, at)) is not None:
            done.append(text[at : found.end()])
            at = found.end()
            name = _plain(found[1].decode())
            if name not in self._names:
                continue
            rest = text[at:].decode()
            value, end = _DECODER.raw_decode(rest)
            if is_meant(name, value):
                size = len(rest[:end].encode())
                done.append(_mask(size, keep=value is None))
                at += size
        return b"".join((*done, text[at:]))


def _plain(name: str) -> str:
    """Names that differ in case, or in `-` and `_`, are one."""
    return name.lower().replace("-", "_")


def _mask(size: int, *, keep: bool) -> bytes:
    """A JSON value of `size` bytes that tells nothing."""
    if keep:
        return b"null"
    return b"0" * size if size == 1 else b'"' + b"*" * (size - 2) + b'"'


def _documents(body: bytes) -> list[bytes]:
    """What JSON may stand in, in pieces that add up to the body: all of it, or the data of each event."""
    if body.lstrip()[:1] in (b"{", b"["):
        return [body]
    pieces: list[bytes] = []
    for line in body.splitlines(keepends=True):
        name, colon, data = line.partition(b":")
        pieces += [name + colon, data] if name == b"data" else [line]
    return pieces


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _masked_patterns(text: bytes) -> bytes:
    """User and password in addresses, and ids, masked at their length."""
    if b"://" in text:
        text = _USERINFO.sub(_stars, text)
    if b"org-" in text or b"proj_" in text:
        text = _IDS.sub(_stars, text)
    return text


def _stars(found: re.Match[bytes]) -> bytes:
    return b"*" * len(found[0])


def _kept(headers: Mapping[str, str], allowed: re.Pattern[str]) -> dict[str, str]:
    """The allowed headers, without what identifies somebody in their values."""
    return {
        name: _masked_patterns(value.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")
        for name, value in headers.items()
        if allowed.fullmatch(name)
    }
