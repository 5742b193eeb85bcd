"""Values of the SLA language: ``12s``, ``90%``, ``$0.10``, ``40/s``, ``2k``, in base units."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.judging.catalogue import Dimension

__all__ = ["NUMBER", "parse_value"]

NUMBER: Final = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3}(?!\d))?"
_VALUE: Final = re.compile(rf"(\$?)\s*({NUMBER})\s*(.*)", re.ASCII | re.DOTALL)

_TIMES: Final = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600)}
_LARGE: Final = {"k": Decimal(1_000), "M": Decimal(1_000_000)}
_PER: Final = {"/s": Decimal(1), "/min": Decimal(1) / Decimal(60)}
_PERCENT: Final = {"%": Decimal("0.01")}
_DOLLAR: Final = {"$": Decimal(1)}
_EVERY: Final = _TIMES | _PERCENT | _DOLLAR | _PER | _LARGE
"""Every unit; case matters."""

_FITTING: Final = {
    Dimension.SECONDS: _TIMES,
    Dimension.SHARE: _PERCENT,
    Dimension.DOLLARS: _DOLLAR | _LARGE,
    Dimension.PER_SECOND: _PER | _LARGE,
    Dimension.COUNT: _LARGE,
    Dimension.OWN: _EVERY,
}
_CALLED: Final = {
    Dimension.SECONDS: "a time in ms, s, m or h",
    Dimension.SHARE: "a share: 95% or 0.95",
    Dimension.DOLLARS: "an amount of US dollars: $0.10",
    Dimension.PER_SECOND: "a rate in /s or /min",
    Dimension.COUNT: "a number, with k or M at most",
    Dimension.OWN: "a number of your own",
}
_SPELT: Final = {
    **dict.fromkeys(("msec", "msecs", "millis", "millisecond", "milliseconds", "MS", "Ms"), "ms"),
    **dict.fromkeys(("sec", "secs", "second", "seconds", "S"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours", "H"), "h"),
    **dict.fromkeys(("percent", "pct"), "%"),
    **dict.fromkeys(("usd", "USD", "dollar", "dollars"), "$"),
    **dict.fromkeys(("/sec", "/second", "ps", "rps", "qps", "tps"), "/s"),
    **dict.fromkeys(("/m", "/minute", "rpm", "tpm"), "/min"),
    **dict.fromkeys(("K", "thousand"), "k"),
    **dict.fromkeys(("million", "millions"), "M"),
}


def parse_value(text: str, what: str, dimension: Dimension) -> tuple[float, str, str]:
    """The value in base units, the value as one word (``250ms``), and its unit.

    Base units are seconds, a share of 0 to 1, US dollars, per second, or a plain count.

    Raises:
        SettingError: `text` is no number, or has a unit that does not fit `what`, which is measured in `dimension`.
    """
    found = _VALUE.fullmatch(text.strip())
    if found is None:
        raise SettingError(f"{text.strip()!r} is not a number; {what} is {_CALLED[dimension]}")
    dollar, number, unit = found[1], found[2], found[3].strip()
    fitting = _FITTING[dimension]
    if unit and unit not in _EVERY:
        raise SettingError(f"unknown unit {unit!r} in {text.strip()!r}; {_allowed_units(dimension, unit, number)}")
    if (dollar and (unit == "$" or unit not in ("", *_LARGE))) or (dollar and "$" not in fitting):
        raise SettingError(f"{text.strip()!r} does not fit {what}, which is {_CALLED[dimension]}")
    if unit and unit not in fitting:
        raise SettingError(
            f"{text.strip()!r} does not fit {what}, which is {_CALLED[dimension]}{_case(unit, number, dimension)}"
        )
    # In decimals, since 90% is to be 0.9, which 90 * 0.01 is not.
    value = float(Decimal(number) * _EVERY.get(unit, Decimal(1)))
    _check_range(value, text.strip(), what, dimension, unit)
    return value, f"{dollar}{number}{unit}", "$" if dollar else unit


def _allowed_units(dimension: Dimension, unit: str, number: str) -> str:
    meant = _SPELT.get(unit, "")
    if meant in _FITTING[dimension]:
        return f"allowed are {', '.join(_FITTING[dimension])}; did you mean '{number}{meant}'?"
    return f"allowed are {', '.join(_FITTING[dimension])}{nearest(unit, _FITTING[dimension])}"


def _case(unit: str, number: str, dimension: Dimension) -> str:
    """`m` and `M` are taken for one another."""
    other = unit.swapcase()
    if unit not in ("m", "M") or other not in _FITTING[dimension]:
        return ""
    return f"; m is minutes and M is millions: did you mean '{number}{other}'?"


def _check_range(value: float, text: str, what: str, dimension: Dimension, unit: str) -> None:
    if not math.isfinite(value):
        raise SettingError(f"{text!r} is too large a number")
    if dimension is Dimension.OWN:
        return
    if value < 0:
        raise SettingError(f"{text!r} is below 0, and {what} never is")
    if dimension is Dimension.SHARE and value > 1:
        if not unit and value <= 100:
            raise SettingError(f"{what} is a share and never above 1: did you mean {text}%?")
        raise SettingError(f"{text!r} is above 100%, and {what} never is")
