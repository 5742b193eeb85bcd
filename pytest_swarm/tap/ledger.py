"""The book of one run: every finished call and task goes into its columns and into the file of rows, at once."""

from __future__ import annotations

import math
import re
import threading
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pytest_swarm.clock import real_now
from pytest_swarm.columns import Failure, RunResult
from pytest_swarm.errors import SettingError
from pytest_swarm.exchange import Ending
from pytest_swarm.records import Call, Reading, Task
from pytest_swarm.tap.jsonwork import JsonCheck, in_a_thread
from pytest_swarm.tap.opencall import SIMULATED, OpenCall

if TYPE_CHECKING:
    import asyncio

    from pytest_swarm.clock import Now
    from pytest_swarm.judging.prices import Cost
    from pytest_swarm.reading.json_output import JSONResult
    from pytest_swarm.sources.cassette.recorder import Recorder
    from pytest_swarm.tap.routing import TaskContext
    from pytest_swarm.traffic.ceilings import Ceilings
    from pytest_swarm.traffic.limits import Limiter

__all__ = ["Ledger", "Price", "RowSink"]


class Price(Protocol):
    """Knows what replies cost."""

    def __call__(self, model: str | None, reading: Reading, *, simulated: bool) -> Cost:
        """What one reading costs for a model; `simulated` tells whether a simulated gateway said it."""


KINDS_KEPT = 100
"""Kinds of JSON errors of one run that are counted apart."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class RowSink(Protocol):
    """Where rows go as soon as they are known."""

    def task(self, row: dict[str, Any]) -> None:
        """Keep the row of a finished task."""

    def call(self, row: dict[str, Any]) -> None:
        """Keep the row of a finished call."""


@dataclass(slots=True)
class Ledger:
    """Takes what agents finish. `zero` is the time from which the rows of this test count."""

    run: RunResult
    rows: RowSink
    now: Now
    zero: float
    price: Price
    json_check: JsonCheck | None = None
    ceilings: Ceilings | None = None
    """What the calls may cost; None where nothing bounds it."""
    gateway_kind: str = "live"
    """What calls are meant for, `live` or `simulated`: where one was never sent, nothing else tells."""
    recorder: Recorder | None = None
    """Writes every exchange of these calls to a cassette."""
    limiter: Limiter | None = None
    """Holds the calls back as the plan's limits say; None where it has none."""
    on_call: Callable[[Call], None] | None = None
    on_task: Callable[[Task], None] | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    """Sync bodies record and make calls from many threads."""

    def open_call(self, context: TaskContext, *, model: str | None, name: str | None = None) -> OpenCall:
        """A task wants a model request answered, from now on."""
        call = OpenCall(context, model, name, due=self.now())
        context.open.add(call)
        return call

    def pass_by(self, context: TaskContext, method: str, host: str, path: str) -> None:
        """Count a request that is no model call, or none to the gateway under test."""
        if context.gone:
            return
        call = Call(context.index, context.run, context.warmup, detail=f"{method.upper()} {host}{path}")
        call.due = call.sent = self.now() - self.zero
        call.source = "live"
        with self._lock:
            self.run.others[host] = self.run.others.get(host, 0) + 1
            self.run.calls.append(call)
            self.rows.call(call.to_dict())

    def close_call(self, opened: OpenCall) -> Call:
        """All attempts are over: make the record and keep it. What a task left behind after its end is not kept."""
        with self._lock:
            return self._close_call(opened)

    def _close_call(self, opened: OpenCall) -> Call:
        context = opened.context
        context.open.discard(opened)
        exchange = opened.sent[-1].exchange
        self.run.simulated = self.run.simulated or exchange.headers.get(SIMULATED)
        self.run.reconnects += sum(sent.exchange.restarts for sent in opened.sent)
        call = opened.closed = opened.close(self.zero, self.price)
        if context.gone:
            return call
        context.calls.append(call)
        if self.on_call is not None:
            self.on_call(call)
        if self.json_check is None or exchange.status is None or not 200 <= exchange.status < 300:
            self._keep_call(call)
            return call
        reading = opened.sent[-1].reading
        checking = in_a_thread(self.json_check, reading) if self.now is real_now else None
        if checking is None:
            self._checked(opened, self.json_check(reading))
        else:
            context.checking[opened] = checking
            checking.add_done_callback(lambda done: self._checked_aside(opened, done))
        return call

    def _checked_aside(self, opened: OpenCall, done: asyncio.Future[JSONResult | None]) -> None:
        if opened.context.checking.pop(opened, None) is not None:
            self._checked(opened, done.result())

    def _checked(self, opened: OpenCall, result: JSONResult | None) -> None:
        """What a reply is as JSON has been found out: now its call is complete."""
        call = opened.closed
        assert call is not None
        if result is not None:
            opened.checked, call.json_status = result, result.status
            if not call.warmup:
                with self._lock:
                    for problem in {problem.kind: problem for problem in result.problems}.values():
                        _count_bounded(self.run.json_errors, problem.kind, problem.text)
        self._keep_call(call)

    def settle(self, context: TaskContext) -> None:
        """Close the calls that only waited for a client to repeat them."""
        for opened in [opened for opened in context.open if opened.exchange is None and opened.sent]:
            self.close_call(opened)

    def _keep_call(self, call: Call) -> None:
        with self._lock:
            self.run.calls.append(call)
            self.rows.call(call.to_dict())
            if call.outcome != "ok" and not call.warmup:
                _count(self.run.call_failures, call.outcome, call.detail or call.outcome)

    def close_task(self, context: TaskContext, task: Task) -> None:
        """A task is over; calls it still has on the wire are cut off and counted as cancelled."""
        with self._lock:
            self._close_task(context, task)

    def _close_task(self, context: TaskContext, task: Task) -> None:
        for opened in list(context.open):
            self._abandon(opened)
        for opened in list(context.checking):
            if context.checking.pop(opened, None) is not None:
                assert self.json_check is not None
                self._checked(opened, self.json_check(opened.sent[-1].reading))
        context.gone, context.row = True, task
        if self.run.untimed is not None:
            task.due = task.start = task.end = math.nan
        self.run.tasks.append(task, [call for call in context.calls if call.outcome != "other"])
        self.rows.task(task.to_dict())
        if task.rescheduled and not task.warmup:
            self.run.rescheduled += 1
        elif task.status != "passed" and not task.warmup:
            _count(self.run.task_failures, task.status, task.error or task.status)
        if self.on_task is not None:
            self.on_task(task)

    def _abandon(self, opened: OpenCall) -> None:
        """Nobody will wait for what this call still has on the wire."""
        exchange, now = opened.exchange, self.now()
        if exchange is not None:
            if self.limiter is not None and opened.ticket is None and exchange.ending is None:
                opened.queued += now - exchange.started
            exchange.finish(now, Ending.CANCELLED, "the task ended before the call did")
            if opened.exchange is not None:
                opened.attempt_ended(exchange.read())
        if opened.closed is None and opened.sent:
            self.close_call(opened)
        opened.context.open.discard(opened)

    def record(self, context: TaskContext, name: str, value: float) -> None:
        """See `Agent.record`."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise SettingError(f"agent.record({name!r}, {value!r}): the value must be a finite number")
        _check_name(f"agent.record({name!r}, ...)", name)
        if not context.warmup:
            with self._lock:
                self.run.numbers.setdefault(name, array("d")).append(value)

    def check(self, context: TaskContext, name: str, *, ok: bool) -> bool:
        """See `Agent.check`."""
        _check_name(f"agent.check({name!r}, ...)", name)
        if not context.warmup:
            with self._lock:
                held = self.run.checks.setdefault(name, [0, 0])
                held[0] += ok
                held[1] += 1
        return ok


def _count(failures: dict[str, Failure], kind: str, example: str) -> None:
    seen = failures.get(kind)
    if seen is None:
        failures[kind] = Failure(1, example)
    else:
        seen.count += 1


def _count_bounded(failures: dict[str, Failure], kind: str, example: str) -> None:
    """As `_count`, with what is said only after `KINDS_KEPT` others under one name: kinds may hold text of replies."""
    _count(failures, kind if kind in failures or len(failures) < KINDS_KEPT else "others", example)


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise SettingError(
            f"{what}: the name must be letters, digits and underscores, so that an SLA line can spell it"
        )
