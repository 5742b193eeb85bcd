"""The names of the SLA language: every metric, what it is measured in, and how it is summed up over runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pytest_swarm.records import CALL_OUTCOMES

__all__ = [
    "CALL_DISTRIBUTIONS",
    "CALL_NAMED",
    "COUNTED_OUTCOMES",
    "DISTRIBUTIONS",
    "HIGHER_IS_BETTER",
    "OVER_ALL_RUNS",
    "SCALARS",
    "TABLE_STATISTICS",
    "TASK_DISTRIBUTIONS",
    "WORD_STATISTICS",
    "Dimension",
    "Metric",
]


class Dimension(StrEnum):
    """What a figure is measured in."""

    SECONDS = "seconds"
    SHARE = "share"
    DOLLARS = "dollars"
    PER_SECOND = "per second"
    COUNT = "count"
    OWN = "own"
    """A number of the test's own, in whatever unit it has."""


TASK_DISTRIBUTIONS: Final = {
    "latency": Dimension.SECONDS,
    "user_latency": Dimension.SECONDS,
    "output_tokens": Dimension.COUNT,
    "input_tokens": Dimension.COUNT,
    "cached_tokens": Dimension.COUNT,
    "reasoning_tokens": Dimension.COUNT,
}
"""One value per passed task."""

CALL_DISTRIBUTIONS: Final = {
    "call_latency": Dimension.SECONDS,
    "attempt_latency": Dimension.SECONDS,
    "ttft": Dimension.SECONDS,
    "ttfo": Dimension.SECONDS,
    "tpot": Dimension.SECONDS,
    "itl": Dimension.SECONDS,
    "queued": Dimension.SECONDS,
}
"""One value per call that ended `ok` or `incomplete`; `itl` has one per gap between content chunks."""

DISTRIBUTIONS: Final = TASK_DISTRIBUTIONS | CALL_DISTRIBUTIONS

SCALARS: Final = {
    "success_rate": Dimension.SHARE,
    "call_success_rate": Dimension.SHARE,
    "error_rate": Dimension.SHARE,
    "json_valid_rate": Dimension.SHARE,
    "schema_valid_rate": Dimension.SHARE,
    "cache_hit_rate": Dimension.SHARE,
    "goodput": Dimension.PER_SECOND,
    "goodput_rate": Dimension.SHARE,
    "throughput": Dimension.PER_SECOND,
    "steady_throughput": Dimension.PER_SECOND,
    "output_token_rate": Dimension.PER_SECOND,
    "cost": Dimension.DOLLARS,
    "cost_per_task": Dimension.DOLLARS,
    "cost_per_100": Dimension.DOLLARS,
    "tasks": Dimension.COUNT,
    "calls": Dimension.COUNT,
    "attempts": Dimension.COUNT,
    "retries": Dimension.COUNT,
}
"""Metrics that are one number, apart from the families `errors.*`, `check.*` and `my.*`."""

CALL_NAMED: Final = (*CALL_DISTRIBUTIONS, "call_success_rate", "json_valid_rate", "schema_valid_rate")
"""Metrics that can be told for the calls of one name: ``ttft[plan].p95``."""

OVER_ALL_RUNS: Final = frozenset({"cost", "tasks", "calls", "attempts", "retries"})
"""Scalars that are summed over the runs of a swarm, as `errors.*` are; the others are the median over its runs."""

HIGHER_IS_BETTER: Final = frozenset(
    {
        *("success_rate", "call_success_rate", "json_valid_rate", "schema_valid_rate", "cache_hit_rate"),
        *("goodput", "goodput_rate", "throughput", "steady_throughput", "output_token_rate", "tasks"),
    }
)
"""Metrics of which more is better, as it is of `check.*`; of all others less is."""

COUNTED_OUTCOMES: Final = tuple(outcome for outcome in CALL_OUTCOMES if outcome not in ("ok", "other"))
"""What `errors.<outcome>` can count."""

WORD_STATISTICS: Final = ("min", "mean", "max", "stdev", "count", "sum")
"""Statistics of a distribution beside its percentiles ``p0`` to ``p100``."""

TABLE_STATISTICS: Final = ("p50", "p90", "p95", "p99", "mean", "max")
"""The statistics that a report always tells."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure: ``latency.p99``, ``ttft[plan].p95``, ``success_rate``, ``errors.rate_limited``, ``my.score.mean``.

    The second part of `errors.*`, `check.*` and `my.*` belongs to the name.
    """

    name: str
    call_name: str | None = None
    statistic: str | None = None

    def __str__(self) -> str:
        called = "" if self.call_name is None else f"[{self.call_name}]"
        return f"{self.name}{called}" + ("" if self.statistic is None else f".{self.statistic}")

    @property
    def family(self) -> str:
        """`errors`, `check` or `my` for what belongs to these; the name itself otherwise."""
        return self.name.partition(".")[0]

    @property
    def percentile(self) -> float | None:
        """99.0 for ``p99``; None when the statistic is no percentile."""
        statistic = self.statistic
        return float(statistic[1:]) if statistic is not None and statistic.startswith("p") else None

    @property
    def dimension(self) -> Dimension:
        """What the figure is measured in."""
        if self.statistic == "count" or self.family == "errors":
            return Dimension.COUNT
        if self.family == "check":
            return Dimension.SHARE
        if self.family == "my":
            return Dimension.OWN
        return (DISTRIBUTIONS | SCALARS)[self.name]

    @property
    def higher_is_better(self) -> bool:
        """Whether of two values the larger one is the better one."""
        return self.family == "check" or self.name in HIGHER_IS_BETTER

    @property
    def over_all_runs(self) -> bool:
        """Whether the figure is summed over the runs of a swarm, and not their median."""
        return self.family == "errors" or self.name in OVER_ALL_RUNS or self.statistic in ("count", "sum")
