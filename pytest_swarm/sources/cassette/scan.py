"""The last look at an exchange before it is written: is there a secret left in it, plain or encoded?

Two kinds of secrets are known: texts of the shape of keys (`KEYS`), and the values of this process's own variables and
headers, whatever their shape. Both are looked for in plain text, in base64 and in gzip, and in these within each other.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_swarm.sources.cassette.interaction import Interaction

__all__ = ["Finding", "Scanner", "live_secrets"]

SHORTEST: Final = 8
"""Characters below which the value of a variable is taken for a word: ``test`` is in many texts."""

VARIABLES: Final = re.compile(r"(?:.*_)?(?:API_KEY|ACCESS_KEY|TOKEN|SECRET|PASSWORD)")
"""Names of environment variables whose values are secrets."""

_SECRET_NAME: Final = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
_WORDS: Final = re.compile(r"[A-Za-z .,:/-]*")
"""What a header may say in words, a title for example; many a prompt says the same."""

_MIXED: Final = r"(?=[A-Za-z0-9_]*[0-9])(?=[0-9_]*[A-Za-z])"
KEYS: Final = re.compile(
    rf"""
    (?<![A-Za-z0-9]) (?:
        (?: sk|pk|rk|csk|xai|pplx|nvapi|glpat|xox[abprs] ) - (?: [A-Za-z0-9_]+- )*? {_MIXED} [A-Za-z0-9_]{{12,}}
      | (?: sk|pk|rk|gsk|hf|r8|fw|ghp|gho|ghs|github_pat ) _ (?: [a-z]+_ )? {_MIXED} [A-Za-z0-9]{{16,}}
      | AIza [A-Za-z0-9_-]{{30,}}
      | (?: AKIA|ASIA ) [A-Z0-9]{{16}} (?![A-Za-z0-9])
      | ya29\. [A-Za-z0-9_-]{{20,}}
      | eyJ [A-Za-z0-9_-]{{10,}} \. eyJ [A-Za-z0-9_-]{{10,}} \. [A-Za-z0-9_-]{{10,}}
      | (?: [Bb]earer|[Bb]asic ) [ ]+ (?=[A-Za-z._~+/-]*[0-9]) [A-Za-z0-9._~+/-]{{20,}}
    )
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----
    """,
    re.VERBOSE,
)
"""Keys by the prefixes of their vendors, tokens, private keys. Narrow: a name such as ``sk-learn-tree-2`` is none."""

_HINTS: Final = tuple(
    hint.encode()
    for hint in (
        *("sk-", "pk-", "rk-", "xai-", "pplx-", "nvapi-", "glpat-", "xox", "sk_", "pk_", "rk_", "hf_", "r8_", "fw_"),
        *("ghp_", "gho_", "ghs_", "_pat_", "AIza", "AKIA", "ASIA", "ya29.", "eyJ"),
    )
)
_PHRASES: Final = (b"earer ", b"asic ", b"PRIVATE KEY")
"""Without a hint or a phrase, `KEYS` need not be tried: looking for them is much faster."""

_ESCAPES: Final = (b"\\u00", b"\\/")
"""How JSON may write a character of a key in other words."""

_WORD: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-.="
_OTHERS: Final = bytes(byte if byte in _WORD else 32 for byte in range(256))
_GROWING: Final = frozenset(
    (b"content", b"reasoning_content", b"reasoning", b"text", b"delta", b"arguments", b"partial_json", b"thinking")
)
"""Fields by which the events of a stream add to a text."""
_RUN: Final = re.compile(rb"[A-Za-z0-9+/_-]{14,}")
_PACKED: Final = re.compile(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]")
"""How gzip and zlib begin."""
_READABLE: Final = re.compile(rb"[ -~]{12,}")
_WRAPPED: Final = re.compile(rb"(?<=[A-Za-z0-9+/]{60})\r?\n(?=[A-Za-z0-9+/=])")
_UNPACKED_BYTES: Final = 2**24
_DEPTH: Final = 4
"""How many wrappings are undone, one in the other."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Where a secret is, and of what kind; never the secret."""

    place: str
    """``request body, messages[0].content``."""
    kind: str
    """What it looks like, or whose value it is."""

    def __str__(self) -> str:
        return f"{self.place} holds {self.kind}"


def live_secrets(environ: Mapping[str, str], given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Values that must be in no file, with where each comes from; `given` has headers and keys by their names."""
    found = {
        value.strip(): f"the value of the environment variable {name}"
        for name, value in environ.items()
        if VARIABLES.fullmatch(name)
    }
    for name, value in given:
        if _SECRET_NAME.search(name) or not _WORDS.fullmatch(value):
            found |= dict.fromkeys((value, value.rpartition(" ")[2]), f"the value given for {name}")
    return {value: whose for value, whose in found.items() if len(value) >= SHORTEST}


class Scanner:
    """Looks for key shapes and for `secrets`, values with where each comes from."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._needles: dict[bytes, str] = {}
        for value, whose in secrets.items():
            written = (value.encode(), json.dumps(value)[1:-1].encode(), *_in_base64(value.encode()))
            self._needles |= dict.fromkeys(written, whose)
        self._odd_needles = [needle for needle in self._needles if b" " in needle.translate(_OTHERS)]

    def scan(self, it: Interaction) -> Finding | None:
        """The first secret in an interaction; None where it is clean."""
        texts = [
            ("request address", it.request.url),
            *((f"request header {name}", value) for name, value in it.request.headers.items()),
            *((f"response header {name}", value) for name, value in it.headers.items()),
            ("error text", it.error),
        ]
        for place, text in texts:
            kind = self.kind_in(text.encode("utf-8", "replace"))
            if kind is not None:
                return Finding(place, kind)
        return self._in_body("request body", it.request.body) or self._in_body("response body", it.body)

    def kind_in(self, data: bytes, depth: int = _DEPTH) -> str | None:
        """What kind of secret is in a text, itself or in what it encodes or packs."""
        unpacked = _unpacked(data) if depth else None
        if unpacked is not None:
            return self.kind_in(unpacked, depth - 1)
        for needle, whose in self._needles.items():
            if needle in data:
                return whose
        if any(hint in data for hint in (*_HINTS, *_PHRASES)) and KEYS.search(data.decode("utf-8", "replace")):
            return "what looks like a key"
        if depth == 0:
            return None
        inner = (self.kind_in(hidden, depth - 1) for hidden in _unwrapped(data))
        return next((kind for kind in inner if kind is not None), None)

    def _in_body(self, place: str, body: bytes) -> Finding | None:
        """Raw, and as its JSON means it: escapes undone, and the pieces of a stream put together."""
        if not self._is_suspect(body):
            return None
        for path, text in _strings(body).items():
            kind = self.kind_in(text.encode("utf-8", "replace"))
            if kind is not None:
                return Finding(f"{place}, {path}" if path else place, kind)
        kind = self.kind_in(body)
        return None if kind is None else Finding(place, kind)

    def _is_suspect(self, body: bytes) -> bool:
        """Whether a thorough look, which takes far longer, could find anything: this one is made while tasks wait."""
        grown = _grown(body)
        if any(mark in body or mark in grown for mark in (*self._odd_needles, *_PHRASES, *_ESCAPES)):
            return True
        words = b" ".join(_long_words(body) | _long_words(grown))
        if any(mark in words for mark in (*self._needles, *_HINTS)):
            return True
        return _PACKED.match(body) is not None or next(_unwrapped(words), None) is not None


def _long_words(text: bytes) -> set[bytes]:
    """What is long enough for a secret, without all else: a stream says most words of its frame again and again."""
    return {word for word in set(text.translate(_OTHERS).split()) if len(word) >= SHORTEST}


def _grown(body: bytes) -> bytes:
    """What the events of a stream add to texts, put together, without parsing."""
    parts = body.split(b'"')
    return b"".join(
        parts[at + 2]
        for at, part in enumerate(parts)
        if part in _GROWING and at + 2 < len(parts) and parts[at + 1].strip() == b":"
    )


def _in_base64(value: bytes) -> Iterator[bytes]:
    """How a value looks inside base64, at each of the three places where it can begin, in both alphabets."""
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + value + b"\0" * (-(before + len(value)) % 3))
        # Characters in which bits of the neighbours are mixed are left out.
        first = (0, 2, 3)[before]
        last = (before + len(value)) * 8 // 6
        core = encoded[first:last]
        yield core
        yield core.replace(b"+", b"-").replace(b"/", b"_")


def _unwrapped(text: bytes) -> Iterator[bytes]:
    """What base64 in a text stands for, if that is packed or can be read."""
    for run in set(_RUN.findall(_WRAPPED.sub(b"", text) if b"\n" in text else text)):
        plain = run.replace(b"-", b"+").replace(b"_", b"/")
        # A letter may stand before it by chance; then it begins later.
        for start in range(4):
            rest = len(plain) - start
            end = b"" if rest % 4 < 2 else plain[-(rest % 4) :] + b"=" * (4 - rest % 4)
            hidden = base64.b64decode(plain[start : start + rest - rest % 4] + end)
            if _READABLE.search(hidden):
                yield hidden
            yield from (hidden[found.start() :] for found in _PACKED.finditer(hidden))


def _unpacked(data: bytes) -> bytes | None:
    """What gzip or zlib packed, as far as it can be read; None for anything else."""
    if not _PACKED.match(data):
        return None
    try:
        return zlib.decompressobj(32 + zlib.MAX_WBITS).decompress(data, _UNPACKED_BYTES) or None
    except zlib.error:
        return None


def _strings(body: bytes) -> dict[str, str]:
    """All texts in the JSON of a body by their paths; of a stream, all that its events bring at one path together."""
    if body.lstrip()[:1] in (b"{", b"["):
        documents = [body]
    else:
        documents = [line[5:] for line in body.splitlines() if line.startswith(b"data:")]
    found: dict[str, list[str]] = {}
    for document in documents:
        try:
            _collect(json.loads(document), "", found)
        except (ValueError, RecursionError):
            continue
    return {path: "".join(texts) for path, texts in found.items()}


def _collect(value: Any, path: str, found: dict[str, list[str]]) -> None:
    if isinstance(value, str):
        found.setdefault(path, []).append(value)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _collect(inner, f"{path}[{number}]", found)
    elif isinstance(value, dict):
        for name, inner in value.items():
            _collect(inner, f"{path}.{name}" if path else name, found)
