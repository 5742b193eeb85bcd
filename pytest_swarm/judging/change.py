"""How every figure of a test has moved since its baseline, and whether chance alone may have done it."""

from __future__ import annotations

from typing import Any, Final

from pytest_swarm.columns import SwarmResult
from pytest_swarm.judging.baseline import Baseline, NoBaseline, per_run, pooled, rate_of
from pytest_swarm.judging.catalogue import Metric
from pytest_swarm.judging.metrics import SwarmMetrics, table_metrics
from pytest_swarm.judging.rank_tests import mann_whitney, scale_ratio
from pytest_swarm.judging.regression import FEWEST_RUNS, detectable, figure_test
from pytest_swarm.judging.two_samples import Sides, fisher

__all__ = ["changes"]

_TEST_OF: Final = {"mean": "welch"}
"""By statistic; all others that have a test are percentiles."""


def changes(
    result: SwarmResult, metrics: SwarmMetrics, baseline: Baseline | NoBaseline, level: float
) -> dict[str, Any]:
    """The `baseline` of a test in the JSON report.

    `metrics` has every metric that both runs know: `{"baseline", "now", "change", "p", "test", "significant"}`, with
    `change` as a share of the former figure. `distributions` has the factor of the whole: `{"ratio", "p", "detectable",
    "values", "baseline_values"}`. All p-values are two-sided; None stands for what has no test, or no such figure.
    """
    if isinstance(baseline, NoBaseline):
        return {**_head(baseline.file, missing=baseline.reason), "differences": [], "metrics": {}, "distributions": {}}
    former = baseline.former
    compared = {
        str(one): _figure(one, metrics, baseline, level) for one in table_metrics(run.run for run in metrics.runs)
    }
    names = dict.fromkeys(
        Metric(name.rpartition(".")[0], None, "p50")
        for name, found in compared.items()
        if found and found["test"] == "tail"
    )
    return {
        **_head(former.file, created=former.created, verdict=former.verdict),
        "differences": baseline.differences(result),
        "metrics": {name: found for name, found in compared.items() if found is not None},
        "distributions": {name.name: _whole(name, metrics, baseline, level) for name in names},
    }


def _head(
    file: str | None, *, created: str | None = None, verdict: str | None = None, missing: str | None = None
) -> dict[str, Any]:
    return {"file": file, "created": created, "verdict": verdict, "missing": missing}


def _figure(metric: Metric, metrics: SwarmMetrics, baseline: Baseline, level: float) -> dict[str, Any] | None:
    now, before = metrics.observe(metric).value, baseline.observe(metric).value
    if now is None or before is None:
        return None
    test, sides = _tested(metric, metrics, baseline.metrics, level)
    return {
        "baseline": before,
        "now": now,
        "change": now / before - 1 if before else None,
        "p": None if sides is None else sides.both,
        "test": test,
        "significant": None if sides is None else sides.both <= level,
    }


def _tested(metric: Metric, now: SwarmMetrics, before: SwarmMetrics, level: float) -> tuple[str | None, Sides | None]:
    """The name of the test, and what came of it."""
    if metric.statistic is not None:
        samples = pooled(now, metric), pooled(before, metric)
        sides = figure_test(metric.statistic, *samples, level / 2) if all(samples) else None
        return (None if sides is None else _TEST_OF.get(metric.statistic, "tail")), sides
    rates = rate_of(now, metric), rate_of(before, metric)
    if rates[0] is not None and rates[1] is not None:
        return "fisher", fisher(rates[0], rates[1])
    figures = per_run(now, metric), per_run(before, metric)
    if metric.over_all_runs or min(map(len, figures)) < FEWEST_RUNS:
        return None, None
    return "mann_whitney", mann_whitney(*figures)


def _whole(metric: Metric, metrics: SwarmMetrics, baseline: Baseline, level: float) -> dict[str, Any]:
    now, before = pooled(metrics, metric), pooled(baseline.metrics, metric)
    p = mann_whitney(now, before).both
    return {
        "ratio": scale_ratio(now, before),
        "p": p,
        "significant": p <= level,
        "detectable": detectable(now, before, level),
        "values": len(now),
        "baseline_values": len(before),
    }
