"""A table of TOML into a dataclass, with one sentence for whatever is wrong with it.

Every field of such a dataclass carries its check: ``rate: float = checked(share, 0.0)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.values import plain, shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Check", "build", "checked", "choice", "flag", "list_of", "number", "share", "whole"]

T = TypeVar("T", bound="DataclassInstance")

Check = Callable[[object], Any]
"""Gives the value back as it is used, or raises `Wrong`."""


class Wrong(Exception):
    """A value that is not allowed; the text says what is."""


def checked(check: Check, default: Any = MISSING) -> Any:
    """A field of a dataclass with its check; without a default the key must be written."""
    return field(metadata={"check": check}) if default is MISSING else field(default=default, metadata={"check": check})


def build(cls: type[T], table: object, place: str) -> T:
    """Make a `cls` of the TOML `table` that stands at `place`.

    Raises:
        SettingError: it is no table, a key is unknown or missing, or a value is not allowed.
    """
    if not isinstance(table, Mapping):
        raise SettingError(f"{place} is {shown(table)}; write a table")
    known: dict[str, Field[Any]] = {one.name: one for one in fields(cls)}
    for key in table:
        if key not in known:
            raise SettingError(f"{place} has no key {shown(key)}; allowed are {', '.join(known)}{nearest(key, known)}")
    for key, one in known.items():
        if key not in table and one.default is MISSING and one.default_factory is MISSING:
            raise SettingError(f"{place} misses the key {key}")
    return cls(**{key: _value(known[key], value, place) for key, value in table.items()})


def _value(one: Field[Any], value: object, place: str) -> Any:
    try:
        return one.metadata["check"](value)
    except Wrong as wrong:
        raise SettingError(f"{place}: {one.name} is {shown(value)}; {wrong}") from None


def number(low: float = 0.0, high: float = math.inf, *, above: bool = False) -> Check:
    """A finite number from `low` to `high`; with `above`, more than `low`."""
    bound = f"above {plain(low)}" if above else f"of at least {plain(low)}"
    allowed = f"write a number {bound}" if high == math.inf else f"write a number from {plain(low)} to {plain(high)}"

    def check(value: object) -> float:
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not good or not low <= float(str(value)) <= high or (above and float(str(value)) == low):
            raise Wrong(allowed)
        return float(str(value))

    return check


share = number(0.0, 1.0)


def whole(low: int = 0) -> Check:
    """A whole number of at least `low`."""

    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise Wrong(f"write a whole number of at least {low}")
        return value

    return check


def flag(value: object) -> bool:
    """``true`` or ``false``."""
    if not isinstance(value, bool):
        raise Wrong("write true or false")
    return value


def choice(*allowed: Any) -> Check:
    """One of the words or numbers of `allowed`."""
    listed = ", ".join(map(str, allowed))

    def check(value: object) -> Any:
        if isinstance(value, bool) or value not in allowed:
            hint = nearest(value, allowed) if isinstance(value, str) else ""
            raise Wrong(f"choose one of {listed}{hint}")
        return value

    return check


def list_of(check_item: Check) -> Check:
    """A list that is not empty, each item of it checked."""

    def check(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise Wrong("write a list that is not empty")
        return tuple(check_item(item) for item in value)

    return check
