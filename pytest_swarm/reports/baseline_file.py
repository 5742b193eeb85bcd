"""A former JSON report, read back as results: every task and every call of it."""

from __future__ import annotations

import gc
import json
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final

from pytest_swarm.columns import RunResult, SwarmResult
from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.judging.baseline import Former, NoBaseline
from pytest_swarm.records import Attempt, Call, Task
from pytest_swarm.reports.json_file import SCHEMA
from pytest_swarm.rowfile import read_encoded

__all__ = ["FormerReport", "read_baseline", "runs_of", "runs_of_rows"]

_CALL_FIELDS: Final = (
    *("task", "run", "warmup", "name", "model", "source", "outcome", "sent", "latency", "attempt_latency", "ttft"),
    *("ttfo", "tpot", "queued", "input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens"),
    *("reasoning_tokens", "cost", "cost_source", "cost_reason", "reported_cost", "finish_reason", "status"),
)
_UNNAMED: Final = ("queued", "warmup", "tpot", "cost_reason", "cache_write_tokens")
"""Fields that a report may lack: then they are what a call has that nothing is known of."""


class FormerReport:
    """The tests of a former report."""

    def __init__(self, file: str, tests: Iterable[tuple[str, Former]]) -> None:
        self._file = file
        self._tests: dict[str, list[Former]] = {}
        for nodeid, former in tests:
            self._tests.setdefault(nodeid, []).append(former)

    def find(self, nodeid: str, number: int = 0) -> Former | NoBaseline:
        """The former run of a test; `number` counts the swarms inside of one from 1."""
        found = self._tests.get(nodeid, [])
        at = max(0, number - 1)
        if at < len(found):
            return found[at]
        what = f"test {nodeid!r}" if not found else f"swarm number {number} in {nodeid!r}"
        hint = "" if found else nearest(nodeid, self._tests)
        return NoBaseline(
            f"{self._file} has no {what}{hint}; write a new one with --swarm-json=FILE, once this test is in it",
            self._file,
        )


def read_baseline(path: Path, what: str = "--swarm-baseline") -> FormerReport:
    """Read the report at `path`.

    Raises:
        SettingError: it cannot be read, is no JSON, no report of this form, or has rows that are none.
    """
    try:
        text = path.read_bytes()
        with _no_collections():
            report = json.loads(text, object_hook=_call)
        return _report(report, path, what)
    except OSError as error:
        raise SettingError(f"{what}: {path} cannot be read: {error.strerror or error}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingError(f"{what}: {path} is no JSON ({error}); name a file that --swarm-json wrote") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        missing = f"missing or unknown: {error}" if isinstance(error, KeyError) else str(error)
        raise SettingError(f"{what}: {path} is no whole report ({missing}); write it again with --swarm-json") from None


@contextmanager
def _no_collections() -> Iterator[None]:
    """Looking for garbage among a hundred thousand new rows takes as long as parsing them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _report(report: Any, path: Path, what: str) -> FormerReport:
    schema = report.get("schema") if isinstance(report, dict) else None
    if schema != SCHEMA:
        said = "has no schema" if schema is None else f"has the schema {schema!r}"
        raise SettingError(f"{what}: {path} {said}, not {SCHEMA!r}; name a file that --swarm-json wrote")
    created = report["created"]
    tests = [(test["nodeid"], _former(test, path.name, created)) for test in report["tests"]]
    return FormerReport(path.name, tests)


def runs_of(tasks: Iterable[Task], calls: Iterable[Call]) -> list[RunResult]:
    """The runs that tasks and calls were of, in columns. Gaps between chunks are in no row, and so in no run."""
    runs: dict[int, RunResult] = {}
    by_task: dict[tuple[int, int | None], list[Call]] = {}
    for call in calls:
        runs.setdefault(call.run, RunResult(call.run)).calls.append(call)
        if call.outcome != "other":
            by_task.setdefault((call.run, call.task), []).append(call)
    for task in tasks:
        own = by_task.get((task.run, task.index), [])
        if task.attempt or task.rescheduled:
            # A task that was run again has a row for each time, and its calls do not say to which they belong.
            own = [call for call in own if call.sent is not None and task.start <= call.sent <= task.end]
        runs.setdefault(task.run, RunResult(task.run)).tasks.append(task, own)
    return [runs[index] for index in sorted(runs)]


def runs_of_rows(path: str | Path) -> list[RunResult]:
    """The runs whose rows are in a row file.

    Raises:
        OSError: it cannot be read.
    """
    tasks = (task_of(json.loads(text)) for text in read_encoded(path, "task"))
    calls = (call_of(json.loads(text)) for text in read_encoded(path, "call"))
    return runs_of(tasks, calls)


def task_of(row: Mapping[str, Any]) -> Task:
    """A task from its row."""
    wanted = [field.name for field in fields(Task) if field.name in row or field.default is MISSING]
    task = Task(**{name: row[name] for name in wanted})
    if row["start"] is None:
        # A replay of a recording without times.
        task.due = task.start = task.end = math.nan
    return task


def call_of(row: Mapping[str, Any]) -> Call:
    """A call from its row, as far as figures are made of it."""
    known = {name: row[name] for name in _CALL_FIELDS if name in row or name not in _UNNAMED}
    attempts = [Attempt(one["sent"], one["latency"], one["status"], one["outcome"]) for one in row["attempt_list"]]
    return Call(**known, json_status=row.get("json"), attempts=attempts, gaps=array("d"))


def _call(found: dict[str, Any]) -> dict[str, Any] | Call:
    """While the file is parsed: a call takes a fraction of the memory that its row does."""
    return call_of(found) if "attempt_list" in found else found


def _former(test: Mapping[str, Any], file: str, created: str | None) -> Former:
    gateway = test["gateway"]
    result = SwarmResult(
        nodeid=test["nodeid"],
        model=test["model"],
        gateway_kind=gateway["kind"],
        base_url=gateway["base_url"],
        clock=test["clock"],
        plan=test["plan"],
        runs=runs_of(map(task_of, test["tasks"]), test["calls"]),
    )
    return Former(file, created, test["verdict"], result, test["metrics"])
