"""A former run of the same test: service levels against it, and how every figure has moved since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

from pytest_swarm.columns import SwarmResult
from pytest_swarm.judging.catalogue import DISTRIBUTIONS, Metric
from pytest_swarm.judging.metrics import SwarmMetrics
from pytest_swarm.judging.observation import NoData, Observation
from pytest_swarm.judging.regression import Evidence, detectable, of_rate, of_runs, of_samples
from pytest_swarm.judging.sla import Expression, TaskBound
from pytest_swarm.judging.told import told

__all__ = ["NO_BASELINE", "Against", "Baseline", "Former", "NoBaseline", "against", "per_run", "pooled", "rate_of"]

_SAME_PLAN: Final = (
    "tasks",
    "concurrency",
    "rate",
    "stages",
    "duration",
    "warmup",
    "repeat",
    "seed",
    "limit",
    "retries",
)
"""Arguments of the plan without whose equality figures are not of one thing."""


@dataclass(frozen=True, slots=True)
class Former:
    """One test as a former report tells it."""

    file: str
    """The name of the report's file."""
    created: str | None
    """When the report was written, as it says."""
    verdict: str
    result: SwarmResult
    figures: Mapping[str, float | None]
    """The metrics that the report tells, by name: all that is known of those which its rows do not hold."""


@dataclass(frozen=True, slots=True)
class NoBaseline:
    """That there is nothing to compare with, and why."""

    reason: str
    file: str | None = None
    """The former report in which the test is not."""


NO_BASELINE: Final = NoBaseline(
    "there is no baseline to compare with; write one with --swarm-json=FILE and name it with --swarm-baseline=FILE"
)


class Baseline:
    """A former run of a test, measured as this one is.

    Attributes:
        former: where it comes from.
        metrics: its metrics, as far as rows tell them.
    """

    def __init__(self, former: Former, per_task: Sequence[TaskBound] = ()) -> None:
        self.former = former
        self.metrics = SwarmMetrics(former.result, per_task)

    def observe(self, metric: Metric) -> Observation:
        """The former figure, or why there is none."""
        seen = self.metrics.observe(metric)
        if seen.value is not None:
            return seen
        value = self.former.figures.get(str(metric))
        return seen if value is None else Observation(value)

    def differences(self, result: SwarmResult) -> list[str]:
        """What was not the same then, and may be why figures are not."""
        before = self.former.result
        pairs = [
            ("model", before.model, result.model),
            ("gateway", before.gateway_kind, result.gateway_kind),
            ("address", before.base_url, result.base_url),
            ("clock", before.clock, result.clock),
            *((name, before.plan.get(name), result.plan.get(name)) for name in _SAME_PLAN),
        ]
        return [f"{name} ({_said(then)} there, {_said(now)} here)" for name, then, now in pairs if then != now]


def _said(value: object) -> str:
    return "none" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Against:
    """How a service level against a baseline came out."""

    verdict: Literal["pass", "fail", "invalid"]
    threshold: float | None
    """What the figure had to keep to: the baseline times the factor."""
    reason: str
    """Why it is not a pass, in words that continue "...: "."""
    note: str
    """How the figure stands to its baseline."""


def against(
    baseline: Baseline | NoBaseline, expression: Expression, metrics: SwarmMetrics, observed: float, level: float
) -> Against:
    """Judge `observed`, the figure of `metrics` that the expression names, against its baseline.

    It fails where it does not hold and chance alone would come to that with a probability of `level` at most. What has
    one figure only (a cost, a throughput) is compared as it is.
    """
    if isinstance(baseline, NoBaseline):
        return Against("invalid", None, baseline.reason, "")
    metric, factor, file = expression.metric, expression.factor, baseline.former.file
    before = baseline.observe(metric)
    if before.value is None:
        reason = f"{file} has no {metric} to compare with ({before.reason}); measure a new baseline that has"
        return Against("invalid", None, reason, "")
    threshold = factor * before.value
    holds = expression.holds(observed, threshold)
    dimension = metric.dimension
    base = told(before.value, dimension, observed)
    times = f"{observed / before.value:.2f} times the baseline of {base}" if before.value else f"the baseline is {base}"
    evidence = None
    if expression.op not in ("==", "!="):
        upwards = expression.op.startswith("<")
        evidence = _evidence(metric, metrics, baseline.metrics, not holds, factor, upwards, level)
    if evidence is None:
        note = f"{times}; one figure each, so that chance cannot be told"
        reason = f"it is {told(observed, dimension, threshold)}, {times}"
        return Against("pass" if holds else "fail", threshold, "" if holds else reason, note)
    if not evidence.enough:
        few = f"{_sizes(metric, metrics, baseline.metrics)} are too few to tell a change from chance"
        reason = f"it is {told(observed, dimension, threshold)}, and {few}; run more tasks"
        return Against("invalid", threshold, reason, times)
    if evidence.found == "whole":
        whole = f"all of {_distribution(metric)} is {_moved(evidence, metric)} ({_probability(evidence.p)})"
        alone = f"{metric.statistic} alone is {times}"
        return Against("fail", threshold, f"{whole}; {alone}", f"{whole}; {alone}")
    if evidence.found:
        note = f"{times} ({_probability(evidence.p)})"
        return Against("fail", threshold, f"it is {told(observed, dimension, threshold)}, {note}", note)
    if holds:
        return Against("pass", threshold, "", times)
    chance = f"{times}, which chance alone may do ({_probability(evidence.p)})"
    return Against("pass", threshold, "", chance + _blind(metric, metrics, baseline.metrics, level))


def _evidence(
    metric: Metric, now: SwarmMetrics, before: SwarmMetrics, beyond: bool, factor: float, upwards: bool, level: float
) -> Evidence | None:
    """What speaks for a change in the forbidden direction; None for a metric that has no values to test."""
    if metric.statistic is not None:
        samples = pooled(now, metric), pooled(before, metric)
        if not all(samples):
            return None
        return of_samples(metric.statistic, *samples, beyond=beyond, factor=factor, upwards=upwards, level=level)
    rates = rate_of(now, metric), rate_of(before, metric)
    if rates[0] is not None and rates[1] is not None:
        return of_rate(rates[0], rates[1], beyond=beyond, factor=factor, upwards=upwards, level=level)
    if metric.over_all_runs:
        return None
    return of_runs(
        *(per_run(one, metric) for one in (now, before)), beyond=beyond, factor=factor, upwards=upwards, level=level
    )


def pooled(metrics: SwarmMetrics, metric: Metric) -> Sequence[float]:
    """The sorted values of a distribution over all runs."""
    samples = [run.samples(metric) for run in metrics.runs]
    return samples[0] if len(samples) == 1 else sorted(chain.from_iterable(samples))


def rate_of(metrics: SwarmMetrics, metric: Metric) -> tuple[int, int] | None:
    """Hits and trials of a rate over all runs; None for what is none, or has no trial."""
    try:
        ratios = [ratio for run in metrics.runs if (ratio := run.ratio(metric)) is not None]
    except NoData:
        return None
    return (sum(hits for hits, _ in ratios), sum(trials for _, trials in ratios)) if ratios else None


def per_run(metrics: SwarmMetrics, metric: Metric) -> list[float]:
    """The sorted figures of those runs that have one."""
    return sorted(seen.value for seen in metrics.per_run(metric) if seen.value is not None)


def _probability(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _moved(evidence: Evidence, metric: Metric) -> str:
    if evidence.shift is None:
        return f"{evidence.ratio:.2f} times the baseline's"
    by = told(abs(evidence.shift), metric.dimension, 0)
    return f"{by} {'above' if evidence.shift > 0 else 'below'} the baseline's"


def _distribution(metric: Metric) -> str:
    return str(Metric(metric.name, metric.call_name))


def _sizes(metric: Metric, now: SwarmMetrics, before: SwarmMetrics) -> str:
    if metric.statistic is not None:
        return f"{now.size(metric)} values and {before.size(metric)} of the baseline"
    many = [0 if (rate := rate_of(one, metric)) is None else rate[1] for one in (now, before)]
    return f"{many[0]} trials and {many[1]} of the baseline"


def _blind(metric: Metric, now: SwarmMetrics, before: SwarmMetrics, level: float) -> str:
    """What change the samples would have shown."""
    if metric.name not in DISTRIBUTIONS and metric.family != "my":
        return ""
    seen = detectable(pooled(now, metric), pooled(before, metric), level)
    return "" if seen is None else f"; so many values show a shift of the whole by {(seen - 1) * 100:.0f} % or more"
