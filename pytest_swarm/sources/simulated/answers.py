"""What a system says: prose, or JSON for the schema that was asked for, spoiled as often as the system does that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from pytest_swarm.sources.simulated.profile import System
from pytest_swarm.sources.simulated.prose import Prose
from pytest_swarm.sources.simulated.schemas import SchemaAnswers, resolve
from pytest_swarm.sources.simulated.service import Strata
from pytest_swarm.sources.simulated.tokens import CHARACTERS

__all__ = ["ANY_OBJECT", "Answers"]

ANY_OBJECT: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "confidence": {"type": "number", "minimum": 0, "maximum": 1}},
    "required": ["answer", "confidence"],
}
"""What is answered where any JSON object will do."""

_OTHER_TYPES: Final[tuple[tuple[str, Any], ...]] = (
    ("string", "unknown"),
    ("object", {}),
    ("array", []),
    ("boolean", True),
)


class Answers:
    """The texts of one system, in the order of its requests."""

    def __init__(self, system: System, seed: str) -> None:
        self._json = system.json
        self._visible = system.tokens.visible_mean * CHARACTERS
        self._random = Random(f"{seed}:answers")
        self._prose = Prose(self._random)
        self._schemas = SchemaAnswers(self._random, self._prose)
        self._quality = Strata(Random(f"{seed}:json"))

    def text(self) -> str:
        """Prose of the system's usual length."""
        return self._prose.text(round(self._visible * self._random.uniform(0.8, 1.2)))

    def json_text(self, schema: Any) -> str:
        """JSON for `schema`. Raises `schemas.UnsupportedSchema` where none can be made."""
        value = self._schemas.value(schema)
        share = self._quality.draw()
        if share < self._json.invalid_rate:
            return _broken(_dumped(value), self._random.choice(self._json.invalid_kinds))
        if share < self._json.invalid_rate + self._json.schema_invalid_rate:
            value = _misfit(value, schema)
        return _dumped(value)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _broken(text: str, kind: str) -> str:
    """`text` so that the whole of it is no JSON any more. A number that is cut still is one: it gets prose instead."""
    if kind == "fenced":
        return f"```json\n{text}\n```"
    if kind == "cut" and text[0] in '{["':
        return text[: max(1, len(text) * 2 // 3)]
    return f"Here is the JSON you asked for:\n\n{text}"


def _misfit(value: Any, schema: Any) -> Any:
    """`value` with one property, or as a whole, of a type that the schema forbids; unchanged where it forbids none."""
    shape = resolve(schema, schema)
    if isinstance(shape, dict) and isinstance(value, dict):
        for name, inner in shape.get("properties", {}).items():
            other = _forbidden(resolve(inner, schema)) if name in value else None
            if other is not None:
                return {**value, name: other}
    other = _forbidden(shape)
    return value if other is None else other


def _forbidden(schema: Any) -> Any:
    """A value of a type that `schema` does not name; None where it names no type."""
    named = schema.get("type") if isinstance(schema, dict) else None
    if named is None:
        return None
    allowed = named if isinstance(named, list) else [named]
    return next((value for kind, value in _OTHER_TYPES if kind not in allowed), None)
