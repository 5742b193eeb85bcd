"""Figures of the tasks of one run. Warm-up is in none of them; skipped and cancelled tasks are in no rate."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Final

from pytest_swarm.columns import TaskColumns
from pytest_swarm.judging.observation import NoData
from pytest_swarm.judging.sla import TaskBound
from pytest_swarm.records import TASK_STATUSES

__all__ = ["MeasuredTasks"]

_PASSED: Final = TASK_STATUSES.index("passed")
_UNCOUNTED: Final = frozenset({TASK_STATUSES.index("skipped"), TASK_STATUSES.index("cancelled")})
_FATE: Final = {
    "failed": "failed",
    "skipped": "were skipped",
    "cancelled": "were cancelled",
    "timeout": "timed out",
    "json_invalid": "got invalid JSON",
    "schema_invalid": "got JSON that does not fit the schema",
    "shed": "were shed",
}
_STEADY_TASKS: Final = 10
"""Fewer tasks have no first tenth."""


class MeasuredTasks:
    """The tasks of one run that are measured.

    Attributes:
        statuses: how many tasks ended in which status, skipped and cancelled ones included; `shed` are those that were
            due and never started.
        counted: how many tasks count: all but skipped and cancelled ones, and those that were shed.
        offered: how many tasks rates are of: those that count, and those that were shed.
        passed: how many of these passed.
    """

    def __init__(self, columns: TaskColumns, shed: int = 0) -> None:
        """The row of a task that was run again stands for none; `shed` of the cancelled ones were never started."""
        self._columns = columns
        measured = [not warmup and not again for warmup, again in zip(columns.warmup, columns.rescheduled, strict=True)]
        codes = Counter(compress(columns.status, measured))
        self.statuses = Counter({TASK_STATUSES[code]: many for code, many in sorted(codes.items())})
        if shed:
            self.statuses["shed"] = shed
            self.statuses["cancelled"] -= shed
            self.statuses = +self.statuses
        self._counted = [
            wanted and status not in _UNCOUNTED for wanted, status in zip(measured, columns.status, strict=True)
        ]
        self._begun = [
            counts or (again and not warmup)
            for counts, again, warmup in zip(self._counted, columns.rescheduled, columns.warmup, strict=True)
        ]
        self._passed = [wanted and status == _PASSED for wanted, status in zip(measured, columns.status, strict=True)]
        self.counted = sum(self._counted)
        self.offered = self.counted + shed
        self.passed = self.statuses["passed"]

    def figures(self, name: str) -> array[float]:
        """One value per passed task, sorted; tasks that do not know theirs are left out."""
        columns = self._columns
        if name == "latency":
            values: Iterable[float] = map(float.__sub__, columns.end, columns.start)
        elif name == "user_latency":
            values = map(float.__sub__, columns.end, columns.due)
        else:
            values = getattr(columns, name)
        return array("d", sorted(value for value in compress(values, self._passed) if not math.isnan(value)))

    def why_no_figures(self, name: str) -> str:
        """Why `figures` are empty."""
        if not self.passed:
            return self._why_none_passed()
        if not any(compress(self._columns.calls, self._passed)):
            return f"no data: no task made a model call, so there are no {name}"
        return f"no data: no task knows its {name}, since replies did not tell them"

    def why_uncounted(self) -> str:
        """Why no task counts."""
        return f"no data: {self._fates(self.statuses) or 'no task was finished'}"

    def _why_none_passed(self) -> str:
        return f"no data: {self._fates(self.statuses)}" if self.counted else self.why_uncounted()

    @staticmethod
    def _fates(statuses: Counter[str]) -> str:
        many = statuses.total()
        if len(statuses) == 1:
            (status,) = statuses
            fate = _FATE[status]
            return f"all {many} tasks {fate}" if many > 1 else f"the only task {fate.replace('were', 'was')}"
        told = ", ".join(f"{count} {status}" for status, count in statuses.items())
        return f"none of {many} tasks passed ({told})" if many else ""

    def success(self) -> tuple[int, int]:
        """How many tasks passed, of how many that were offered."""
        return self.passed, self.offered

    def span(self) -> float:
        """Seconds from the first start to the last end of the tasks that count."""
        if not self.counted:
            raise NoData(self.why_uncounted())
        last_end = max(compress(self._columns.end, self._counted))
        seconds = last_end - min(compress(self._columns.start, self._begun))
        if not seconds > 0:
            raise NoData("no data: the tasks took no time")
        return seconds

    def throughput(self) -> float:
        """Passed tasks per second from the first start to the last end."""
        return self.passed / self.span()

    def steady_throughput(self) -> float:
        """What the system sustains, without start and drain.

        Passed tasks that ended after the first tenth of all tasks had ended and not after the last start, per second of
        that time.
        """
        if self.counted < _STEADY_TASKS:
            raise NoData(
                f"no data: steady_throughput needs {_STEADY_TASKS} tasks or more, and there are {self.counted}"
            )
        ends = sorted(compress(self._columns.end, self._counted))
        begin = ends[math.ceil(self.counted / 10) - 1]
        until = max(compress(self._columns.start, self._counted))
        if not until > begin:
            raise NoData(
                "no data: all tasks had started before the first tenth had ended, so there was no steady state;"
                " run more tasks than are in flight"
            )
        return sum(begin < end <= until for end in compress(self._columns.end, self._passed)) / (until - begin)

    def good(self, bounds: Sequence[TaskBound]) -> tuple[int, int]:
        """How many tasks passed and met every bound, of how many that were offered. What is not known is not met."""
        if not bounds:
            raise NoData("no data: nothing says what a good task is; add sla(..., per_task=['latency < 3s'])")
        if not self.counted:
            raise NoData(self.why_uncounted())
        met = [all(bound) for bound in zip(*(self._meets(bound) for bound in bounds), strict=True)]
        return sum(met), self.offered

    def _meets(self, bound: TaskBound) -> list[bool]:
        """For every passed task whether it meets the bound."""
        columns = self._columns
        if bound.kind in ("json", "schema"):
            bad = columns.json_bad if bound.kind == "json" else columns.schema_bad
            seen = list(compress(columns.json_seen, self._passed))
            self._require(any(seen), f"no reply was checked as JSON, so '{bound}' cannot be told; add json_output(...)")
            return [bool(s) and not b for s, b in zip(seen, compress(bad, self._passed), strict=True)]
        if bound.kind == "ttft":
            worst = list(compress(columns.worst_ttft, self._passed))
            self._require(
                any(not math.isnan(value) for value in worst), f"no call was streamed, so '{bound}' cannot be told"
            )
            return [bound.met(value) for value in worst]
        spans: Callable[[float, float], float] = float.__sub__
        return [bound.met(value) for value in compress(map(spans, columns.end, columns.start), self._passed)]

    def _require(self, known: bool, reason: str) -> None:
        """Without a passed task nothing is good, and that is known."""
        if self.passed and not known:
            raise NoData(f"no data: {reason}")
