"""What the testing process itself did to a run: as data, and as a line of the summary."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_swarm.columns import RunResult
from pytest_swarm.judging import statistics
from pytest_swarm.records import CALL_OUTCOMES
from pytest_swarm.reports.figures import figure, one_line

__all__ = ["audit_items", "audit_of", "worst_audit"]

_OTHER: Final = CALL_OUTCOMES.index("other")
_WORTH_TELLING: Final = 0.001
"""Seconds of lateness."""


def audit_of(run: RunResult) -> dict[str, Any] | None:
    """The entry of the JSON report; None for a run on the virtual clock. Times are in seconds, unknown is None."""
    audit = run.audit
    if audit is None:
        return None
    span = _span(run)
    latencies = map(float.__sub__, run.tasks.end, run.tasks.start)
    calls = [run.calls.latency[position] for position in _calls_of_tasks(run)]
    calls = [latency for latency in calls if not math.isnan(latency)]
    return {
        "watched": "threads" if audit.threads else "event loop",
        "moments": len(audit.lags),
        **_statistics("lag", audit.lags),
        "blocked_at": audit.blocked_at,
        **_statistics("late", audit.late),
        "undelivered": audit.undelivered,
        **_statistics("first_send", _first_sends(run)),
        "in_flight_max": run.in_flight_max,
        "in_flight_mean": audit.in_flight_mean,
        "little": None if span is None else math.fsum(latencies) / span,
        "calls_in_flight_mean": None if span is None else math.fsum(calls) / span,
    }


def _statistics(name: str, values: Sequence[float]) -> dict[str, float | None]:
    """Of sorted values."""
    if not values:
        return dict.fromkeys((f"{name}_mean", f"{name}_p50", f"{name}_p95", f"{name}_p99", f"{name}_max"))
    percentiles = {f"{name}_p{p}": statistics.percentile(values, p) for p in (50, 95, 99)}
    return {f"{name}_mean": statistics.mean(values), **percentiles, f"{name}_max": values[-1]}


def _span(run: RunResult) -> float | None:
    """Seconds from the first start to the last end of all tasks, warm-up too."""
    if not len(run.tasks):
        return None
    span = max(run.tasks.end) - min(run.tasks.start)
    return span if span > 0 else None


def _calls_of_tasks(run: RunResult) -> Iterator[int]:
    """Positions of the model calls that tasks made."""
    outcomes = zip(run.calls.task, run.calls.outcome, strict=True)
    return (position for position, (task, outcome) in enumerate(outcomes) if task >= 0 and outcome != _OTHER)


def _first_sends(run: RunResult) -> array[float]:
    """From the start of each task to the first model call that it sent, sorted."""
    starts: dict[tuple[int, int], float] = {}
    for index, warmup, start in zip(run.tasks.index, run.tasks.warmup, run.tasks.start, strict=True):
        starts[index, warmup] = min(starts.get((index, warmup), math.inf), start)
    first: dict[tuple[int, int], float] = {}
    for position in _calls_of_tasks(run):
        key, sent = (run.calls.task[position], run.calls.warmup[position]), run.calls.sent[position]
        if key in starts and not math.isnan(sent):
            first[key] = min(first.get(key, math.inf), sent)
    return array("d", sorted(sent - starts[key] for key, sent in first.items()))


def worst_audit(audits: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """The largest of every figure over the runs: what is audited is a distortion, and the larger the worse."""
    known = [audit for audit in audits if audit is not None]
    if not known:
        return None
    worst: dict[str, Any] = {}
    for name in known[0]:
        values = [audit[name] for audit in known if audit[name] is not None]
        texts = any(isinstance(value, str) for value in values)
        worst[name] = (values[-1] if texts else max(values)) if values else None
    return worst


def audit_items(audit: Mapping[str, Any] | None) -> list[str]:
    """What the summary says of it."""
    if audit is None:
        return []

    def time(name: str) -> str:
        return figure("latency.p50", audit[name])

    items = []
    if audit["lag_p99"] is not None:
        items.append(f"{audit['watched']} late by p99 {time('lag_p99')}, max {time('lag_max')}")
    if audit["blocked_at"] is not None:
        items.append(f"blocked at {one_line(audit['blocked_at'])}")
    if audit["late_p99"] is not None and audit["late_max"] > _WORTH_TELLING:
        items.append(f"starts late by p99 {time('late_p99')}, max {time('late_max')}")
    if audit["in_flight_mean"] is not None and audit["little"] is not None:
        items.append(f"{audit['in_flight_mean']:.3g} in flight on average, {audit['little']:.3g} by Little's law")
    return items
