"""Counting what a running swarm does, for the progress line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_swarm.records import Call, Task
    from pytest_swarm.reports.progress import Progress, ProgressLine
    from pytest_swarm.swarm.conductor import Conductor

__all__ = ["ProgressWatch"]

RECENT = 200
"""Tasks of which the percentile on the line is: the latest ones."""


class ProgressWatch:
    """A `swarm.conductor.Watcher` that keeps a `reports.progress.ProgressLine` up to date."""

    def __init__(self, line: ProgressLine, name: str) -> None:
        self._line = line
        self._name = name
        self._conductor: Conductor | None = None
        self._recent: list[float] = []
        self._done = self._failed = 0
        self._cost: float | None = 0.0

    def watch(self, conductor: Conductor) -> None:
        """Tell of this conductor's runs."""
        self._conductor = conductor
        self._recent, self._done, self._failed = [], 0, 0

    def call_ended(self, call: Call) -> None:
        """A call is over."""
        if call.outcome != "other" and self._cost is not None:
            self._cost = None if call.cost is None else self._cost + call.cost
        self._line.update(self._state)

    def task_ended(self, task: Task) -> None:
        """A task is over."""
        if not task.warmup and not task.rescheduled:
            self._done += 1
            self._failed += task.status not in {"passed", "skipped", "cancelled"}
            self._recent = [*self._recent[1 - RECENT :], task.end - task.start]
        self._line.update(self._state)

    def _state(self) -> Progress:
        from pytest_swarm.judging.statistics import percentile
        from pytest_swarm.reports.progress import Progress

        conductor = self._conductor
        plan = None if conductor is None else conductor.plan
        total = None if plan is None or plan.tasks is None else plan.tasks * plan.repeat
        p95 = percentile(sorted(self._recent), 95) if self._recent else None
        in_flight = 0 if conductor is None else conductor.in_flight
        return Progress(self._name, self._done, total, in_flight, p95, self._failed, self._cost)
