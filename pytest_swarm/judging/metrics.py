"""Every metric of the SLA language, over one run and over the runs of a swarm."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pytest_swarm.columns import RunResult, SwarmResult
from pytest_swarm.errors import nearest
from pytest_swarm.judging import statistics
from pytest_swarm.judging.calls import MeasuredCalls
from pytest_swarm.judging.catalogue import (
    CALL_DISTRIBUTIONS,
    COUNTED_OUTCOMES,
    DISTRIBUTIONS,
    SCALARS,
    TABLE_STATISTICS,
    TASK_DISTRIBUTIONS,
    Dimension,
    Metric,
)
from pytest_swarm.judging.observation import NoData, Observation, observed, summary
from pytest_swarm.judging.sla import TaskBound, parse_metric
from pytest_swarm.judging.tasks import MeasuredTasks

__all__ = ["Observation", "RunMetrics", "SwarmMetrics", "table_metrics"]

_TABLE: Final = (
    *(Metric(name, None, statistic) for name in DISTRIBUTIONS for statistic in TABLE_STATISTICS),
    *(Metric(name) for name in SCALARS),
    *(Metric(f"errors.{outcome}") for outcome in COUNTED_OUTCOMES),
)


_OF_TIME: Final = frozenset(
    name
    for name, dimension in (DISTRIBUTIONS | SCALARS).items()
    if dimension in (Dimension.SECONDS, Dimension.PER_SECOND)
)
"""Metrics that are made from times."""


def table_metrics(runs: Iterable[RunResult]) -> list[Metric]:
    """What a table of these runs tells: always the same metrics, then those of the test's own numbers and checks."""
    runs = list(runs)
    numbers = sorted({name for run in runs for name in run.numbers})
    checks = sorted({name for run in runs for name in run.checks})
    return [
        *_TABLE,
        *(Metric(f"my.{name}", None, statistic) for name in numbers for statistic in TABLE_STATISTICS),
        *(Metric(f"check.{name}") for name in checks),
    ]


class RunMetrics:
    """The metrics of one run.

    Attributes:
        run: what they are made from.
        tasks: figures of its tasks.
        calls: figures of its calls.
    """

    def __init__(self, run: RunResult, per_task: Sequence[TaskBound] = ()) -> None:
        self.run = run
        self.tasks = MeasuredTasks(run.tasks, run.shed)
        self.calls = MeasuredCalls(run.calls)
        self._per_task = per_task
        self._samples: dict[tuple[str, str | None], array[float]] = {}

    def observe(self, metric: Metric | str) -> Observation:
        """The figure, or why there is none.

        Raises:
            SettingError: `metric` is a text and no metric.
        """
        metric = parse_metric(metric) if isinstance(metric, str) else metric
        return observed(lambda: self._figure(metric))

    def table(self) -> dict[str, float | None]:
        """All scalars and the usual statistics of all distributions, by their SLA names."""
        return {str(metric): self.observe(metric).value for metric in table_metrics([self.run])}

    def samples(self, metric: Metric) -> array[float]:
        """The sorted values of a distribution; empty for every other metric."""
        key = (metric.name, metric.call_name)
        if key not in self._samples:
            self._samples[key] = self._collect(metric)
        return self._samples[key]

    def ratio(self, metric: Metric) -> tuple[int, int] | None:
        """How many hits in how many trials a rate was made of; None for what is no rate of this kind.

        Raises:
            NoData: there was no trial.
        """
        if metric.family == "check":
            held, checked = self.run.checks.get(metric.name.removeprefix("check."), (0, 0))
            if not checked:
                raise NoData(_nothing_own("checked", metric.name.removeprefix("check."), self.run.checks))
            return held, checked
        by_call = {
            "call_success_rate": self.calls.success,
            "json_valid_rate": self.calls.json_valid,
            "schema_valid_rate": self.calls.schema_valid,
        }
        if metric.name in by_call:
            return by_call[metric.name](metric.call_name)
        if metric.name == "goodput_rate":
            self._require_times(metric)
            return self.tasks.good(self._per_task)
        if metric.name not in ("success_rate", "error_rate"):
            return None
        passed, counted = self.tasks.success()
        if not counted:
            raise NoData(self.tasks.why_uncounted())
        return (passed if metric.name == "success_rate" else counted - passed), counted

    def _require_times(self, metric: Metric) -> None:
        if self.run.untimed is not None and self._is_of_time(metric):
            raise NoData(f"no data: {self.run.untimed}, so there is no {metric.name}")

    def _is_of_time(self, metric: Metric) -> bool:
        """Whether a figure is made from times."""
        if metric.name == "goodput_rate":
            return any(bound.kind in ("latency", "ttft") for bound in self._per_task)
        return metric.name in _OF_TIME

    def _collect(self, metric: Metric) -> array[float]:
        if self.run.untimed is not None and self._is_of_time(metric):
            return array("d")
        if metric.name in TASK_DISTRIBUTIONS:
            return self.tasks.figures(metric.name)
        if metric.name in CALL_DISTRIBUTIONS:
            return self.calls.figures(metric.name, metric.call_name)
        return array("d", sorted(self.run.numbers.get(metric.name.removeprefix("my."), ())))

    def _figure(self, metric: Metric) -> float:
        self._require_times(metric)
        if metric.statistic is not None:
            return summary(self.samples(metric), metric.statistic, lambda: self._why_no_samples(metric))
        if metric.family == "errors":
            return float(self.calls.outcomes()[metric.name.removeprefix("errors.")])
        ratio = self.ratio(metric)
        if ratio is not None:
            return ratio[0] / ratio[1]
        return self._scalars()[metric.name]()

    def _scalars(self) -> dict[str, Callable[[], float]]:
        tasks, calls = self.tasks, self.calls
        return {
            "cache_hit_rate": calls.cache_hit_rate,
            "goodput": lambda: tasks.good(self._per_task)[0] / tasks.span(),
            "throughput": tasks.throughput,
            "steady_throughput": tasks.steady_throughput,
            "output_token_rate": lambda: calls.output_tokens() / tasks.span(),
            "cost": calls.cost,
            "cost_per_task": lambda: _cost_per_task([self]),
            "cost_per_100": lambda: 100 * _cost_per_task([self]),
            "tasks": lambda: float(tasks.counted),
            "calls": lambda: float(calls.count),
            "attempts": lambda: float(calls.attempts()),
            "retries": lambda: float(calls.retries()),
        }

    def _why_no_samples(self, metric: Metric) -> str:
        if metric.name in TASK_DISTRIBUTIONS:
            return self.tasks.why_no_figures(metric.name)
        if metric.name in CALL_DISTRIBUTIONS:
            return self.calls.why_no_figures(metric.name, metric.call_name)
        return _nothing_own("recorded", metric.name.removeprefix("my."), self.run.numbers)


class SwarmMetrics:
    """The metrics of a swarm over all its runs.

    Counts, errors and cost are summed over the runs; distributions, rates and throughput are the median over the runs,
    and have no data when one of the runs has none. Bounds are made from the pooled samples of all runs.

    Attributes:
        runs: the metrics of each run, those left out in which no task ended, unless that is true of all.
    """

    def __init__(self, result: SwarmResult, per_task: Sequence[TaskBound] = ()) -> None:
        runs = [RunMetrics(run, per_task) for run in result.runs]
        self.runs = [run for run in runs if run.tasks.statuses] or runs

    def observe(self, metric: Metric | str) -> Observation:
        """The figure, or why there is none.

        Raises:
            SettingError: `metric` is a text and no metric.
        """
        metric = parse_metric(metric) if isinstance(metric, str) else metric
        if len(self.runs) == 1:
            return self.runs[0].observe(metric)
        return observed(lambda: self._figure(metric))

    def per_run(self, metric: Metric) -> list[Observation]:
        """The figure of each run."""
        return [run.observe(metric) for run in self.runs]

    def worst_run(self, metric: Metric) -> int | None:
        """Index of the run with the worst figure; None when fewer than two runs have one."""
        found = [
            (seen.value, run.run.index)
            for run, seen in zip(self.runs, self.per_run(metric), strict=True)
            if seen.value is not None
        ]
        if len(found) < 2:
            return None
        return min(found)[1] if metric.higher_is_better else max(found, key=lambda pair: (pair[0], -pair[1]))[1]

    def table(self) -> dict[str, float | None]:
        """All scalars and the usual statistics of all distributions, by their SLA names."""
        return {str(metric): self.observe(metric).value for metric in table_metrics(run.run for run in self.runs)}

    def size(self, metric: Metric) -> int:
        """How many values of a distribution there are in all runs."""
        return sum(len(run.samples(metric)) for run in self.runs)

    def bounds(self, metric: Metric, confidence: float = 0.95) -> tuple[float | None, float | None]:
        """Between what the true figure lies, each side with this confidence, whatever the distribution.

        Percentiles are bounded by order statistics, rates after Clopper and Pearson. None where a side has no bound,
        and for metrics of other kinds.
        """
        if metric.percentile is not None:
            pooled = sorted(value for run in self.runs for value in run.samples(metric))
            ranks = statistics.percentile_bounds(len(pooled), metric.percentile, confidence)
            lower, upper = (None if rank is None else _finite(pooled[rank - 1]) for rank in ranks)
            return lower, upper
        try:
            ratios = [ratio for run in self.runs if (ratio := run.ratio(metric)) is not None]
        except NoData:
            return None, None
        if not ratios:
            return None, None
        return statistics.rate_bounds(sum(hits for hits, _ in ratios), sum(total for _, total in ratios), confidence)

    def _figure(self, metric: Metric) -> float:
        if not self.runs:
            raise NoData("no data: nothing was run")
        if metric.name in ("cost_per_task", "cost_per_100"):
            return _cost_per_task(self.runs) * (100 if metric.name == "cost_per_100" else 1)
        values = []
        for run, seen in zip(self.runs, self.per_run(metric), strict=True):
            if seen.value is None:
                raise NoData(f"run {run.run.index}: {seen.reason}")
            values.append(seen.value)
        return math.fsum(values) if metric.over_all_runs else statistics.median(values)


def _cost_per_task(runs: Sequence[RunMetrics]) -> float:
    """Cost of all calls, those of failed tasks too, by the number of tasks that count."""
    total = math.fsum(run.calls.cost() for run in runs)
    counted = sum(run.tasks.counted for run in runs)
    if not counted:
        raise NoData(runs[0].tasks.why_uncounted())
    return total / counted


def _nothing_own(done: str, name: str, known: Iterable[str]) -> str:
    return f"no data: nothing was {done} as {name!r}{nearest(name, known)}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
