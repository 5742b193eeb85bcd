"""When tasks are due in an open loop: seeded schedules of seconds since the start of a run. No clock, no sleeping.

A schedule is made in two steps: arrivals of a process with one arrival per unit, and the times at which the integral of
the wanted rate reaches them. A rate that ramps thus keeps the character of its process, and the mean follows the rate.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_swarm.values import Stage

__all__ = ["BURSTY_SHAPE", "Ramp", "constant_rate", "due_times", "gamma_shape", "ramps_of"]

BURSTY_SHAPE: Final = 0.25
"""Of the gamma distribution of the gaps of `bursty` arrivals: they vary twice as much as those of a Poisson process."""

_GAMMA: Final = re.compile(r"gamma:([0-9]+\.?[0-9]*|\.[0-9]+)")
_ROUNDING: Final = 1e-9
"""Of an arrival: so much less than a whole one is due to rounding."""


@dataclass(frozen=True, slots=True)
class Ramp:
    """A stretch of a run over which the rate goes from one value to another in a straight line."""

    seconds: float
    """May be infinite where the rate stays the same."""
    start: float
    """Arrivals per second."""
    end: float

    @property
    def arrivals(self) -> float:
        """How many are expected over the whole stretch."""
        return (self.start + self.end) / 2 * self.seconds

    def reaches(self, amount: float) -> float:
        """Seconds after which `amount` arrivals are expected: the root of ``start*t + slope/2*t**2 = amount``."""
        if amount <= 0:
            return 0.0
        slope = (self.end - self.start) / self.seconds
        # In the form that loses no digits where the slope is small.
        return 2 * amount / (self.start + math.sqrt(max(0.0, self.start**2 + 2 * slope * amount)))


def constant_rate(rate: float, seconds: float | None = None) -> list[Ramp]:
    """One rate, for some seconds or without an end."""
    return [Ramp(math.inf if seconds is None else seconds, rate, rate)]


def ramps_of(stages: Iterable[Stage]) -> list[Ramp]:
    """The rate over stages: from nothing to the first target, and from each target to the next."""
    ramps, rate = [], 0.0
    for stage in stages:
        ramps.append(Ramp(stage.seconds, rate, float(stage.target)))
        rate = float(stage.target)
    return ramps


def gamma_shape(arrival: str) -> float | None:
    """The shape of ``bursty`` or ``gamma:0.5``, above 0; None for what is no such word."""
    if arrival == "bursty":
        return BURSTY_SHAPE
    found = _GAMMA.fullmatch(arrival)
    return float(found[1]) or None if found else None


def due_times(ramps: Sequence[Ramp], arrival: str, seed: str) -> Iterator[float]:
    """Ascending seconds at which tasks are due, until the ramps end.

    `arrival` is ``constant`` (evenly, the first at once), ``poisson`` (at random, independent of each other),
    ``bursty`` or ``gamma:<shape>``: gaps of a gamma distribution. The smaller its shape, the more do arrivals clump; at
    1 they are those of a Poisson process.
    """
    amounts = _units(arrival, random.Random(seed))
    amount, before, began, last = next(amounts), 0.0, 0.0, 0.0
    for ramp in ramps:
        here = ramp.arrivals
        while amount - before < here - _ROUNDING:
            last = max(last, began + ramp.reaches(amount - before))
            yield last
            amount = next(amounts)
        before += here
        began += ramp.seconds


def _units(arrival: str, rng: random.Random) -> Iterator[float]:
    """Endless arrivals, one per unit on the average."""
    if arrival == "constant":
        yield from map(float, count())
    shape = gamma_shape(arrival)
    at = 0.0
    while True:
        at += rng.expovariate(1.0) if shape is None else rng.gammavariate(shape, 1 / shape)
        yield at
