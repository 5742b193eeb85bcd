"""Early decision: whether a service level can no longer be met, whatever the rest of the run brings.

Exact curtailment: a level is given up only when its verdict is certain. The best that can come is assumed of the tasks
that have not ended: that they pass, in no time, without an error and for nothing. So a run that was ended early fails
exactly where the whole run would have failed.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import Final

from pytest_swarm.judging.sla import Expression
from pytest_swarm.records import Call, Task

__all__ = ["Curtailment"]

_RATES: Final = ("success_rate", "error_rate")
_LATENCIES: Final = ("latency", "user_latency")
_SUMS: Final = ("calls", "attempts", "retries", "cost")
_UNCOUNTED: Final = ("skipped", "cancelled")


class Curtailment:
    """Follows the rows of a swarm, and says when one of its levels is lost.

    Only upper bounds of counts and costs, rates of tasks, and percentiles and maxima of task latencies can be decided
    before the end; rates and percentiles only in a single run of a known number of tasks. All other levels wait.
    """

    def __init__(self, expressions: Iterable[Expression], tasks: int | None) -> None:
        """`tasks` is how many tasks the only run has; None where there are more runs, or nobody can know."""
        self._tasks = tasks
        self._watched = [expression for expression in expressions if self._decidable(expression)]
        self._latencies: dict[str, list[float]] = {
            name: [] for name in _LATENCIES if any(one.metric.name == name for one in self._watched)
        }
        self._sums: dict[str, float] = dict.fromkeys(_SUMS, 0.0)
        self._ended = self._counted = self._passed = 0
        self._priced = True
        """Whether the cost of every call so far is known."""

    def task_ended(self, task: Task) -> str | None:
        """Take the row of a finished task; the sentence that ends the run, or None."""
        if task.warmup or task.rescheduled:
            return None
        self._ended += 1
        if task.status not in _UNCOUNTED:
            self._counted += 1
        if task.status == "passed":
            self._passed += 1
            for name, values in self._latencies.items():
                insort(values, task.end - (task.start if name == "latency" else task.due))
        return self._decide()

    def call_ended(self, call: Call) -> str | None:
        """Take a finished call; the sentence that ends the run, or None."""
        if call.warmup or call.outcome == "other":
            return None
        sums = self._sums
        sums["calls"] += 1
        sums["attempts"] += len(call.attempts)
        sums["retries"] += max(0, len(call.attempts) - 1)
        self._priced = self._priced and call.cost is not None
        sums["cost"] += call.cost or 0.0
        error = f"errors.{call.outcome}"
        sums[error] = sums.get(error, 0.0) + 1
        return self._decide()

    def _decidable(self, expression: Expression) -> bool:
        metric, upwards = expression.metric, expression.op in ("<", "<=")
        if not expression.abort or expression.threshold is None or metric.call_name is not None:
            return False
        if metric.name in _SUMS or metric.family == "errors":
            return upwards
        if metric.name in _RATES:
            return self._tasks is not None and upwards is (metric.name == "error_rate")
        of_tail = metric.percentile is not None or metric.statistic == "max"
        return self._tasks is not None and upwards and metric.name in _LATENCIES and of_tail

    def _decide(self) -> str | None:
        for expression in self._watched:
            best = self._best(expression)
            assert expression.threshold is not None
            if best is not None and not expression.holds(best, expression.threshold):
                return self._told(expression)
        return None

    def _best(self, expression: Expression) -> float | None:
        """The best that the metric can still be; None as long as nothing is known of it."""
        metric = expression.metric
        if metric.name == "cost" and not self._priced:
            return None
        if metric.name in _SUMS or metric.family == "errors":
            return self._sums.get(metric.name, 0.0)
        left = (self._tasks or 0) - self._ended
        if metric.name in _RATES:
            offered = left + self._counted
            rate = (left + self._passed) / offered if offered else None
            return rate if rate is None or metric.name == "success_rate" else 1 - rate
        values = self._latencies[metric.name]
        if not values:
            return None
        return _percentile_below(values, left, 100.0 if metric.percentile is None else metric.percentile)

    def _told(self, expression: Expression) -> str:
        of = f" of {self._tasks}" if self._tasks is not None else ""
        told = f"decided after {self._ended}{of} tasks: {expression} can no longer be met"
        if self._tasks is None or not self._ended:
            return told
        left = self._tasks - self._ended
        told += f"; {left} {'task was' if left == 1 else 'tasks were'} not finished"
        cost = self._sums["cost"]
        return f"{told}, which saves some ${cost / self._ended * left:.3g}" if self._priced and cost else told


def _percentile_below(values: list[float], fast: int, p: float) -> float:
    """The linear percentile (Hyndman-Fan 7) of sorted values and of `fast` further ones that take no time at all."""
    position = (fast + len(values) - 1) * (p / 100)
    below = int(position)

    def at(rank: int) -> float:
        return values[rank - fast] if rank >= fast else 0.0

    low, high, share = at(below), at(min(below + 1, fast + len(values) - 1)), position - below
    # As `statistics.percentile`, so that both agree to the last digit.
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)
