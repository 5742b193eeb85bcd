"""A reply's text as JSON: what counts as JSON, and whether it fits the schema that was asked for.

Strict means that the whole message is one JSON value as RFC 8259 has it; Python's parser alone accepts more (NaN,
duplicate keys, numbers beyond any float). Nothing is ever repaired.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.reading.complaint import evidence
from pytest_swarm.reading.outcome import LENGTH_REASONS
from pytest_swarm.reading.schema import Problem, Validator, told

__all__ = ["MAX_DEPTH", "MODES", "JSONResult", "Validator", "check_json", "parse_json"]

MODES: Final = ("strict", "lenient")
MAX_DEPTH: Final = 100
"""Arrays and objects inside each other; a deeper value is no usable answer, and would exhaust the parser's stack."""

SHOWN: Final = 80
SEEN: Final = 2000
"""Characters of a text that is no JSON from which an example is made."""

_FENCE: Final = re.compile(r"\s*```[\w+-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*", re.DOTALL)
_THOUGHTS: Final = re.compile(r"\s*<think>.*?</think>(.*)", re.DOTALL)
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")


@dataclass(frozen=True, slots=True)
class JSONResult:
    """What a text is as JSON; `detail` says why it is not valid."""

    status: str
    """``valid``, ``schema_invalid``, ``invalid``, ``truncated`` or ``empty``."""
    value: Any = None
    detail: str = ""
    problems: tuple[Problem, ...] = ()
    """What is wrong, to be counted over many replies; filled by `check_json`."""


def parse_json(text: str, finish_reason: str | None = None, mode: str = "strict") -> JSONResult:
    """Read `text` as one JSON value.

    A reply that ended because it grew too long is ``truncated`` whatever it looks like. In ``lenient`` mode a fence
    around the whole message, or else a ``<think>`` block at its front, is taken off when the bare message is no JSON.
    """
    if mode not in MODES:
        raise SettingError(f"JSON mode {mode!r} is unknown; allowed are {' and '.join(MODES)}{nearest(mode, MODES)}")
    if finish_reason in LENGTH_REASONS:
        return JSONResult("truncated", detail=f"the reply was cut: finish reason {finish_reason}")
    if not text.strip():
        return JSONResult("empty", detail="the reply has no text")
    bare = _parse(text)
    if bare.status == "valid" or mode == "strict":
        return bare
    return next((inner for inner in map(_parse, _inside(text)) if inner.status == "valid"), bare)


def check_json(text: str, finish_reason: str | None, mode: str, validator: Validator | None) -> JSONResult:
    """What `parse_json` says, or ``schema_invalid`` with what does not fit the schema."""
    result = parse_json(text, finish_reason, mode)
    if result.status == "invalid":
        shown = f"{result.detail}: {evidence(text[:SEEN])}"
        return replace(result, problems=(Problem(f"not JSON: {result.detail.partition(' at line ')[0]}", shown),))
    if result.status != "valid":
        return replace(result, problems=(Problem(f"not JSON: {result.detail}", result.detail),))
    problems = () if validator is None else validator.problems(result.value)
    if not problems:
        return result
    return JSONResult("schema_invalid", result.value, "; ".join(told(problems)), problems)


def _inside(text: str) -> Iterator[str]:
    for wrapping in (_FENCE, _THOUGHTS):
        found = wrapping.fullmatch(text)
        if found:
            yield found[1]


class _Refused(ValueError):
    """Something that Python's parser would accept."""


def _parse(text: str) -> JSONResult:
    try:
        if _too_deep(text):
            raise _Refused(f"nested deeper than {MAX_DEPTH} levels")
        return JSONResult("valid", _DECODER.decode(text))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        return JSONResult("invalid", detail=f"{error.msg} at {where}")
    except (ValueError, RecursionError) as error:
        return JSONResult("invalid", detail=str(error).partition(";")[0])


def _too_deep(text: str) -> bool:
    """Whether the brackets outside of strings go deeper than `MAX_DEPTH`."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _constant(name: str) -> float:
    raise _Refused(f"{name} is no JSON number")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Refused(f"the number {_cut(text)} is beyond any float")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _Refused(f"the key {_cut(twice)!r} stands twice in one object")
    return members


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


_DECODER: Final = json.JSONDecoder(parse_constant=_constant, parse_float=_float, object_pairs_hook=_object)
