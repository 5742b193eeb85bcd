"""The small languages of options and markers: durations, rates, money, limits, stages.

Every parser takes the value as it was written and `what`, the name of its place (``"--swarm-duration"``,
``"swarm(timeout=...)"``), and returns the typed value or raises `SettingError` with one sentence that names the place,
the value, what is allowed there, and the nearest right spelling.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Final, Literal, SupportsIndex

from pytest_swarm.errors import SettingError, nearest

__all__ = [
    "Concurrency",
    "Limit",
    "Stage",
    "parse_choice",
    "parse_concurrency",
    "parse_count",
    "parse_day",
    "parse_duration",
    "parse_limits",
    "parse_money",
    "parse_probability",
    "parse_project",
    "parse_rate",
    "parse_speed",
    "parse_stages",
    "parse_text",
    "plain",
    "shown",
]

Concurrency = int | tuple[int, int]
"""How many tasks may be in flight: a fixed number, or the lowest and the highest of a number that adapts."""

_NUMBER: Final = r"[+-]?(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_QUANTITY: Final = re.compile(rf"\s*({_NUMBER})\s*([A-Za-z]*)\s*")
_PER: Final = re.compile(
    rf"\s*(?P<number>{_NUMBER})\s*(?P<scale>[kM]?)\s*(?P<word>[A-Za-z]*)\s*/\s*(?P<unit>[A-Za-z]+)"
    rf"(?:\s+burst\s+(?P<burst>{_NUMBER})\s*(?P<burst_scale>[kM]?))?\s*"
)
_SCALES: Final = {"": 1, "k": 1_000, "M": 1_000_000}

_SECONDS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PER_SECOND: Final = {"s": 1.0, "min": 60.0}
_MEANT_DURATION: Final = {
    **dict.fromkeys(("msec", "msecs", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
}
_MEANT_PERIOD: Final = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "rps", "qps", "tps"), "s"),
    **dict.fromkeys(("m", "mins", "minute", "minutes", "rpm", "tpm", "qpm"), "min"),
}


def shown(value: object) -> str:
    """`value` as an error shows it: its repr on one line, cut at 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def plain(number: float) -> str:
    """`number` as short as it can be written without loss: ``40``, ``0.5``."""
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _wrong(what: str, value: object, kind: str, allowed: str, meant: str = "") -> SettingError:
    hint = f"; did you mean {meant!r}?" if meant else ""
    return SettingError(f"{what}: {shown(value)} is not {kind}; {allowed}{hint}")


def _float(value: Real | Decimal | str) -> float:
    """The number; NaN when it cannot be read, infinite when it is too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _quantity(value: object) -> tuple[float, str] | None:
    """Number and unit of a bare number or of a text like ``30s``."""
    if isinstance(value, Real | Decimal) and not isinstance(value, bool):
        return _float(value), ""
    found = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    return (_float(found[1]), found[2]) if found else None


def _positive(number: float) -> bool:
    return math.isfinite(number) and number > 0


# --- numbers, names and choices ---------------------------------------------------------------------------------------


def parse_text(value: object, what: str) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise _wrong(what, value, "usable", "write a text that is not empty")
    return value.strip()


def parse_choice(value: object, what: str, allowed: Iterable[str]) -> str:
    """One of the words of `allowed`."""
    names = tuple(allowed)
    if not isinstance(value, str) or value not in names:
        hint = nearest(value.strip().lower(), names) if isinstance(value, str) else ""
        raise SettingError(f"{what}: {shown(value)} is not allowed; choose one of {', '.join(names)}{hint}")
    return value


def parse_count(value: object, what: str, minimum: int = 1) -> int:
    """A whole number of at least `minimum`; text may group digits as in ``1_000``."""
    whole = isinstance(value, SupportsIndex) and not isinstance(value, bool)
    if isinstance(value, str):
        whole = re.fullmatch(r"\s*[+-]?[0-9]{1,18}(?:_[0-9]{1,18}){0,9}\s*", value) is not None
    number = int(value) if whole and isinstance(value, SupportsIndex | str) else None
    if number is None or number < minimum:
        raise _wrong(what, value, f"a whole number of at least {minimum}", "write one such as 50")
    return number


def parse_probability(value: object, what: str) -> float:
    """A share above 0 and below 1: ``0.95`` or ``"95%"``."""
    percent = isinstance(value, str) and value.strip().endswith("%")
    found = _quantity(value.strip()[:-1] if percent and isinstance(value, str) else value)
    number = math.nan if found is None or found[1] else found[0] / 100 if percent else found[0]
    if not 0 < number < 1:
        meant = f"{plain(number)}%" if 1 < number < 100 else ""
        raise _wrong(what, value, "a share between 0 and 1", "write 0.95 or '95%'", meant)
    return number


def parse_money(value: object, what: str) -> float:
    """US dollars above 0: ``2``, ``"2.50"`` or ``"$2"``."""
    found = _quantity(value.strip().removeprefix("$") if isinstance(value, str) else value)
    if found is None or found[1] or not _positive(found[0]):
        raise _wrong(what, value, "an amount of US dollars above 0", "write it as 2.50 or '$2.50'")
    return found[0]


def parse_speed(value: object, what: str) -> float | Literal["virtual", "real"]:
    """``virtual``, ``real``, or how many times faster than recorded."""
    if isinstance(value, str) and value in {"virtual", "real"}:
        return "virtual" if value == "virtual" else "real"
    found = _quantity(value)
    if found is None or found[1] or not _positive(found[0]):
        hint = nearest(value.strip().lower(), ("virtual", "real")) if isinstance(value, str) else ""
        allowed = "write virtual, real, or a number above 0 such as 10"
        raise SettingError(f"{what}: {shown(value)} is not a replay speed; {allowed}{hint}")
    return found[0]


def parse_day(value: object, what: str) -> date:
    """A day as ``2026-12-01``."""
    try:
        return date.fromisoformat(str(value).strip())
    except ValueError:
        raise SettingError(f"{what}: {shown(value)} is not a day; write one such as 2026-12-01") from None


# --- time -------------------------------------------------------------------------------------------------------------


def parse_duration(value: object, what: str) -> float:
    """Seconds above 0: a bare number is seconds, text may end in ``ms``, ``s``, ``m`` or ``h``."""
    allowed = "write seconds, or a number with ms, s, m or h such as '30s'"
    found = _quantity(value)
    if found is None:
        raise _wrong(what, value, "a duration", allowed)
    number, unit = found
    factor = _SECONDS.get(unit)
    if factor is None:
        meant = _MEANT_DURATION.get(unit.lower(), unit.lower())
        raise _wrong(what, value, "a duration", allowed, f"{plain(number)}{meant}" if meant in _SECONDS else "")
    if not _positive(number * factor):
        raise _wrong(what, value, "a finite duration above 0", allowed)
    return number * factor


# --- rates ------------------------------------------------------------------------------------------------------------


def _meant_rate(value: object, suffix: str = "") -> str:
    """The rate that somebody meant who wrote ``40``, ``40 rps`` or ``40/sec``; empty when that is anybody's guess."""
    per = _PER.fullmatch(value) if isinstance(value, str) else None
    if per is not None:
        period = _MEANT_PERIOD.get(per["unit"].lower(), per["unit"].lower())
        return f"{per['number']}{per['scale']}{suffix}/{period}" if period in _PER_SECOND else ""
    found = _quantity(value)
    if found is None or not _positive(found[0]):
        return ""
    period = _MEANT_PERIOD.get(found[1].lower(), "") if found[1] else "s"
    return f"{plain(found[0])}{suffix}/{period}" if period else ""


def parse_rate(value: object, what: str) -> float:
    """Starts per second: ``"40/s"`` or ``"2400/min"``."""
    allowed = "write it per s or per min, such as '40/s' or '2400/min'"
    found = _PER.fullmatch(value) if isinstance(value, str) else None
    if found is None or found["word"] or found["burst"] or found["unit"] not in _PER_SECOND:
        raise _wrong(what, value, "a rate", allowed, _meant_rate(value))
    rate = _float(found["number"]) * _SCALES[found["scale"]] / _PER_SECOND[found["unit"]]
    if not _positive(rate):
        raise _wrong(what, value, "a finite rate above 0", allowed)
    return rate


def parse_project(value: object, what: str) -> int:
    """Tasks a month to which a cost is projected: ``"1_000_000/month"`` or ``"1M/month"``."""
    found = _PER.fullmatch(value) if isinstance(value, str) else None
    right = found is not None and found["unit"] == "month" and not found["word"] and not found["burst"]
    tasks = _float(found["number"]) * _SCALES[found["scale"]] if found is not None and right else math.nan
    if not _positive(tasks) or not tasks.is_integer():
        bare = _quantity(value)
        whole = bare is not None and not bare[1] and _positive(bare[0]) and bare[0].is_integer()
        meant = f"{plain(bare[0])}/month" if bare is not None and whole else ""
        raise _wrong(what, value, "a number of tasks a month", "write it as '1_000_000/month'", meant)
    return int(tasks)


# --- limits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limit:
    """A rate limit that the swarm keeps to."""

    unit: Literal["requests", "tokens"]
    amount: float
    period: Literal["s", "min"] = "s"
    burst: float | None = None
    """How much may be spent at once after a pause; None leaves that to the limiter."""

    @property
    def per_second(self) -> float:
        """Requests or tokens per second."""
        return self.amount / _PER_SECOND[self.period]

    def __str__(self) -> str:
        word = " tokens" if self.unit == "tokens" else ""
        burst = "" if self.burst is None else f" burst {plain(self.burst)}"
        return f"{plain(self.amount)}{word}/{self.period}{burst}"


def _parse_limit(value: object, what: str) -> Limit:
    allowed = "write '40/s burst 50' for requests or '200k tokens/min' for tokens"
    found = _PER.fullmatch(value) if isinstance(value, str) else None
    if found is None or found["unit"] not in _PER_SECOND or found["word"] not in {"", "requests", "tokens"}:
        word = found["word"].lower() if found is not None else ""
        suffix = " tokens" if word.startswith("tok") else ""
        raise _wrong(what, value, "a limit", allowed, _meant_rate(value, suffix))
    amount = _float(found["number"]) * _SCALES[found["scale"]]
    burst = _float(found["burst"]) * _SCALES[found["burst_scale"]] if found["burst"] else None
    if not _positive(amount) or (burst is not None and not _positive(burst)):
        raise _wrong(what, value, "a limit above 0", allowed)
    unit: Literal["requests", "tokens"] = "tokens" if found["word"] == "tokens" else "requests"
    return Limit(unit, amount, "s" if found["unit"] == "s" else "min", burst)


def parse_limits(value: object, what: str) -> tuple[Limit, ...]:
    """One limit or a list of them, at most one on requests and one on tokens."""
    parts = list(value) if isinstance(value, list | tuple) else [value]
    limits = tuple(_parse_limit(part, what) for part in parts)
    if len({limit.unit for limit in limits}) != len(limits) or not limits:
        raise _wrong(what, value, "a usable list of limits", "give one limit on requests, one on tokens, or both")
    return limits


# --- stages and concurrency -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of a run at whose end `target` is reached: tasks in flight (int) or starts per second (float)."""

    seconds: float
    target: int | float
    kind: Literal["concurrency", "rate"]

    def to_list(self) -> list[float | int | str]:
        """The stage as the marker takes it."""
        return [self.seconds, self.target if self.kind == "concurrency" else f"{plain(float(self.target))}/s"]


def _parse_stage(value: object, what: str) -> Stage:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise _wrong(what, value, "a stage", "write a pair of duration and target: ('30s', 50) or ('30s', '40/s')")
    seconds = parse_duration(value[0], what)
    if isinstance(value[1], str) and not value[1].strip().isdigit():
        return Stage(seconds, parse_rate(value[1], what), "rate")
    return Stage(seconds, parse_count(value[1], what), "concurrency")


def parse_stages(value: object, what: str) -> tuple[Stage, ...]:
    """A list of ``("30s", 50)``, tasks in flight, or one of ``("30s", "40/s")``, starts per second."""
    if not isinstance(value, list | tuple) or not value:
        raise _wrong(what, value, "a list of stages", "write [('30s', 50), ('1m', 100)] or [('30s', '40/s')]")
    stages = tuple(_parse_stage(stage, what) for stage in value)
    if len({stage.kind for stage in stages}) > 1:
        raise _wrong(what, value, "one kind of stages", "give every stage a number of tasks, or every stage a rate")
    return stages


def parse_concurrency(value: object, what: str) -> Concurrency:
    """Tasks in flight: a number, or ``"8..256"`` for a number that adapts between the two."""
    if isinstance(value, str) and re.search(r"\.\.|-|…|:", value.strip().lstrip("-")):
        found = re.fullmatch(r"\s*([0-9]{1,18})\s*\.\.\s*([0-9]{1,18})\s*", value)
        low, high = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 0 < low < high:
            ends = re.findall(r"[0-9]{1,18}", value)
            pair = sorted({int(end) for end in ends} - {0})
            meant = f"{pair[0]}..{pair[1]}" if len(ends) == 2 and len(pair) == 2 else ""
            allowed = "write a number such as 50, or a range such as '8..256'"
            raise _wrong(what, value, "a range of tasks in flight", allowed, meant)
        return low, high
    return parse_count(value, what)
