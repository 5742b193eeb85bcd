"""One observed figure, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_swarm.judging import statistics

__all__ = ["NoData", "Observation", "observed", "summary"]


class NoData(Exception):
    """A figure cannot be told; the text says why."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A figure in base units, never NaN or infinite; None with the reason where there is none."""

    value: float | None
    reason: str = ""


def observed(figure: Callable[[], float]) -> Observation:
    """The observation of a figure whose calculation may find that there is no data."""
    try:
        value = figure()
    except NoData as missing:
        return Observation(None, str(missing))
    except OverflowError:
        value = math.inf
    return Observation(value) if math.isfinite(value) else Observation(None, "the figure is not a finite number")


_WORDS: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "min": lambda values: values[0],
    "mean": statistics.mean,
    "max": lambda values: values[-1],
    "stdev": statistics.stdev,
    "sum": math.fsum,
}


def summary(values: Sequence[float], statistic: str, why_empty: Callable[[], str]) -> float:
    """One statistic of sorted values: ``p99``, ``mean`` and so on. Only `count` is known without any value.

    Raises:
        NoData: there are too few values.
    """
    if statistic == "count":
        return float(len(values))
    if not values:
        raise NoData(why_empty())
    if statistic == "stdev" and len(values) < 2:
        raise NoData("a standard deviation needs two values, and there is one")
    if statistic.startswith("p"):
        return statistics.percentile(values, float(statistic[1:]))
    return _WORDS[statistic](values)
