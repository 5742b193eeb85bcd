"""Tests that look at the order of values only, and so assume no distribution. All samples are sorted.

`mann_whitney` asks whether a whole distribution has moved, `tail_test` whether the part beyond a percentile has grown,
`scale_ratio` and `location_shift` by what factor, or by how much, it has.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

from pytest_swarm.judging.two_samples import UNTOLD, Sides, fisher

__all__ = ["least_p", "location_shift", "mann_whitney", "scale_ratio", "tail_test"]

_EXACT: Final = 400
"""Pairs of values up to which the distribution of the statistic is counted out."""
_SCALED: Final = 1000
"""Values of each sample that a ratio is made from: more change its fourth digit."""
_FEW_PAIRS: Final = 10_000
_NORMAL: Final = NormalDist()


def least_p(now: int, before: int) -> float:
    """The smallest p-value (one-sided) that an exact test of samples of these sizes can come to."""
    total = now + before
    return math.exp(math.lgamma(now + 1) + math.lgamma(before + 1) - math.lgamma(total + 1))


def mann_whitney(now: Sequence[float], before: Sequence[float]) -> Sides:
    """The test of Mann and Whitney: do values of `now` tend to be larger, or smaller, than those of `before`?

    Small samples without ties: exact. Others: normal, with corrections for ties and continuity.
    """
    n, m = len(now), len(before)
    if not n or not m:
        return UNTOLD
    wins = sum(bisect_left(before, value) + bisect_right(before, value) for value in now) / 2
    ties = Counter((*now, *before))
    if n * m <= _EXACT and len(ties) == n + m:
        ways = _ways(n, m)
        total, at = sum(ways), round(wins)
        return Sides(sum(ways[at:]) / total, sum(ways[: at + 1]) / total)
    many = n + m
    tied = sum(count**3 - count for count in ties.values() if count > 1)
    variance = n * m / 12 * (many + 1 - tied / (many * (many - 1)))
    if variance <= 0:
        return UNTOLD
    above, spread = wins - n * m / 2, math.sqrt(variance)
    return Sides(_NORMAL.cdf((0.5 - above) / spread), _NORMAL.cdf((above + 0.5) / spread))


def _ways(n: int, m: int) -> list[int]:
    """In how many orders of n and m values the statistic is 0, 1, 2 ...: the coefficients of a Gaussian binomial."""
    ways = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for at in range(n * m, m + i - 1, -1):
            ways[at] -= ways[at - m - i]
        for at in range(i, n * m + 1):
            ways[at] += ways[at - i]
    return ways


def tail_test(now: Sequence[float], before: Sequence[float], percentile: float, level: float) -> Sides:
    """Does the part of the values beyond the `percentile` of both samples together belong to `now` too often?

    If both come from one distribution, the number of values of `now` in it is hypergeometric, whatever the distribution
    (Mood's median test, moved to another percentile). The part is made large enough that a p-value of `level` can come
    out at all: the p99 of 100 and 100 tasks is then judged by the largest six of them, not two.
    """
    many = len(now) + len(before)
    if not now or not before:
        return UNTOLD
    least = _least_tail(len(now), len(before), level)
    above = min(max(many - math.ceil(many * percentile / 100), least), many - least)
    every = sorted((*now, *before))
    lowest = every[many - above]
    # Equal values are not parted: all of them are in, unless that is further from what is wanted than none of them.
    wide, narrow = (many - cut(every, lowest) for cut in (bisect_left, bisect_right))
    cut = bisect_right if narrow >= least and above - narrow < wide - above else bisect_left
    return fisher(*((len(sample) - cut(sample, lowest), len(sample)) for sample in (now, before)))


def _least_tail(n: int, m: int, level: float) -> int:
    """How many values must all be of one sample for that to have a probability of at most `level`, for both samples."""
    least = 1
    for size, other in ((n, m), (m, n)):
        chance, taken = 1.0, 0
        while chance > level and taken < size:
            chance *= (size - taken) / (size + other - taken)
            taken += 1
        least = max(least, taken)
    return least


def scale_ratio(now: Sequence[float], before: Sequence[float]) -> float | None:
    """The factor by which `now` is `before`: the median of all ratios of a value of one to a value of the other.

    That is the estimate of Hodges and Lehmann for the logarithms. None where a value is not above 0.
    """
    if not now or not before or now[0] <= 0 or before[0] <= 0:
        return None
    upper, lower = ([math.log(value) for value in _thinned(sample)] for sample in (now, before))
    return round(math.exp(_median_difference(upper, lower, 1e-6)), 6)


def location_shift(now: Sequence[float], before: Sequence[float]) -> float | None:
    """By how much `now` is more than `before`: the estimate of Hodges and Lehmann. None without values."""
    if not now or not before:
        return None
    span = max(now[-1], before[-1]) - min(now[0], before[0])
    return _median_difference(_thinned(now), _thinned(before), span * 1e-7)


def _median_difference(upper: Sequence[float], lower: Sequence[float], precision: float) -> float:
    """The median of all differences of a value of `upper` and one of `lower`."""
    pairs = len(upper) * len(lower)
    # Among many pairs the two in the middle are one number but for rounding.
    middle = {(pairs + 1) // 2, pairs // 2 + 1 if pairs <= _FEW_PAIRS else (pairs + 1) // 2}
    return sum(_difference(upper, lower, rank, precision) for rank in middle) / len(middle)


def _difference(upper: Sequence[float], lower: Sequence[float], rank: int, precision: float) -> float:
    """The `rank`-th smallest of all differences of a value of `upper` and one of `lower`."""
    low, high = upper[0] - lower[-1], upper[-1] - lower[0]
    while high - low > precision:
        middle = (low + high) / 2
        if sum(bisect_right(upper, value + middle) for value in lower) < rank:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _thinned(values: Sequence[float]) -> Sequence[float]:
    """At most `_SCALED` of sorted values, evenly spaced by rank."""
    many = len(values)
    if many <= _SCALED:
        return values
    return [values[round((at + 0.5) * many / _SCALED - 0.5)] for at in range(_SCALED)]
