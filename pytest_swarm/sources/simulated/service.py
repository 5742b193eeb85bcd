"""How long a system works on a request: a quantile function, and draws that cover it evenly."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from random import Random

__all__ = ["STRATA", "QuantileFunction", "Strata"]

STRATA = 100
"""Draws in a block: one in each percent. A swarm of 100 tasks then has one task beyond the 99th percentile, always."""


class QuantileFunction:
    """The inverse of a distribution function, given at some points; between them the logarithm is linear."""

    def __init__(self, shares: Sequence[float], values: Sequence[float]) -> None:
        """Take rising `shares` from 0 to 1, and the positive `values` that they reach."""
        self._shares = tuple(shares)
        self._values = tuple(values)
        self._logs = tuple(math.log(value) for value in values)

    def __call__(self, share: float) -> float:
        """The value that is not exceeded with probability `share`."""
        after = min(bisect_right(self._shares, share), len(self._shares) - 1)
        low, high = self._shares[after - 1], self._shares[after]
        weight = (share - low) / (high - low)
        return math.exp(self._logs[after - 1] + weight * (self._logs[after] - self._logs[after - 1]))

    def mean(self) -> float:
        """The expected value: over a segment from a to b in equal logarithmic steps it is (b - a) / ln(b / a)."""
        total = 0.0
        for i in range(1, len(self._shares)):
            a, b = self._values[i - 1], self._values[i]
            segment = a if math.isclose(a, b) else (b - a) / math.log(b / a)
            total += segment * (self._shares[i] - self._shares[i - 1])
        return total


class Strata:
    """Uniform draws from [0, 1) in blocks, each with one draw in every hundredth, in random order.

    Plain draws make the 99th percentile of a thousand tasks more than twice as noisy, which would say nothing about the
    system, only about chance.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._block: list[float] = []

    def draw(self) -> float:
        """The next number."""
        if not self._block:
            random = self._random.random
            self._block = [(stratum + random()) / STRATA for stratum in range(STRATA)]
            self._random.shuffle(self._block)
        return self._block.pop()
