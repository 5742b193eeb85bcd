"""The SLA language: ``latency.p99 < 12s``, ``success_rate >= 90%``, ``ttft[plan].p95 <= 800ms``.

::

    expression := metric op value                                   one comparison per string
    metric     := name [ "[" call name "]" ] [ "." statistic ]
    statistic  := p0..p100, decimals allowed | min | mean | max | stdev | count | sum
    op         := < | <= | > | >= | == | !=
    value      := ["$"] number [unit] | baseline [ "*" number ]
    unit       := ms s m h | % | $ | /s /min | k M

``p99`` alone means ``latency.p99``. Every error is a `SettingError` of one sentence.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.judging.catalogue import Dimension, Metric
from pytest_swarm.judging.names import parse_metric
from pytest_swarm.judging.units import NUMBER, parse_value

__all__ = ["Expression", "Metric", "TaskBound", "parse", "parse_metric", "parse_per_task"]

_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_MEANT_OP: Final = {
    "=": "==",
    "=<": "<=",
    "=>": ">=",
    "===": "==",
    "<>": "!=",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "!": "!=",
}
_OPERATOR: Final = re.compile(r"[<>=!≤≥≠]+")
_BRACKETS: Final = re.compile(r"\[[^\]]*\]")
_BASELINE: Final = re.compile(rf"baseline\s*(?:\*\s*({NUMBER})\s*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Expression:
    """One service level: a metric, a comparison and a threshold. `str` gives its normal spelling."""

    text: str = field(compare=False)
    """As it was written."""
    metric: Metric
    op: str
    threshold: float | None
    """In seconds, as a share of 0 to 1, in US dollars, per second or as a count; None against a baseline."""
    baseline: bool = False
    factor: float = 1.0
    """What the baseline is multiplied by."""
    value: str = field(default="", compare=False)
    """The right side as one word: ``12s``."""
    unit: str = field(default="", compare=False)
    confidence: float | None = None
    """That with which the level must be proven; None where what was observed decides."""
    abort: bool = False
    """Whether the run ends as soon as the level can no longer be met."""

    def __str__(self) -> str:
        return f"{self.metric} {self.op} {self.value}"

    def holds(self, observed: float, threshold: float) -> bool:
        """Whether the comparison is true; `==` and `!=` compare exactly."""
        return _COMPARE[self.op](observed, threshold)


@dataclass(frozen=True, slots=True)
class TaskBound:
    """What one task must meet to be good: an upper bound of its latency or worst ttft, or valid replies."""

    text: str = field(compare=False)
    kind: Literal["latency", "ttft", "json", "schema"]
    op: str = ""
    threshold: float = math.nan
    """Seconds; NaN for the bounds on JSON."""
    value: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.op} {self.value}" if self.op else f"{self.kind} valid"

    def met(self, figure: float) -> bool:
        """Whether the seconds of a task meet the bound; unknown (NaN) never does."""
        return _COMPARE[self.op](figure, self.threshold)


def parse(text: str) -> Expression:
    """Read one SLA expression.

    Raises:
        SettingError: `text` is not one; the sentence names what was found, what is allowed and the nearest spelling.
    """
    left, op, right = _split(text, "latency.p99 < 12s")
    metric = parse_metric(left)
    if not right:
        raise SettingError(f"{text!r} has no value behind {op!r}: say '{metric} {op} {_example(metric.dimension)}'")
    if "baseline" in right:
        factor, value = _baseline(right)
        return Expression(text, metric, op, None, baseline=True, factor=factor, value=value)
    threshold, value, unit = parse_value(right, str(metric), metric.dimension)
    return Expression(text, metric, op, threshold, value=value, unit=unit)


def parse_per_task(text: str) -> TaskBound:
    """Read what one task must meet: ``latency < 3s``, ``ttft < 800ms``, ``json valid``, ``schema valid``.

    Raises:
        SettingError: `text` is none of these.
    """
    words = text.split()
    if len(words) == 2 and words[0] in ("json", "schema") and words[1] == "valid":
        return TaskBound(text, cast("Literal['json', 'schema']", words[0]))
    if not _OPERATOR.search(text):
        known = ("latency < 3s", "ttft < 800ms", "json valid", "schema valid")
        raise SettingError(
            f"{text!r} is no per-task bound; say one of {', '.join(known)}{nearest(text.strip(), known)}"
        )
    left, op, right = _split(text, "latency < 3s")
    kind, _, statistic = left.partition(".")
    if kind.strip() not in ("latency", "ttft"):
        raise SettingError(f"{left!r} is no per-task bound; say latency or ttft{nearest(left, ('latency', 'ttft'))}")
    if statistic:
        raise SettingError(f"a task has one {kind}, and a per-task bound no statistic: leave '.{statistic}' away")
    if op not in ("<", "<="):
        raise SettingError(f"a per-task bound is an upper one: say '{kind.strip()} < {right or '3s'}', not {op!r}")
    if not right:
        raise SettingError(f"{text!r} has no value behind {op!r}: say '{kind.strip()} {op} 3s'")
    threshold, value, _ = parse_value(right, kind.strip(), Dimension.SECONDS)
    return TaskBound(text, cast("Literal['latency', 'ttft']", kind.strip()), op, threshold, value)


def _split(text: str, example: str) -> tuple[str, str, str]:
    """Left side, operator, right side. What stands in brackets is a name, whatever characters it has."""
    if not text.strip():
        raise SettingError(f"an SLA line is empty; say what must hold, such as {example!r}")
    masked = _BRACKETS.sub(lambda found: "[" + "_" * (len(found[0]) - 2) + "]", text)
    found = list(_OPERATOR.finditer(masked))
    if not found:
        raise SettingError(
            f"{text!r} compares nothing; say a metric, one of {' '.join(_COMPARE)} and a value: {example!r}"
        )
    if len(found) > 1:
        raise SettingError(f"{text!r} has more than one comparison; write each as a string of its own")
    op = found[0][0]
    if op not in _COMPARE:
        meant = f"; did you mean {_MEANT_OP[op]!r}?" if op in _MEANT_OP else ""
        raise SettingError(f"unknown comparison {op!r} in {text!r}; allowed are {' '.join(_COMPARE)}{meant}")
    left, right = text[: found[0].start()].strip(), text[found[0].end() :].strip()
    if not left or re.fullmatch(rf"\$?{NUMBER}.*", left, re.ASCII):
        raise SettingError(f"{text!r} names no metric before {op!r}; say {example!r}")
    return left, op, right


def _baseline(right: str) -> tuple[float, str]:
    found = _BASELINE.fullmatch(right)
    factor = float(found[1] or 1) if found else math.nan
    if not (math.isfinite(factor) and factor > 0):
        raise SettingError(f"{right!r} is no baseline; say 'baseline' or 'baseline * 1.1' with a factor above 0")
    return factor, f"baseline * {found[1]}" if found and found[1] else "baseline"


def _example(dimension: Dimension) -> str:
    return {
        Dimension.SECONDS: "3s",
        Dimension.SHARE: "95%",
        Dimension.DOLLARS: "$0.10",
        Dimension.PER_SECOND: "40/s",
        Dimension.COUNT: "10",
        Dimension.OWN: "10",
    }[dimension]
