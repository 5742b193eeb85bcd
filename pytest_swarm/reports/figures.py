"""Numbers as people read them, and texts that fit a terminal."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Final

from pytest_swarm.judging.catalogue import Dimension
from pytest_swarm.judging.sla import parse_metric

__all__ = [
    "cells",
    "count",
    "duration",
    "ellipsis_end",
    "ellipsis_middle",
    "figure",
    "money",
    "number",
    "one_line",
    "rate",
    "share",
    "span",
]


def figure(metric: str, value: float | None, unknown: str = "unknown") -> str:
    """The value of an SLA metric in its own unit."""
    return unknown if value is None else _FORMS[parse_metric(metric).dimension](value)


def duration(seconds: float) -> str:
    """`0.4ms`, `840ms`, `1.84s`, `12.3s`, `2m03s`, `1h02m`: three digits as long as it is less than a minute."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    milliseconds = seconds * 1000
    if milliseconds < 999.5:
        return f"{milliseconds:.0f}ms" if milliseconds >= 9.95 or milliseconds == 0 else f"{milliseconds:.1f}ms"
    if seconds < 59.95:
        return f"{seconds:.2f}s" if seconds < 9.995 else f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours}h{minutes:02d}m"


def span(seconds: float) -> str:
    """A length of time that somebody asked for: `30s`, `0.5s`, `2m00s`."""
    return f"{seconds:g}s" if seconds < 60 else duration(seconds)


def money(dollars: float) -> str:
    """`$0.0004`, `$0.082`, `$0.10`, `$1,234.50`: three digits below a dollar, cents above."""
    if dollars < 0:
        return f"-{money(-dollars)}"
    if dollars == 0:
        return "$0"
    if dollars >= 0.9995:
        return f"${dollars:,.2f}"
    decimals = 2 - math.floor(math.log10(dollars))
    whole, _, fraction = f"{dollars:.{decimals}f}".partition(".")
    return f"${whole}.{fraction.rstrip('0'):0<2}"


def rate(per_second: float) -> str:
    """`42.3/s`, `0.42/s`, `1,234/s`; what is slower than one in ten seconds is told per minute, `4.8/min`."""
    if 0 < per_second < 0.0995:
        return f"{per_second * 60:.2g}/min"
    return f"{number(per_second)}/s"


def share(fraction: float) -> str:
    """`96.0%`; a share that is not whole never reads `100.0%` or `0.0%`."""
    for decimals in range(1, 5):
        text = f"{fraction * 100:.{decimals}f}%"
        if fraction in (0, 1) or float(text[:-1]) not in (0, 100):
            return text
    return "> 99.9999%" if fraction > 0.5 else "< 0.0001%"


def number(value: float) -> str:
    """`7`, `12,345`, `42.3`, `0.42`: three digits, but never fewer than a whole number has."""
    if value == int(value) or abs(value) >= 99.95:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(abs(float(f"{value:.3g}"))))
    text = f"{value:.{digits}f}"
    return text if abs(value) >= 1 else text.rstrip("0")


_FORMS: Final[Mapping[Dimension, Callable[[float], str]]] = {
    Dimension.SECONDS: duration,
    Dimension.SHARE: share,
    Dimension.DOLLARS: money,
    Dimension.PER_SECOND: rate,
    Dimension.COUNT: number,
    Dimension.OWN: number,
}


def count(many: int, what: str, plural: str = "") -> str:
    """`1 task`, `1,000 tasks`."""
    return f"{many:,} {what if many == 1 else plural or what + 's'}"


def one_line(text: str) -> str:
    """`text` on one line, with nothing in it that a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))


def cells(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    return sum(_cell(character) for character in text)


def _cell(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def ellipsis_end(text: str, width: int) -> str:
    """`text`, cut at its end when it takes more than `width` columns."""
    return text if cells(text) <= width else f"{_head(text, width - 1)}…"


def ellipsis_middle(text: str, width: int) -> str:
    """`text`, cut in the middle when it takes more than `width` columns: both ends of a node id matter."""
    if cells(text) <= width:
        return text
    front = (width - 1) // 2
    return f"{_head(text, front)}…{_head(text[::-1], width - 1 - front)[::-1]}"


def _head(text: str, width: int) -> str:
    taken = accumulate(map(_cell, text))
    return text[: sum(columns <= width for columns in taken)]
