"""The table of a test's main figures beside those of its baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_swarm.reports.figures import ellipsis_end, figure, one_line
from pytest_swarm.reports.layout import table

__all__ = ["baseline_lines"]

SHOWN: Final = (
    *("latency.p50", "latency.p95", "latency.p99", "ttft.p50", "ttft.p95", "success_rate"),
    *("throughput", "output_tokens.mean", "cost_per_100"),
)
WHOLE: Final = ("latency", "ttft")
"""Distributions of which a row tells how all of it has moved."""


def baseline_lines(baseline: Mapping[str, Any] | None, width: int) -> list[str]:
    """A row per figure: before, now, the change, and whether chance alone may have made it."""
    if baseline is None:
        return []
    name = one_line(baseline["file"])
    if baseline["missing"] is not None:
        return [ellipsis_end(f"{name} does not have this test", width)]
    created = "" if baseline["created"] is None else f" of {one_line(baseline['created'])}"
    metrics, distributions = baseline["metrics"], baseline["distributions"]
    rows = [["", "then", "now", "change", "chance"]]
    for metric in SHOWN:
        found = metrics.get(metric)
        if found is not None:
            change = "" if found["change"] is None else _signed(found["change"])
            then, now = figure(metric, found["baseline"]), figure(metric, found["now"])
            rows.append([metric, then, now, change, _chance(found["p"], found["significant"])])
    for name_of_all in WHOLE:
        whole = distributions.get(name_of_all)
        if whole is not None and whole["ratio"] is not None:
            change = _signed(whole["ratio"] - 1)
            rows.append([f"all of {name_of_all}", "", "", change, _chance(whole["p"], whole["significant"])])
    lines = [f"{name}{created}", *table(rows, "<>>><"), "* more than chance may do; -: one figure each, and so no test"]
    return [ellipsis_end(line, width) for line in lines]


def _signed(change: float) -> str:
    return f"{change * 100:+.1f}%" if abs(change) >= 0.0005 else "same"


def _chance(p: float | None, significant: bool | None) -> str:
    if p is None:
        return "-"
    return f"p {'< 0.001' if p < 0.001 else f'= {p:.2g}'}{' *' if significant else ''}"
