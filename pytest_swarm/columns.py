"""Results of a run in columns: one array per figure, not one object per call. 100,000 calls take some 20 MB.

Unknown numbers are NaN inside the columns and None everywhere else.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pytest_swarm.records import CALL_OUTCOMES, REPLY_OUTCOMES, TASK_STATUSES, TOOL_CALL_REASONS, Call, Task

__all__ = ["Audit", "CallColumns", "Failure", "LimitStep", "Names", "RunResult", "SwarmResult", "TaskColumns"]

_OUTCOME_CODE: Final = {outcome: code for code, outcome in enumerate(CALL_OUTCOMES)}
_STATUS_CODE: Final = {status: code for code, status in enumerate(TASK_STATUSES)}
JSON_CODES: Final = (None, "valid", "schema_invalid", "invalid", "truncated", "empty")
_JSON_CODE: Final = {status: code for code, status in enumerate(JSON_CODES)}
NAN: Final = math.nan


def _number(value: float | None) -> float:
    return NAN if value is None else value


class Names:
    """Interned strings: a column holds the small number, this holds the text. Number 0 is None."""

    def __init__(self) -> None:
        self._codes: dict[str | None, int] = {None: 0}
        self.texts: list[str | None] = [None]

    def code(self, text: str | None) -> int:
        """The number of `text`, given to it at first sight."""
        found = self._codes.get(text)
        if found is None:
            found = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return found


class CallColumns:
    """One entry per call, in the order in which calls ended. All arrays but `gaps` have the same length."""

    def __init__(self) -> None:
        self.names = Names()
        """Call names, models, cost sources and reasons."""
        self.task = array("q")
        """Index of the task in its run; -1 for a call made outside any agent."""
        self.warmup = array("b")
        self.outcome = array("b")
        """Positions in `records.CALL_OUTCOMES`."""
        self.json = array("b")
        """Positions in `JSON_CODES`."""
        self.toolcalls = array("b")
        """1 where the reply was a tool call, which is in no JSON rate."""
        self.success = array("b")
        """1 where the server answered with a 2xx status."""
        self.name = array("H")
        self.model = array("H")
        self.cost_source = array("H")
        self.cost_reason = array("H")
        self.attempts = array("H")
        self.sent = array("d")
        self.latency = array("d")
        self.attempt_latency = array("d")
        self.ttft = array("d")
        self.ttfo = array("d")
        self.tpot = array("d")
        self.queued = array("d")
        self.input_tokens = array("d")
        self.output_tokens = array("d")
        self.cached_tokens = array("d")
        self.cache_write_tokens = array("d")
        self.reasoning_tokens = array("d")
        self.cost = array("d")
        self.reported_cost = array("d")
        self.gaps = array("d")
        """Gaps between content chunks of all calls, call after call."""
        self.gap_end = array("q")
        """Position in `gaps` behind the last gap of each call."""

    def __len__(self) -> int:
        return len(self.task)

    def append(self, call: Call) -> None:
        """Add one finished call."""
        self.task.append(-1 if call.task is None else call.task)
        self.warmup.append(call.warmup)
        self.outcome.append(_OUTCOME_CODE[call.outcome])
        self.json.append(_JSON_CODE[call.json_status])
        self.toolcalls.append(call.finish_reason in TOOL_CALL_REASONS)
        self.success.append(call.status is not None and 200 <= call.status < 300)
        self.name.append(self.names.code(call.name))
        self.model.append(self.names.code(call.model))
        self.cost_source.append(self.names.code(call.cost_source))
        self.cost_reason.append(self.names.code(call.cost_reason))
        self.attempts.append(len(call.attempts))
        self.sent.append(_number(call.sent))
        self.latency.append(_number(call.latency))
        self.attempt_latency.append(_number(call.attempt_latency))
        self.ttft.append(_number(call.ttft))
        self.ttfo.append(_number(call.ttfo))
        self.tpot.append(_number(call.tpot))
        self.queued.append(call.queued)
        self.input_tokens.append(_number(call.input_tokens))
        self.output_tokens.append(_number(call.output_tokens))
        self.cached_tokens.append(_number(call.cached_tokens))
        self.cache_write_tokens.append(_number(call.cache_write_tokens))
        self.reasoning_tokens.append(_number(call.reasoning_tokens))
        self.cost.append(_number(call.cost))
        self.reported_cost.append(_number(call.reported_cost))
        self.gaps.extend(call.gaps)
        self.gap_end.append(len(self.gaps))


def _total(calls: Iterable[Call], figure: str) -> float:
    """Sum of a figure over the calls that got a reply; NaN when one of them does not know it, or there is none."""
    total, known = 0.0, False
    for call in calls:
        value = getattr(call, figure)
        if value is not None:
            total, known = total + value, True
        elif call.outcome in REPLY_OUTCOMES:
            return NAN
    return total if known else NAN


class TaskColumns:
    """One entry per task, in the order in which tasks ended. All arrays have the same length."""

    def __init__(self) -> None:
        self.index = array("q")
        self.status = array("b")
        """Positions in `records.TASK_STATUSES`."""
        self.warmup = array("b")
        self.due = array("d")
        self.start = array("d")
        self.end = array("d")
        self.calls = array("q")
        self.input_tokens = array("d")
        self.output_tokens = array("d")
        self.cached_tokens = array("d")
        self.reasoning_tokens = array("d")
        self.worst_ttft = array("d")
        """The largest time to first token among the task's calls; NaN when no call was streamed."""
        self.json_bad = array("b")
        """1 when a reply of the task was not valid JSON although JSON was asked for."""
        self.schema_bad = array("b")
        """1 when a reply of the task did not fit the schema (invalid JSON does not fit either)."""
        self.json_seen = array("b")
        """1 when at least one reply of the task was checked as JSON."""
        self.rescheduled = array("b")
        """1 where the task was run again: the entry is not that of its end."""

    def __len__(self) -> int:
        return len(self.index)

    def append(self, task: Task, calls: Sequence[Call]) -> None:
        """Add one finished task with the model calls it made (`other` requests left out)."""
        self.index.append(task.index)
        self.status.append(_STATUS_CODE[task.status])
        self.warmup.append(task.warmup)
        self.due.append(task.due)
        self.start.append(task.start)
        self.end.append(task.end)
        self.calls.append(len(calls))
        self.input_tokens.append(_total(calls, "input_tokens"))
        self.output_tokens.append(_total(calls, "output_tokens"))
        self.cached_tokens.append(_total(calls, "cached_tokens"))
        self.reasoning_tokens.append(_total(calls, "reasoning_tokens"))
        self.worst_ttft.append(max((call.ttft for call in calls if call.ttft is not None), default=NAN))
        statuses = {call.json_status for call in calls} - {None}
        self.rescheduled.append(task.rescheduled)
        self.json_seen.append(bool(statuses))
        self.json_bad.append(bool(statuses - {"valid", "schema_invalid"}))
        self.schema_bad.append(bool(statuses - {"valid"}))


@dataclass(slots=True)
class Failure:
    """How often something failed in one way, and one example of it."""

    count: int
    example: str


class LimitStep(NamedTuple):
    """What a concurrency that adapts was from one time on, and what the one before had come to."""

    time: float
    """Seconds since the start of the run."""
    limit: int
    """Tasks that may be in flight from then on."""
    throughput: float | None
    """Tasks per second that ended well while the limit before was judged; None at the start."""
    latency: float | None
    """Their mean latency in seconds; None where none ended well."""


@dataclass(slots=True)
class Audit:
    """What the testing process itself did to a run on a real clock, in seconds of that clock."""

    lags: array[float]
    """How late the event loop was, or a thread where bodies run in threads, at evenly spaced moments of the run."""
    late: array[float]
    """From when a task was due to its start, of those that no other task and no limit held up; warm-up left out."""
    undelivered: float | None
    """The share of a planned rate that was not delivered, since starts fell behind; None where no rate was planned."""
    in_flight_mean: float | None
    """Of the tasks in flight at those moments; None where the run was too short to have one."""
    threads: bool
    """Whether bodies ran in threads."""
    blocked_at: str | None
    """The line of code at which the event loop was found blocked most often; None where it never was."""


@dataclass(slots=True)
class RunResult:
    """One execution of a plan."""

    index: int
    tasks: TaskColumns = field(default_factory=TaskColumns)
    calls: CallColumns = field(default_factory=CallColumns)
    numbers: dict[str, array[float]] = field(default_factory=dict)
    """What bodies recorded with `agent.record`, by name, warm-up left out."""
    checks: dict[str, list[int]] = field(default_factory=dict)
    """What bodies checked with `agent.check`, by name: how many held, how many there were; warm-up left out."""
    task_failures: dict[str, Failure] = field(default_factory=dict)
    """By task status (`failed`, `timeout`, ...), warm-up left out."""
    call_failures: dict[str, Failure] = field(default_factory=dict)
    """By call outcome, every outcome but `ok`, warm-up left out."""
    json_errors: dict[str, Failure] = field(default_factory=dict)
    """By JSON path and message, in how many replies that was wrong, warm-up left out."""
    others: dict[str, int] = field(default_factory=dict)
    """Requests that were no model calls of the gateway under test, by host."""
    nested_retries: int = 0
    """Calls that were made again around an SDK that had repeated them itself."""
    reconnects: int = 0
    """Requests that were sent again, because the server had closed the idle connection that they were sent on."""
    in_flight_max: int = 0
    """The largest number of tasks that were running at one time."""
    backlogged: int = 0
    """Tasks that were due and had to wait for others to end, warm-up left out."""
    backlog_max: int = 0
    """The largest number of tasks that were waiting so at one time."""
    shed: int = 0
    """Tasks that were due and never started, warm-up left out: the backlog was full, or the time over."""
    rescheduled: int = 0
    """How often a failed task was run again, warm-up left out."""
    limits: list[LimitStep] = field(default_factory=list)
    """How a concurrency that adapts went up and down: its start, and an entry for every time it was judged."""
    simulated: str | None = None
    """What a simulated gateway said of itself: its system and its speed. None when none answered."""
    untimed: str | None = None
    """Why no time of the run means anything; None where times do."""
    interrupted: str | None = None
    """Why the run ended before its plan did; None when it was finished."""
    over_budget: bool = False
    """Whether a cost ceiling ended it."""
    audit: Audit | None = None
    """None on the virtual clock, which stands still while the process works."""


@dataclass(slots=True)
class SwarmResult:
    """All runs of one swarm, with what identifies them."""

    nodeid: str
    model: str | None
    gateway_kind: str
    """`live`, `replay` or `simulated`."""
    base_url: str | None
    clock: str
    """`real` or `virtual`."""
    plan: dict[str, Any]
    """The marker's arguments after precedence, as plain data."""
    runs: list[RunResult] = field(default_factory=list)
    rows: str | None = None
    """Path of the file with one JSON object per task and call."""
    notes: list[str] = field(default_factory=list)
