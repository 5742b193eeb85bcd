"""Wire formats: which one a URL speaks, and what all of them share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from pytest_swarm.errors import nearest
from pytest_swarm.sources.simulated.asking import Answer, Ask, Refused

__all__ = ["Scribe", "Wire", "encode", "event", "named_event", "parse_body", "schema_of"]

encode: Final[Callable[[Any], str]] = json.JSONEncoder(separators=(",", ":")).encode
"""Compact JSON in ASCII."""


class Scribe(Protocol):
    """Writes one streamed answer."""

    def opening(self) -> bytes:
        """Events before the first piece of text."""

    def piece(self, text: str) -> bytes:
        """The event of one piece of text."""

    def closing(self) -> bytes:
        """Events after the last piece."""


class Wire(Protocol):
    """One wire format."""

    def read(self, body: Mapping[str, Any]) -> Ask:
        """What a request asks for. Raises `Refused` when it cannot be understood."""

    def document(self, answer: Answer) -> bytes:
        """An answer in one piece."""

    def scribe(self, answer: Answer) -> Scribe:
        """Who writes the answer as a stream."""

    def error(self, refused: Refused) -> bytes:
        """The body of an error reply."""

    def error_event(self, refused: Refused) -> bytes:
        """An error inside a stream."""


def event(data: str) -> bytes:
    """One server-sent event without a name."""
    return f"data: {data}\n\n".encode()


def named_event(name: str, data: Mapping[str, Any]) -> bytes:
    """One server-sent event with its name."""
    return f"event: {name}\ndata: {encode(data)}\n\n".encode()


def parse_body(body: bytes) -> dict[str, Any]:
    """The JSON object that a request's body is. Raises `Refused` for anything else."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON", "invalid_json") from None
    if not isinstance(parsed, dict):
        raise Refused(400, "the body is not a JSON object", "invalid_json")
    return parsed


_FORMATS: Final = ("text", "json_object", "json_schema")


def schema_of(asked: Any, key: str, any_object: Any) -> Any:
    """The schema of a response format as it stands under `key`; None when prose is asked for."""
    if asked is None:
        return None
    kind = asked.get("type") if isinstance(asked, dict) else None
    if kind not in _FORMATS:
        hint = nearest(kind, _FORMATS) if isinstance(kind, str) else ""
        raise Refused(400, f"{key}.type must be one of {', '.join(_FORMATS)}{hint}", "invalid_value")
    if kind == "text":
        return None
    if kind == "json_object":
        return any_object
    holder = asked.get("json_schema", asked)
    schema = holder.get("schema") if isinstance(holder, dict) else None
    if not isinstance(schema, dict):
        raise Refused(400, f"{key} names no JSON schema", "missing_required_parameter")
    return schema
