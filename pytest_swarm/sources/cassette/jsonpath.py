"""Paths to values in JSON, as people write them: ``metadata.request_id``, ``messages[0].content``, ``tools[*].id``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pytest_swarm.errors import SettingError

__all__ = ["JSONPath", "leaves", "parse_json_path", "without"]

Step = str | int | None
"""A key, an index, or None for every element of an array."""

JSONPath = tuple[Step, ...]

_STEP: Final = re.compile(
    r"\.?(?P<key>[^.\[\]\s'\"*$]+)|\[(?P<index>[0-9]{0,9}|\*)\]|\[(?P<quote>['\"])(?P<name>.+?)(?P=quote)\]"
)


def parse_json_path(text: str, what: str) -> JSONPath:
    """The steps of a path; a leading ``$`` may stand there. `what` names where the text stands.

    Raises:
        SettingError: it is no path.
    """
    rest = text.strip().removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None:
            break
        at = found.end()
        index = found["index"]
        if index is not None:
            steps.append(int(index) if index.isdecimal() else None)
        else:
            steps.append(found["key"] or found["name"])
    if not steps or at < len(rest):
        raise SettingError(
            f"{what}: {text!r} is no path to a JSON value; write one such as 'metadata.request_id' or 'messages[*].id'"
        )
    return tuple(steps)


def without(document: Any, paths: Iterable[JSONPath]) -> Any:
    """`document` with what the paths lead to taken out; changed in place."""
    for path in paths:
        _remove(document, path)
    return document


def _remove(value: Any, path: JSONPath) -> None:
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        if not isinstance(step, str) or step not in value:
            return
        if rest:
            _remove(value[step], rest)
        else:
            del value[step]
    elif isinstance(value, list):
        for index in range(len(value)) if step is None else (step,):
            if not isinstance(index, int) or index >= len(value):
                continue
            if rest:
                _remove(value[index], rest)
            else:
                # Not deleted: what stands behind it would then have another index.
                value[index] = None


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that holds no other, with its path as text; empty objects and arrays too."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{index}]")
    else:
        yield path, value
