"""Whether a figure is that of the system under test, or of the process that tested it.

A process that is late adds to every time it measures, and puts less load on the system than the plan says. What counts
is the delay of an event at a random moment, in the statistic that the level is about: a p95 is distorted by what delays
one event in twenty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pytest_swarm.columns import Audit
from pytest_swarm.judging import statistics
from pytest_swarm.judging.catalogue import Dimension
from pytest_swarm.judging.metrics import SwarmMetrics
from pytest_swarm.judging.sla import Expression

__all__ = ["SHARE", "allowance", "distortion"]

SHARE: Final = 0.1
"""Of a level, of a latency or of a planned rate: what may be the process's own without a word."""
USUAL_DELAY: Final = 0.05
"""Seconds that a busy machine takes now and then; allowed for levels that they are not most of."""
MOST: Final = 0.5
"""Of a level: never is more allowed."""

_LESS_LOAD: Final = "plan a lower rate or fewer tasks in flight, or run it on a faster machine"


def allowance(threshold: float) -> float:
    """Seconds by which a process may be late where a time is held against `threshold`."""
    return max(SHARE * threshold, min(USUAL_DELAY, MOST * threshold))


def distortion(expression: Expression, observed: float, threshold: float, metrics: SwarmMetrics) -> str:
    """Why a line cannot be told, as the process itself was too late; empty where it can.

    A level that would be missed without the delay as well is missed. One that a slowed process has reached all the
    same, as a throughput, is reached.
    """
    audits = [run.run.audit for run in metrics.runs if run.run.audit is not None]
    if not audits:
        return ""
    if expression.metric.dimension is Dimension.SECONDS:
        return _of_time(expression, observed, threshold, audits)
    if expression.metric.dimension is Dimension.PER_SECOND and not expression.holds(observed, threshold):
        return _of_rate(expression, observed, threshold, audits, metrics)
    return ""


def _of_time(expression: Expression, observed: float, threshold: float, audits: Sequence[Audit]) -> str:
    statistic = _statistic(expression.metric.statistic)
    if statistic is None:
        return ""
    lag = statistics.median([statistic(audit.lags) for audit in audits])
    late = statistics.median([statistic(audit.late) for audit in audits])
    own = max(lag, late) if expression.metric.name == "user_latency" else lag
    holds = expression.holds(observed, threshold)
    if not holds and not expression.holds(observed - own, threshold):
        return ""
    allowed = allowance(threshold)
    if lag > allowed:
        told = f"{_whose(audits)} was {_time(lag)} late itself at its {expression.metric.statistic}"
        return f"{told}, more than the {_time(allowed)} that a level of {_time(threshold)} allows; {_remedy(audits)}"
    if own > allowed:
        return f"tasks started {_time(late)} late at their {expression.metric.statistic}; {_LESS_LOAD}"
    return _undelivered(audits) if holds else ""


def _of_rate(
    expression: Expression, observed: float, threshold: float, audits: Sequence[Audit], metrics: SwarmMetrics
) -> str:
    """Of a rate that was not reached."""
    behind = _undelivered(audits)
    if behind:
        return behind
    latency = metrics.observe("latency.mean").value
    lag = statistics.median([_mean(audit.lags) for audit in audits])
    share = 0.0 if not latency else min(1.0, lag / latency)
    reachable = share == 1 or expression.holds(observed / (1 - share), threshold)
    if share <= SHARE or not reachable:
        return ""
    return f"{_whose(audits)} was late itself for {share * 100:.2g}% of the mean latency; {_remedy(audits)}"


def _undelivered(audits: Sequence[Audit]) -> str:
    known = [(audit.undelivered, audit.late) for audit in audits if audit.undelivered is not None]
    if not known:
        return ""
    share = statistics.median([undelivered for undelivered, _ in known])
    latest = max(_largest(late) for _, late in known)
    if share <= SHARE or latest <= USUAL_DELAY:
        return ""
    return f"{share * 100:.2g}% of the planned rate was not delivered: starts fell {_time(latest)} behind; {_LESS_LOAD}"


def _whose(audits: Sequence[Audit]) -> str:
    return "the process of the test" if audits[0].threads else "the event loop of the test"


def _remedy(audits: Sequence[Audit]) -> str:
    where = next((audit.blocked_at for audit in audits if audit.blocked_at is not None), None)
    if where is not None:
        return f"it was blocked at {where}: await there, or move the work away with asyncio.to_thread"
    return f"make the body async, {_LESS_LOAD}" if audits[0].threads else _LESS_LOAD


def _statistic(name: str | None) -> Callable[[Sequence[float]], float] | None:
    """The statistic of sorted delays; None where delays say nothing."""
    if name is not None and name.startswith("p"):
        percentile = float(name[1:])
        return lambda values: statistics.percentile(values, percentile) if values else 0.0
    return {"mean": _mean, "max": _largest}.get(name or "")


def _mean(values: Sequence[float]) -> float:
    return statistics.mean(values) if values else 0.0


def _largest(values: Sequence[float]) -> float:
    return values[-1] if values else 0.0


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.3g}s"
