"""Whether a figure has got worse than a former one, or merely looks like it.

A figure of a distribution is judged on two kinds of evidence, each at half of the level, so that both together find a
change where there is none in at most `level` of all cases:

- the figure itself is beyond the limit, and more than chance makes it so (`tail_test` for a percentile, `welch` for a
  mean): what a slower tail shows;
- the whole distribution has moved, more than chance makes it (`mann_whitney`), and takes the figure beyond the limit:
  all values together tell that long before the few beyond a p99 do. Either by a factor (`scale_ratio`), which then is
  that of every percentile; or, where the figure observed is beyond the limit too, by a time that is added to all
  (`location_shift`), as a queue does it. That evidence is dropped where the figure's own values contradict it.

Chance is asked about the change, and not about the limit: `<= baseline * 1.10` fails where a change is sure and more
than 10 % of it were seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal

from pytest_swarm.judging import statistics
from pytest_swarm.judging.observation import summary
from pytest_swarm.judging.rank_tests import least_p, location_shift, mann_whitney, scale_ratio, tail_test
from pytest_swarm.judging.two_samples import Sides, fisher, welch

__all__ = ["Evidence", "detectable", "figure_test", "of_rate", "of_runs", "of_samples"]

_CONTRADICTED: Final = 0.01
"""The probability with which evidence from the whole distribution is dropped though it holds for the figure too."""
_POWER: Final = 0.9
_EFFICIENCY: Final = math.sqrt(math.pi / 3)
"""How much wider the rank test's error is than that of the mean, for normal values."""
BLIND: Final = 2.0
"""The factor of a shift that samples must show in nine of ten cases, where a figure is beyond its limit."""
FEWEST_RUNS: Final = 4
"""Of each side, for figures that a run has one of: with fewer no difference is sure."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a change in the direction that a service level forbids."""

    found: Literal["figure", "whole", ""]
    """Which evidence there is: of the figure itself, of the whole distribution, or none."""
    p: float
    """The smallest p-value (one-sided) of that evidence; of the figure itself where there is none."""
    ratio: float | None = None
    """By what factor the whole distribution has moved, where that is the evidence."""
    shift: float | None = None
    """By how much it has, where that is the evidence."""
    enough: bool = True
    """Whether so many values can show a change that matters: any at all, and one by `BLIND` where one was seen."""


def figure_test(statistic: str, now: Sequence[float], before: Sequence[float], level: float) -> Sides | None:
    """Whether one statistic of two sorted samples differs by more than chance; None for one that has no test here."""
    if statistic == "mean":
        return welch(now, before)
    percentile = {"min": 0.0, "max": 100.0}.get(statistic)
    if percentile is None:
        percentile = float(statistic[1:]) if statistic.startswith("p") else None
    return None if percentile is None else tail_test(now, before, percentile, level)


def of_samples(
    statistic: str,
    now: Sequence[float],
    before: Sequence[float],
    *,
    beyond: bool,
    factor: float,
    upwards: bool,
    level: float,
) -> Evidence | None:
    """The evidence that a statistic has got worse than `factor` times that of `before`; None where it has no test.

    Both samples are sorted. `beyond` says that the figure observed is beyond the limit, `upwards` that larger is worse.
    """
    half = level / 2
    side = 0 if upwards else 1
    reference = [value * _reference(factor, upwards) for value in before]
    own = figure_test(statistic, now, reference, half)
    if own is None:
        return None
    enough = least_p(len(now), len(before)) <= half
    if beyond and own[side] <= half:
        return Evidence("figure", own[side])
    p = mann_whitney(now, reference)[side]
    whole = _of_whole(statistic, now, before, p, beyond, factor, upwards) if p <= half else None
    if whole is not None:
        return whole
    shown = detectable(now, before, level) if beyond else None
    return Evidence("", own[side], enough=enough and (shown is None or shown <= BLIND))


def _reference(factor: float, upwards: bool) -> float:
    """What chance is asked about: the baseline as it was, unless the level wants more than that."""
    return min(factor, 1.0) if upwards else max(factor, 1.0)


def _of_whole(
    statistic: str, now: Sequence[float], before: Sequence[float], p: float, beyond: bool, factor: float, upwards: bool
) -> Evidence | None:
    """What a sure change of the whole says of the statistic; None where that stays within the limit."""
    shift = _shift_beyond(statistic, now, before, factor, upwards) if beyond else None
    if shift is not None and not _contradicts(statistic, now, [value + shift for value in before], upwards):
        return Evidence("whole", p, shift=shift)
    ratio = scale_ratio(now, before)
    if ratio is None or not (ratio > factor if upwards else ratio < factor):
        return None
    if _contradicts(statistic, now, [value * ratio for value in before], upwards):
        return None
    return Evidence("whole", p, ratio=ratio)


def _shift_beyond(
    statistic: str, now: Sequence[float], before: Sequence[float], factor: float, upwards: bool
) -> float | None:
    """What has been added to all values, if that takes the statistic beyond `factor` times what it was."""
    shift = location_shift(now, before)
    figure = summary(before, statistic, str)
    if shift is None or not (shift > (factor - 1) * figure if upwards else shift < (factor - 1) * figure):
        return None
    return shift


def _contradicts(statistic: str, now: Sequence[float], moved: Sequence[float], upwards: bool) -> bool:
    """Whether the figure has surely not moved as far as the whole: a p99 that stands at a timeout, for example."""
    sides = figure_test(statistic, now, moved, _CONTRADICTED)
    return sides is not None and sides[1 if upwards else 0] <= _CONTRADICTED


def of_rate(
    now: tuple[int, int], before: tuple[int, int], *, beyond: bool, factor: float, upwards: bool, level: float
) -> Evidence:
    """The evidence that a rate, given as hits and trials, has got worse."""
    hits, trials = before
    p = fisher(now, (min(trials, round(hits * _reference(factor, upwards))), trials))[0 if upwards else 1]
    enough = least_p(now[1], trials) <= level
    return Evidence("figure" if beyond and p <= level else "", p, enough=enough)


def of_runs(
    now: Sequence[float], before: Sequence[float], *, beyond: bool, factor: float, upwards: bool, level: float
) -> Evidence | None:
    """The evidence from figures that every run has one of, sorted; None where the runs are too few to tell."""
    if min(len(now), len(before)) < FEWEST_RUNS:
        return None
    p = mann_whitney(now, [value * _reference(factor, upwards) for value in before])[0 if upwards else 1]
    return Evidence("figure" if beyond and p <= level else "", p)


def detectable(now: Sequence[float], before: Sequence[float], level: float) -> float | None:
    """The factor of a slowdown of everything that samples like these show in nine of ten cases.

    From the spread of the logarithms, by the normal approximation of the rank test. None where a value is not above 0.
    """
    if min(len(now), len(before)) < 2 or now[0] <= 0 or before[0] <= 0:
        return None
    variances = [statistics.stdev([math.log(value) for value in sample]) ** 2 for sample in (now, before)]
    error = _EFFICIENCY * math.sqrt(variances[0] / len(now) + variances[1] / len(before))
    return math.exp((NormalDist().inv_cdf(1 - level / 2) + NormalDist().inv_cdf(_POWER)) * error)
