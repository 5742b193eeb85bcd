"""Whether two samples differ by more than chance: in a rate (Fisher's exact test) and in their means (Welch's t test).

A p-value is the probability of a difference at least as large as the one seen, where in truth there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pytest_swarm.judging import statistics

__all__ = ["Sides", "fisher", "welch"]


class Sides(NamedTuple):
    """The p-values of one comparison of a new sample with an older one."""

    larger: float
    """Of the claim that the new figure is larger."""
    smaller: float
    """Of the claim that the new figure is smaller."""

    @property
    def both(self) -> float:
        """Of the claim that the figures differ: twice the smaller of the two, at most 1."""
        return min(1.0, 2 * min(self))


UNTOLD = Sides(1.0, 1.0)
"""Nothing speaks for a difference."""


def fisher(now: tuple[int, int], before: tuple[int, int]) -> Sides:
    """Fisher's exact test of two rates, each given as hits and trials.

    Given the hits of both together, those of the new sample are hypergeometric if the rates are equal.
    """
    (hits, trials), (hits_before, trials_before) = now, before
    marked, total = hits + hits_before, trials + trials_before
    low, high = max(0, marked - trials_before), min(marked, trials)
    if low >= high:
        return UNTOLD
    return Sides(
        larger=_hypergeometric_tail(hits, high, trials, marked, total),
        smaller=_hypergeometric_tail(hits, low, trials, marked, total),
    )


def _hypergeometric_tail(first: int, last: int, drawn: int, marked: int, total: int) -> float:
    """The probability that the number of marked ones among `drawn` of `total` lies between `first` and `last`."""
    step = 1 if last >= first else -1
    log_first = _log_comb(marked, first) + _log_comb(total - marked, drawn - first) - _log_comb(total, drawn)
    term, sum_of_terms = 1.0, 1.0
    for hits in range(first, last, step):
        # The ratio of neighbouring terms spares a logarithm of four factorials for each.
        up, down = (marked - hits) * (drawn - hits), (hits + 1) * (total - marked - drawn + hits + 1)
        if step < 0:
            up, down = hits * (total - marked - drawn + hits), (marked - hits + 1) * (drawn - hits + 1)
        term *= up / down
        sum_of_terms += term
    return min(1.0, math.exp(log_first + math.log(sum_of_terms)))


def _log_comb(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def welch(now: Sequence[float], before: Sequence[float]) -> Sides:
    """Welch's t test of two means, whose variances need not be equal; with fewer than two values nothing is told."""
    if len(now) < 2 or len(before) < 2:
        return UNTOLD
    difference = statistics.mean(now) - statistics.mean(before)
    parts = [statistics.stdev(sample) ** 2 / len(sample) for sample in (now, before)]
    variance = sum(parts)
    if variance <= 0:
        return Sides(*((0.0, 1.0) if difference > 0 else (1.0, 0.0) if difference < 0 else UNTOLD))
    freedom = variance**2 / sum(part**2 / (len(sample) - 1) for part, sample in zip(parts, (now, before), strict=True))
    tail = student_tail(abs(difference) / math.sqrt(variance), freedom)
    return Sides(tail, 1 - tail) if difference > 0 else Sides(1 - tail, tail)


def student_tail(t: float, freedom: float) -> float:
    """The probability that Student's t with `freedom` degrees of freedom is above `t`, for a `t` of 0 or more."""
    return 0.5 * _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Numerical Recipes, 6.4)."""
    if x <= 0 or x >= 1:
        return min(1.0, max(0.0, x))
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Lentz's method; converges within some tens of steps where `x` is on the near side of the mean."""
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    value = d
    for m in range(1, 10_000):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + factor * d or tiny)
            c = 1 + factor / c or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value
