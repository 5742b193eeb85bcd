"""Models side by side: tests that are parametrised by model, one table per test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_swarm.judging.catalogue import Dimension
from pytest_swarm.judging.sla import parse_metric
from pytest_swarm.reports.groups import compared_groups

__all__ = ["COMPARED", "compare"]

Record = Mapping[str, Any]


COMPARED: Final = (
    "latency.p50",
    "latency.p95",
    "latency.p99",
    "ttft.p50",
    "success_rate",
    "throughput",
    "steady_throughput",
    "output_tokens.mean",
    "cost_per_100",
)
"""The metrics of the table; `ttft.p50` is left out where no model was asked for streams."""
_NEITHER_IS_BETTER: Final = frozenset({"output_tokens.mean"})
_SAME_RATIO: Final = 1.005
_SAME_POINTS: Final = 0.0005


def compare(records: Sequence[Record]) -> list[dict[str, Any]]:
    """A table for every test that ran to its end with two models or more; the `comparison` of the JSON report.

    Each is `{"test", "simulated", "rows": [{"metric", "values": {model: figure or None}, "best", "advantage"}]}`.
    `best` is a model or None: figures that differ by less than half a percent (of shares: 0.05 points) are equal, and
    nothing is best where fewer than two models have the figure. `advantage` says by how much the best leads the next.
    """
    return [
        {
            "test": test,
            "simulated": any(record["simulated"] for record in by_model.values()),
            "rows": _rows({model: record["metrics"] for model, record in by_model.items()}),
        }
        for test, by_model in compared_groups(records)
        if len(by_model) > 1
    ]


def _rows(metrics: Mapping[str, Mapping[str, float | None]]) -> list[dict[str, Any]]:
    rows = []
    for metric in COMPARED:
        values = {model: of_model.get(metric) for model, of_model in metrics.items()}
        if metric == "ttft.p50" and all(value is None for value in values.values()):
            continue
        best, advantage = _best(metric, values)
        rows.append({"metric": metric, "values": values, "best": best, "advantage": advantage})
    return rows


def _best(metric: str, values: Mapping[str, float | None]) -> tuple[str | None, str]:
    """The better model, and how far it is ahead of the next one."""
    known = {model: value for model, value in values.items() if value is not None}
    if metric in _NEITHER_IS_BETTER or len(known) < 2:
        return None, ""
    first, second = sorted(known, key=known.__getitem__, reverse=parse_metric(metric).higher_is_better)[:2]
    advantage = _advantage(parse_metric(metric).dimension, known[first], known[second])
    return (first, advantage) if advantage else (None, "equal")


def _advantage(dimension: Dimension, best: float, other: float) -> str:
    """`26% faster`: how much better `best` is than `other`; empty when they are equal.

    Times compare by speed (1.84 s to 2.32 s: 26 % faster), prices by what is saved (3 to 4 dollars: 25 % cheaper); both
    by the factor from two on.
    """
    if dimension is Dimension.SHARE:
        return f"+{(best - other) * 100:.1f} points" if best - other >= _SAME_POINTS else ""
    word = {Dimension.SECONDS: "faster", Dimension.DOLLARS: "cheaper"}.get(dimension, "more")
    low, high = sorted((best, other))
    if low <= 0:
        return word if high > low else ""
    ratio = high / low
    if ratio < _SAME_RATIO:
        return ""
    if ratio >= 1.995:
        return f"{ratio:.1f}x {word}"
    percent = (1 - 1 / ratio if dimension is Dimension.DOLLARS else ratio - 1) * 100
    return f"{percent:.0f}% {word}"
