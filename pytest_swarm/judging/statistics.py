"""Percentiles, means, and how sure one may be of them.

A percentile `p` is a number from 0 to 100 everywhere here, as in ``p99.9``; a confidence is a share below 1. Every
bound is one-sided at the confidence it is given: a lower and an upper bound at 0.95 enclose with confidence 0.90.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

__all__ = [
    "binomial_cdf",
    "mean",
    "median",
    "percentile",
    "percentile_bounds",
    "rate_bounds",
    "samples_needed",
    "stdev",
]

_SLACK: Final = 1e-12
"""A probability that equals the confidence but for rounding reaches it."""


def percentile(values: Sequence[float], p: float) -> float:
    """The `p`-th percentile of sorted values by linear interpolation (Hyndman-Fan 7, numpy's default).

    Raises:
        ValueError: there is no value, or `p` is outside 0..100.
    """
    if not values:
        raise ValueError("no values have no percentile")
    if not 0 <= p <= 100:
        raise ValueError(f"a percentile lies between 0 and 100, not at {p}")
    position = (len(values) - 1) * (p / 100)
    below = math.floor(position)
    low, high, share = values[below], values[min(below + 1, len(values) - 1)], position - math.floor(position)
    # From the nearer end, as numpy does it: the result then never leaves [low, high] and equals an end exactly.
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


def median(values: Sequence[float]) -> float:
    """The middle of values in any order; the mean of the two middle ones where their number is even."""
    return percentile(sorted(values), 50)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean, summed without loss of digits.

    Raises:
        ValueError: there is no value.
    """
    if not values:
        raise ValueError("no values have no mean")
    return math.fsum(values) / len(values)


def stdev(values: Sequence[float]) -> float:
    """The standard deviation of a sample (divisor n - 1).

    Raises:
        ValueError: there are fewer than two values.
    """
    if len(values) < 2:
        raise ValueError("a standard deviation needs two values")
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def binomial_cdf(k: int, n: int, share: float) -> float:
    """The probability of at most `k` successes in `n` independent trials that succeed with probability `share`.

    Sums the exact terms of the smaller tail, from its largest term on: some 10 standard deviations of them at most. The
    relative error is below 1e-8 up to a million trials.
    """
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    if k < n * share:
        return _lower_tail(k, n, share)
    return 1.0 - _lower_tail(n - k - 1, n, 1.0 - share)


def _lower_tail(k: int, n: int, share: float) -> float:
    """P(at most `k` of `n`) for a `k` not above the mean, so that the terms only fall from `k` downwards."""
    if share >= 1.0:
        return 0.0
    log_term = (
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(share)
        + (n - k) * math.log1p(-share)
    )
    odds = (1.0 - share) / share
    term = total = 1.0
    for successes in range(k, 0, -1):
        term *= odds * successes / (n - successes + 1)
        total += term
        if term < total * 1e-17:
            break
    return min(1.0, math.exp(log_term) * total)


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest number in low..high for which a condition holds that keeps holding from there on; high when none."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def percentile_bounds(n: int, p: float, confidence: float) -> tuple[int | None, int | None]:
    """Ranks (from 1) of the sorted values that bound the true percentile `p` from below and from above.

    They hold for any distribution: the number of n independent samples that lie at or below the true percentile is
    binomial. The upper rank is the smallest k with P(Binom(n, p) <= k - 1) >= confidence, the lower one the largest k
    with P(Binom(n, p) >= k) >= confidence. None where so few samples bound nothing.
    """
    share = p / 100
    upper = _first(1, n + 1, lambda k: k > n or binomial_cdf(k - 1, n, share) >= confidence - _SLACK)
    # By symmetry: counted from the top, a rank bounds p from below as from the bottom it bounds 100 - p from above.
    mirrored = _first(1, n + 1, lambda k: k > n or binomial_cdf(k - 1, n, 1 - share) >= confidence - _SLACK)
    return (None if mirrored > n else n + 1 - mirrored), (None if upper > n else upper)


def samples_needed(p: float, confidence: float, over: int = 0) -> int:
    """The smallest sample that can prove "the percentile `p` is at most T" with `over` of its values above T.

    That is the smallest n with P(Binom(n, 1 - p) <= over) <= 1 - confidence.

    Raises:
        ValueError: `p` is not above 0 and below 100 (no sample proves a maximum), or `confidence` not within 0..1.
    """
    if not 0 < p < 100 or not 0 < confidence < 1:
        raise ValueError(f"no number of samples proves a p{p:g} with confidence {confidence:g}")
    share = 1 - p / 100

    def proves(n: int) -> bool:
        return binomial_cdf(over, n, share) <= 1 - confidence + _SLACK

    high = over + 1
    while not proves(high):
        high *= 2
    return _first(over + 1, high, proves)


def rate_bounds(hits: int, n: int, confidence: float) -> tuple[float, float]:
    """Clopper and Pearson's exact bounds of a rate of which `hits` in `n` trials were seen.

    The lower bound is the rate at which that many hits or more have probability 1 - confidence, the upper one the rate
    at which that many or fewer have it. Without trials nothing is known: 0 and 1.
    """
    alpha = 1 - confidence
    lower = 0.0 if hits == 0 else _crossing(lambda rate: binomial_cdf(n - hits, n, 1 - rate) >= alpha)
    upper = 1.0 if hits == n else _crossing(lambda rate: binomial_cdf(hits, n, rate) <= alpha)
    return lower, upper


def _crossing(holds: Callable[[float], bool]) -> float:
    """Where in 0..1 a condition begins to hold, by bisection down to 1e-15."""
    low, high = 0.0, 1.0
    while high - low > 1e-15:
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return (low + high) / 2
