"""Values that fit a JSON schema, drawn from a seeded generator.

Understood are: type, enum, const, properties, required, additionalProperties, items, prefixItems, the minima and maxima
of numbers, texts and arrays, multipleOf, format, anyOf, oneOf, allOf and local $ref. A text for a ``pattern`` is one of
the ``examples`` beside it. A pattern without a fitting example, a recursion that never ends, or a reference that leads
nowhere raises `UnsupportedSchema`. What is not required is left out of every other object.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from pytest_swarm.sources.simulated.prose import Prose

__all__ = ["SchemaAnswers", "UnsupportedSchema", "resolve"]

DEEP: Final = 6
"""Nesting below which only what is required is made, so that recursive schemas come to an end."""
TOO_DEEP: Final = 64
MORE_ITEMS: Final = 2
"""Items of an array beyond its minimum, at most."""
GIVEN: Final = 0.5
"""The share of objects that have a property which they need not have."""

_TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")


class UnsupportedSchema(Exception):
    """No value can be made for this schema; the text says why."""


def resolve(schema: Any, root: Any) -> Any:
    """`schema`, or what its local ``$ref`` leads to inside `root`."""
    for _ in range(TOO_DEEP):
        if not isinstance(schema, dict) or "$ref" not in schema:
            return schema
        schema = _pointed_at(schema["$ref"], root)
    raise UnsupportedSchema("a $ref leads in a circle")


def _pointed_at(reference: Any, root: Any) -> Any:
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise UnsupportedSchema(f"$ref {reference!r} leads out of the schema")
    found = root
    for part in reference.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(key)] if isinstance(found, list) else found[key]
        except (KeyError, IndexError, TypeError, ValueError):
            raise UnsupportedSchema(f"$ref {reference!r} leads nowhere") from None
    return found


class SchemaAnswers:
    """Makes values for schemas; the same seed and the same sequence of schemas give the same values."""

    def __init__(self, random: Random, prose: Prose) -> None:
        self._random = random
        self._prose = prose
        self._makers: dict[str, Callable[[Mapping[str, Any], Any, int], Any]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "number": self._number,
            "integer": self._integer,
            "boolean": lambda _schema, _root, _depth: self._random.random() < 0.5,
            "null": lambda _schema, _root, _depth: None,
        }

    def value(self, schema: Any) -> Any:
        """A value that fits `schema`. Raises `UnsupportedSchema` where that is beyond this generator."""
        return self._make(schema, schema, 0)

    def _make(self, schema: Any, root: Any, depth: int) -> Any:
        if depth > TOO_DEEP:
            raise UnsupportedSchema("the schema nests without end")
        schema = resolve(schema, root)
        if schema is True:
            return self._prose.sentence()
        if not isinstance(schema, dict):
            raise UnsupportedSchema(f"{schema!r} stands where a schema should")
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._random.choice(_non_empty(schema["enum"], "enum"))
        if "allOf" in schema:
            return self._make(_all_of(schema, root), root, depth + 1)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self._one_of(schema, key, root, depth)
        return self._makers[self._type_of(schema, depth)](schema, root, depth)

    def _one_of(self, schema: Mapping[str, Any], key: str, root: Any, depth: int) -> Any:
        """The first alternative in a drawn order that a value can be made for; in depth, the first that is written."""
        alternatives = list(_non_empty(schema[key], key))
        if depth < DEEP:
            self._random.shuffle(alternatives)
        else:
            alternatives.sort(key=lambda one: _is_compound(resolve(one, root)))
        rest = {name: value for name, value in schema.items() if name != key}
        reason = UnsupportedSchema(f"{key} has no alternative")
        for alternative in alternatives:
            try:
                return self._make(_merge(rest, resolve(alternative, root)), root, depth + 1)
            except UnsupportedSchema as unsupported:
                reason = unsupported
        raise reason

    def _type_of(self, schema: Mapping[str, Any], depth: int) -> str:
        named = schema.get("type")
        if isinstance(named, list):
            # In depth the simplest of several types ends a recursion.
            named = _non_empty(named, "type")[-1] if depth >= DEEP else self._random.choice(_non_empty(named, "type"))
        if named is None:
            return _implied_type(schema)
        if named not in _TYPES:
            raise UnsupportedSchema(f"there is no type {named!r}")
        return str(named)

    def _object(self, schema: Mapping[str, Any], root: Any, depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        others = schema.get("additionalProperties", True)
        made: dict[str, Any] = {}
        for name, inner in properties.items():
            if name in required:
                made[name] = self._make(inner, root, depth + 1)
            elif depth < DEEP and ("minProperties" in schema or self._random.random() < GIVEN):
                try:
                    made[name] = self._make(inner, root, depth + 1)
                except UnsupportedSchema:
                    continue
        for name in required:
            if name not in made:
                made[name] = self._make(others, root, depth + 1)
        for number in range(len(made), schema.get("minProperties", 0)):
            made[f"item_{number}"] = self._make(others, root, depth + 1)
        return made

    def _array(self, schema: Mapping[str, Any], root: Any, depth: int) -> list[Any]:
        low = schema.get("minItems", 0)
        leading: Sequence[Any] = schema.get("prefixItems", ())
        following = schema.get("items", True)
        usual = (
            max(low, len(leading)) if depth >= DEEP else max(low, 1, len(leading)) + self._random.randint(0, MORE_ITEMS)
        )
        count = min(low if depth >= DEEP else usual, schema.get("maxItems", usual))
        if following is False:
            count = min(count, len(leading))
        made = [
            self._make(leading[position] if position < len(leading) else following, root, depth + 1)
            for position in range(count)
        ]
        return _unique(made, low) if schema.get("uniqueItems") else made

    def _string(self, schema: Mapping[str, Any], _root: Any, _depth: int) -> str:
        if "pattern" in schema:
            return self._random.choice(_examples(schema))
        maker = _FORMATS.get(schema.get("format", ""))
        if maker is not None:
            return maker(self._random)
        low, high = schema.get("minLength", 0), schema.get("maxLength")
        text = self._prose.text(low) if low else self._prose.sentence()
        return text if high is None else text[:high].rstrip().ljust(low, ".")

    def _integer(self, schema: Mapping[str, Any], _root: Any, _depth: int) -> int:
        step = schema.get("multipleOf", 1)
        low, high = _bounds(schema, 0, 100)
        first, last = math.ceil(low / step), math.floor(high / step)
        first += first * step == schema.get("exclusiveMinimum")
        last -= last * step == schema.get("exclusiveMaximum")
        if first > last:
            raise UnsupportedSchema("no whole number lies between minimum and maximum")
        return int(self._random.randint(first, last) * step)

    def _number(self, schema: Mapping[str, Any], _root: Any, _depth: int) -> float:
        if "multipleOf" in schema:
            step = schema["multipleOf"]
            low, high = _bounds(schema, 0, 100 * step)
            return float(
                self._integer({"minimum": math.ceil(low / step), "maximum": math.floor(high / step)}, None, 0) * step
            )
        low, high = _bounds(schema, 0.0, 1.0)
        # Away from the ends, so that rounding cannot reach an exclusive one.
        drawn = low + (high - low) * self._random.uniform(0.05, 0.95)
        rounded = round(drawn, 3)
        return rounded if low < rounded < high else drawn


def _bounds(schema: Mapping[str, Any], low: float, high: float) -> tuple[float, float]:
    """Lowest and highest value; where only one is given, the other is as far away as usual."""
    lows = [schema[key] for key in ("minimum", "exclusiveMinimum") if _is_number(schema.get(key))]
    highs = [schema[key] for key in ("maximum", "exclusiveMaximum") if _is_number(schema.get(key))]
    span = high - low
    if lows:
        low = max(lows)
        high = low + span
    if highs:
        high = min(highs)
        low = low if lows else min(low, high - span)
    if low > high:
        raise UnsupportedSchema("the minimum is above the maximum")
    return low, high


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _non_empty(values: Any, key: str) -> Sequence[Any]:
    if not isinstance(values, list) or not values:
        raise UnsupportedSchema(f"{key} is no list, or an empty one")
    return values


def _examples(schema: Mapping[str, Any]) -> list[str]:
    """The examples of a schema that fit its pattern and its length."""
    low, high = schema.get("minLength", 0), schema.get("maxLength", math.inf)
    examples = schema.get("examples")
    texts = [text for text in examples if isinstance(text, str)] if isinstance(examples, list) else []
    try:
        found = [text for text in texts if re.search(schema["pattern"], text) and low <= len(text) <= high]
    except (re.error, TypeError):
        raise UnsupportedSchema(f"pattern {schema['pattern']!r} cannot be read") from None
    if not found:
        raise UnsupportedSchema("a text for a pattern cannot be made; put a fitting one into examples, or use enum")
    return found


def _implied_type(schema: Mapping[str, Any]) -> str:
    """The type that the other keys speak of; a schema that speaks of none takes any text."""
    if schema.keys() & {"properties", "required", "additionalProperties", "minProperties"}:
        return "object"
    if schema.keys() & {"items", "prefixItems", "minItems", "maxItems"}:
        return "array"
    if schema.keys() & {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}:
        return "number"
    return "string"


def _is_compound(schema: Any) -> bool:
    return isinstance(schema, dict) and ("$ref" in schema or _implied_type(schema) in {"object", "array"})


def _all_of(schema: Mapping[str, Any], root: Any) -> Mapping[str, Any]:
    merged: Mapping[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema["allOf"]:
        merged = _merge(merged, resolve(part, root))
    return merged


def _merge(base: Mapping[str, Any], more: Any) -> Mapping[str, Any]:
    """Both schemas in one: properties and required names of both, otherwise what `more` says."""
    if not isinstance(more, dict):
        return base
    merged = {**base, **more}
    if "properties" in base and "properties" in more:
        merged["properties"] = {**base["properties"], **more["properties"]}
    if "required" in base and "required" in more:
        merged["required"] = [*base["required"], *(name for name in more["required"] if name not in base["required"])]
    return merged


def _unique(values: list[Any], low: int) -> list[Any]:
    distinct = [value for position, value in enumerate(values) if value not in values[:position]]
    if len(distinct) < low:
        raise UnsupportedSchema("so many different items cannot be made")
    return distinct


def _digits(random: Random, count: int) -> str:
    return "".join(random.choice("0123456789abcdef") for _ in range(count))


def _date(random: Random) -> str:
    return f"{random.randint(2000, 2029)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"


def _time(random: Random) -> str:
    return f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}Z"


def _uuid(random: Random) -> str:
    return (
        f"{_digits(random, 8)}-{_digits(random, 4)}-4{_digits(random, 3)}-a{_digits(random, 3)}-{_digits(random, 12)}"
    )


_FORMATS: Final[dict[str, Callable[[Random], str]]] = {
    "date": _date,
    "time": _time,
    "date-time": lambda random: f"{_date(random)}T{_time(random)}",
    "duration": lambda random: f"PT{random.randint(1, 59)}M",
    "email": lambda random: f"user{random.randint(1, 99)}@example.com",
    "hostname": lambda random: f"host{random.randint(1, 99)}.example.com",
    "ipv4": lambda random: f"192.0.2.{random.randint(1, 254)}",
    "ipv6": lambda random: f"2001:db8::{random.randint(1, 254):x}",
    "uri": lambda random: f"https://example.com/{random.randint(1, 99)}",
    "uuid": _uuid,
}
