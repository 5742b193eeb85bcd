"""The test record: the one plain structure that every report reads. It crosses process borders as it is."""

# ruff: noqa: PT028 - `test_record` is the record of a test, no test function.

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pytest_swarm.columns import Failure, RunResult, SwarmResult
from pytest_swarm.judging.metrics import SwarmMetrics
from pytest_swarm.judging.observation import Observation
from pytest_swarm.judging.prices import NOT_BILLED
from pytest_swarm.judging.sla import parse_metric
from pytest_swarm.judging.spending import cost_sources, divergence
from pytest_swarm.judging.verdict import Judgement
from pytest_swarm.judging.workloads import Fit
from pytest_swarm.records import CALL_OUTCOMES, REPLY_OUTCOMES
from pytest_swarm.redaction import redact_text
from pytest_swarm.reports.audit import audit_of, worst_audit
from pytest_swarm.reports.load import load_of

__all__ = ["test_record"]

BOUNDED: Final = tuple(f"{name}.{percentile}" for name in ("latency", "ttft") for percentile in ("p50", "p95", "p99"))
"""Percentiles whose upper bounds are told beside them."""
EXAMPLE_LENGTH: Final = 500
MOST_FREQUENT: Final = 10
"""JSON errors that are told."""
UNNAMED: Final = "(unnamed)"
"""Where the cost of calls goes that named no model."""

_FREE: Final = frozenset(map(CALL_OUTCOMES.index, (*NOT_BILLED, "other")))
_REPLIES: Final = frozenset(map(CALL_OUTCOMES.index, REPLY_OUTCOMES))


def test_record(
    result: SwarmResult,
    judgement: Judgement,
    *,
    test: str,
    param_model: str | None = None,
    simulated: str | None = None,
    replay: dict[str, Any] | None = None,
    ceiling: dict[str, Any] | None = None,
    without_cache: Observation | None = None,
    baseline: dict[str, Any] | None = None,
    workloads: Iterable[Fit] = (),
) -> dict[str, Any]:
    """The record of one test, as plain data.

    `test` is the node id without parameters, `param_model` the model when the test is parametrised by it. `simulated`
    says by whom no model was called; it is made up when the result's own gateway is the simulated one. `replay` tells
    of the cassette that was played (`replaying.Replaying.to_dict`), where one was. `ceiling` is how
    the test's own cost ceiling stands (`traffic.budget.Standing.to_dict`). `without_cache` is what a task would have
    cost without prompt caches, where somebody wanted to know. `baseline` is how the test has moved since a former run
    (`judging.change.changes`), where there is one to compare with. `workloads` is how the user's workloads fit.
    """
    metrics = judgement.metrics
    if simulated is None and result.gateway_kind == "simulated":
        simulated = f"simulated gateway, {result.clock} time"
    if replay is not None and replay["simulated"] is not None:
        simulated = "recorded from a simulated gateway"
    table = metrics.table()
    base_url = None if result.base_url is None else redact_text(result.base_url)
    return {
        "nodeid": result.nodeid,
        "test": test,
        "model": result.model,
        "param_model": param_model,
        "gateway": {"kind": result.gateway_kind, "base_url": base_url},
        "clock": result.clock,
        "simulated": simulated,
        "replay": replay,
        "plan": result.plan,
        "in_flight_max": max((run.in_flight_max for run in result.runs), default=0),
        "verdict": judgement.verdict,
        "reasons": list(judgement.reasons),
        "sla": [{**line.to_dict(), "note": line.note} for line in judgement.lines],
        "metrics": table,
        "bounds": {name: metrics.bounds(parse_metric(name), judgement.confidence)[1] for name in BOUNDED},
        "confidence": judgement.confidence,
        "runs": _runs(metrics),
        "errors": {
            name.removeprefix("errors."): int(many)
            for name, many in table.items()
            if name.startswith("errors.") and many
        },
        "failures": _failures(result.runs),
        "json_errors": _json_errors(result.runs),
        "notes": [
            *result.notes,
            *_why_unpriced(metrics, judgement),
            *_costs_apart(result.runs),
            *_unlike_baseline(baseline),
        ],
        "audit": worst_audit([audit_of(run) for run in result.runs]),
        "spent": _spent(result.runs),
        "without_cache": None
        if without_cache is None
        else {"cost_per_task": without_cache.value, "reason": without_cache.reason},
        "workloads": [fit.to_dict() for fit in workloads],
        "baseline": baseline,
        "cost_sources": dict(sum(map(cost_sources, result.runs), Counter())),
        "ceiling": ceiling,
        "search": None,
        "rows": result.rows,
    }


def _runs(metrics: SwarmMetrics) -> list[dict[str, Any]]:
    return [
        {
            "index": run.run.index,
            "metrics": run.table(),
            "interrupted": run.run.interrupted,
            "load": load_of(run.run),
            "audit": audit_of(run.run),
        }
        for run in metrics.runs
    ]


def _failures(runs: Iterable[RunResult]) -> list[dict[str, Any]]:
    """What was not ok, by kind and outcome over all runs, with the first example of each."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        for kind, failures in (("task", run.task_failures), ("call", run.call_failures)):
            for outcome, failure in failures.items():
                entry = found.setdefault((kind, outcome), _failure(kind, outcome, failure))
                entry["count"] += failure.count
    return list(found.values())


def _failure(kind: str, outcome: str, first: Failure) -> dict[str, Any]:
    return {"kind": kind, "outcome": outcome, "count": 0, "example": redact_text(first.example)[:EXAMPLE_LENGTH]}


def _json_errors(runs: Iterable[RunResult]) -> list[dict[str, Any]]:
    """What was most often wrong with replies as JSON, over all runs, with one example each."""
    found: dict[str, dict[str, Any]] = {}
    for run in runs:
        for kind, failure in run.json_errors.items():
            error = redact_text(kind)[:EXAMPLE_LENGTH]
            example = redact_text(failure.example)[:EXAMPLE_LENGTH]
            found.setdefault(kind, {"error": error, "count": 0, "example": example})["count"] += failure.count
    return sorted(found.values(), key=lambda entry: -entry["count"])[:MOST_FREQUENT]


def _why_unpriced(metrics: SwarmMetrics, judgement: Judgement) -> list[str]:
    """Why the cost is unknown, unless a service level says so already."""
    cost, calls = metrics.observe("cost"), metrics.observe("calls")
    told = any(cost.reason in reason for reason in judgement.reasons)
    return [] if cost.value is not None or not calls.value or told else [f"the cost is unknown: {cost.reason}"]


def _costs_apart(runs: Iterable[RunResult]) -> list[str]:
    """Where the gateway reports other costs than our prices give."""
    apart = divergence(runs)
    return [] if apart is None else [str(apart)]


def _unlike_baseline(baseline: Mapping[str, Any] | None) -> Iterator[str]:
    """Why figures may differ from those of the baseline though the system under test is the same."""
    if baseline is None:
        return
    if baseline["missing"] is not None:
        yield baseline["missing"]
    elif baseline["differences"]:
        yield f"not the same as in the baseline {baseline['file']}: {', '.join(baseline['differences'])}"
    if baseline["verdict"] in ("fail", "error", "interrupted"):
        yield f"the baseline's own verdict is {baseline['verdict']}"


def _spent(runs: Iterable[RunResult]) -> dict[str, Any]:
    """US dollars by model, warm-up too: `{"by_model": {model: dollars or None}, "unpriced_calls"}`.

    None for a model with a call that may have been billed, and nobody knows how much.
    """
    priced: dict[str, list[float]] = {}
    unpriced: Counter[str] = Counter()
    for run in runs:
        calls = run.calls
        for code, cost, outcome, sent in zip(calls.model, calls.cost, calls.outcome, calls.sent, strict=True):
            model = calls.names.texts[code] or UNNAMED
            if not math.isnan(cost):
                priced.setdefault(model, []).append(cost)
            elif outcome not in _FREE and (outcome in _REPLIES or not math.isnan(sent)):
                unpriced[model] += 1
    models = sorted({*priced, *unpriced})
    by_model = {model: None if unpriced[model] else math.fsum(priced[model]) for model in models}
    return {"by_model": by_model, "unpriced_calls": unpriced.total()}
