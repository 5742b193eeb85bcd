"""What a request asks for and what answers it, whichever wire format they are written in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_swarm.sources.simulated.cache import Piece

__all__ = ["Answer", "Ask", "Refused", "bound_of", "model_of", "pieces_of"]

UNREADABLE_CHARACTERS: Final = 1024
"""An image, a sound or a file counts as a text of this length: its real cost is the vendor's secret."""


class Refused(Exception):
    """The system refuses a request at once.

    Attributes:
        status: of HTTP.
        code: a word for programs, such as ``model_not_found``.
        headers: to send beside the usual ones.
    """

    def __init__(self, status: int, message: str, code: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.headers = headers or {}


@dataclass(slots=True)
class Ask:
    """One request."""

    model: str | None
    pieces: list[Piece]
    """The prompt from its start: tools, system text, messages."""
    stream: bool = False
    include_usage: bool = True
    """Whether a stream ends with its usage."""
    max_tokens: int | None = None
    schema: Any = None
    """The JSON schema that the answer shall fit; None for prose."""


@dataclass(slots=True)
class Answer:
    """One reply. Token counts are of the whole: input includes cached and written, output includes reasoning."""

    id: str
    """Hexadecimal digits; each wire puts its own prefix before it."""
    model: str
    created: int
    """Unix time."""
    text: str
    cut: bool
    """Whether the request's bound on tokens ended it."""
    output_tokens: int
    reasoning_tokens: int
    input_tokens: int
    cached_tokens: int = 0
    written_tokens: int = 0
    cost: float = 0.0
    """US dollars."""
    ask: Ask = field(repr=False, kw_only=True)


def model_of(body: Mapping[str, Any]) -> str | None:
    """The model that a request names, or None."""
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise Refused(400, "model must be a text", "invalid_type")
    return model


def bound_of(body: Mapping[str, Any], *keys: str) -> int | None:
    """The bound on output tokens under the first of `keys` that is given."""
    for key in keys:
        value = body.get(key)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise Refused(400, f"{key} must be a whole number of at least 1", "invalid_value")
        return value
    return None


def pieces_of(role: str, content: Any) -> Iterator[Piece]:
    """The pieces of one message. The role is a part of the text: the same words of somebody else are another prompt."""
    if isinstance(content, str):
        yield Piece(f"{role}\n{content}")
        return
    for part in content if isinstance(content, list) else [content]:
        marked = isinstance(part, dict) and part.get("cache_control") is not None
        yield Piece(f"{role}\n{_readable(part)}", marked)


def _readable(part: Any) -> str:
    if part is None:
        return ""
    if isinstance(part, dict):
        if isinstance(part.get("text"), str):
            return str(part["text"])
        if not str(part.get("type", "")).startswith("tool"):
            return str(part.get("type", "")).ljust(UNREADABLE_CHARACTERS)
    return json.dumps(part, sort_keys=True)
