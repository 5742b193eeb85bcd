"""Whether what was observed proves a service level, and how many samples would.

Percentiles and rates say the same thing: the share of bad samples is below a limit. "p99 < 3s" allows 1 % of the values
at 3 s or above, "success_rate >= 95%" allows 5 % of the tasks to fail. With `bad` of `n` independent samples that is
proven at a confidence c when P(Binom(n, limit) <= bad) <= 1 - c: exactly when the order statistic or Clopper and
Pearson's bound, which stand beside the figure, meet the level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pytest_swarm.judging.catalogue import CALL_NAMED, Metric
from pytest_swarm.judging.metrics import SwarmMetrics
from pytest_swarm.judging.observation import NoData
from pytest_swarm.judging.sla import Expression
from pytest_swarm.judging.statistics import binomial_cdf

__all__ = ["Claim", "claim_of", "samples_of"]

MOST: Final = 1_000_000
"""Samples beyond which it is not worth telling how many it would take."""
_SLACK: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Claim:
    """That of all that could be asked, at most the share `limit` is bad; seen were `bad` of `n`."""

    bad: int
    n: int
    limit: float

    def proven(self, confidence: float) -> bool:
        """Whether a system whose share of bad samples is the limit shows so few of them too rarely."""
        return self._proves(self.bad, self.n, confidence)

    def samples_needed(self, confidence: float) -> int | None:
        """About how many samples would prove it with the share of bad ones that was seen; None: no number up to `MOST`.

        Where none was bad, that is the smallest sample that can prove the claim at all.
        """
        share = self.bad / self.n if self.n else 0.0

        def proves(many: int) -> bool:
            return self._proves(round(share * many), many, confidence)

        return _smallest(max(1, self.n), proves)

    def _proves(self, bad: int, n: int, confidence: float) -> bool:
        if not 0 < self.limit < 1:
            return self.limit >= 1
        return n > 0 and binomial_cdf(bad, n, self.limit) <= 1 - confidence + _SLACK


def _smallest(start: int, proves: Callable[[int], bool]) -> int | None:
    """The number from `start` on, found by doubling and halving, at which a proof begins to succeed."""
    low, high = start, start
    while not proves(high):
        if high >= MOST:
            return None
        low, high = high, min(2 * high, MOST)
    while low < high:
        middle = (low + high) // 2
        if proves(middle):
            high = middle
        else:
            low = middle + 1
    return high


def claim_of(expression: Expression, metrics: SwarmMetrics) -> Claim | None:
    """What a level on a percentile or a rate claims; None for other metrics, ``==`` and ``!=``, and without data."""
    metric, threshold = expression.metric, expression.threshold
    if threshold is None or expression.op in ("==", "!="):
        return None
    upwards = expression.op in ("<", "<=")
    if metric.percentile is not None:
        share = metric.percentile / 100
        values = [value for run in metrics.runs for value in run.samples(metric)]
        bad = sum(not expression.holds(value, threshold) for value in values)
        return Claim(bad, len(values), 1 - share if upwards else share)
    try:
        ratios = [ratio for run in metrics.runs if (ratio := run.ratio(metric)) is not None]
    except NoData:
        return None
    if not ratios:
        return None
    hits, n = (sum(column) for column in zip(*ratios, strict=True))
    return Claim(hits, n, threshold) if upwards else Claim(n - hits, n, 1 - threshold)


def samples_of(metric: Metric) -> str:
    """What a metric is made of: tasks, calls, gaps between chunks, or values and checks of the test's own."""
    if metric.name == "itl":
        return "gaps"
    if metric.family == "my":
        return "values"
    if metric.family == "check":
        return "checks"
    return "calls" if metric.name in CALL_NAMED else "tasks"
