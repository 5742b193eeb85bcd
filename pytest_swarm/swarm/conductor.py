"""One swarm from its first run to its last: a fresh source and a fresh book for every run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from pytest_swarm.clock import Now, RunClock, real_now, scaled_time, virtual_time
from pytest_swarm.columns import RunResult, SwarmResult
from pytest_swarm.exchange import Source
from pytest_swarm.judging.curtailment import Curtailment
from pytest_swarm.records import Call, Task
from pytest_swarm.sources.cassette.recorder import Recorder
from pytest_swarm.swarm.audit import audited_loop, audited_threads
from pytest_swarm.swarm.course import Course
from pytest_swarm.swarm.outcomes import TestOutcomes, describe
from pytest_swarm.swarm.plan import Plan
from pytest_swarm.swarm.runner import AsyncBody, AsyncRunner, few_collections
from pytest_swarm.swarm.threads import SyncBody, ThreadRunner
from pytest_swarm.tap.jsonwork import JsonCheck
from pytest_swarm.tap.ledger import Ledger, Price, RowSink
from pytest_swarm.tap.routing import TaskContext
from pytest_swarm.traffic.ceilings import Ceilings
from pytest_swarm.traffic.limits import Limiter

__all__ = ["Conductor", "MakeSource", "Watcher"]

MakeSource = Callable[[int], AbstractAsyncContextManager[Source]]
"""The source of run number `index`, to be entered on the loop of the run."""

REFUSALS = frozenset({401, 403})
"""Statuses that will not get better by asking again."""


class Watcher(Protocol):
    """Told what happens while it happens: for a progress line."""

    def call_ended(self, call: Call) -> None:
        """A call is over."""

    def task_ended(self, task: Task) -> None:
        """A task is over."""


class Conductor:
    """Runs a body as often as the plan repeats, and holds what came of it."""

    def __init__(
        self,
        result: SwarmResult,
        plan: Plan,
        *,
        make_source: MakeSource,
        rows: RowSink,
        price: Price,
        outcomes: TestOutcomes,
        json_check: JsonCheck | None = None,
        ceilings: Ceilings | None = None,
        watcher: Watcher | None = None,
        recorder: Recorder | None = None,
        curtailment: Curtailment | None = None,
        confined: frozenset[str] | None = None,
        counted: frozenset[str] | None = None,
        played: str | None = None,
        speed: float | None = None,
        untimed: str | None = None,
    ) -> None:
        """`confined`, `counted` and `played` are those of every `TaskContext`, `untimed` is that of every `RunResult`.

        With `speed`, so many seconds of a run on the real clock pass in one.
        """
        self.result = result
        self.plan = plan
        self.errors: dict[str, BaseException] = {}
        """The first exception behind each task status."""
        self._make_source = make_source
        self._rows = rows
        self._price = price
        self._json_check = json_check
        self._ceilings = ceilings
        self._outcomes = outcomes
        self._watcher = watcher
        self._recorder = recorder
        self._curtailment = curtailment
        self._confined, self._counted, self._played = confined, counted, played
        self._speed, self._untimed = speed, untimed
        self._outside: TaskContext | None = None
        self._refusals = 0
        self._stop: Callable[[str], None] = lambda _: None
        self._clock: RunClock | None = None
        self._now_running: Course | None = None

    @property
    def in_flight(self) -> int:
        """Tasks that are running now."""
        return 0 if self._now_running is None else self._now_running.in_flight

    async def run(self, body: AsyncBody) -> None:
        """Run a coroutine function on the running loop. Raises only what stops the whole session."""
        loop = asyncio.get_running_loop()
        for index in range(self.plan.repeat):
            with few_collections(), self._time(loop) as self._clock:
                async with self._make_source(index) as source:
                    course = self._course(index, source, real_now if self._clock is None else self._clock.now)
                    runner = AsyncRunner(course)
                    with self._running(course, runner.stop), self._audited(course, loop):
                        await runner.run(body)
            if course.ledger.run.interrupted is not None:
                return

    def _time(self, loop: asyncio.AbstractEventLoop) -> AbstractContextManager[RunClock | None]:
        """The time of one run; None is the real one."""
        if self.result.clock == "virtual":
            # `self._stop` is looked up when it is called: it is set by the run that is then going on.
            return virtual_time(loop, lambda reason: self._stop(reason))
        return nullcontext() if self._speed is None else scaled_time(loop, self._speed)

    def _audited(self, course: Course, loop: asyncio.AbstractEventLoop) -> AbstractContextManager[None]:
        """Around one run. Virtual time stands still while this process works, so there it does nothing to a run."""
        return nullcontext() if self.result.clock == "virtual" else audited_loop(course, loop, self._speed or 1.0)

    def run_in_threads(self, body: SyncBody, enter: Callable[[AbstractAsyncContextManager[Source]], Source]) -> None:
        """Run a plain function in threads; `enter` enters a source on the loop that will send."""
        for index in range(self.plan.repeat):
            course = self._course(index, enter(self._make_source(index)), real_now)
            runner = ThreadRunner(course)
            with few_collections(), self._running(course, runner.stop), audited_threads(course):
                runner.run(body)
            if course.ledger.run.interrupted is not None:
                return

    def outside(self, source: Source) -> TaskContext:
        """Who makes the calls that belong to the test and to no agent, in a fixture for example.

        While a run goes on they stand in its book, on its clock; before, they count from the first of them.
        """
        if self._now_running is not None:
            ledger = self._now_running.ledger
        elif self._outside is not None:
            ledger = self._outside.ledger
        else:
            if not self.result.runs:
                self.result.runs.append(RunResult(0, untimed=self._untimed))
            ledger = self._ledger(self.result.runs[-1], real_now)
        context = self._outside
        if context is None or context.ledger is not ledger:
            self.settle_outside()
            context = self._outside = TaskContext(
                None, ledger.run.index, ledger, source, self.plan.seed, confined=self._confined
            )
            context.counted, context.played = self._counted, self._played
        context.source = source
        return context

    def settle_outside(self) -> None:
        """What no task made is over too: calls that a client might have repeated are closed."""
        if self._outside is not None:
            self._outside.ledger.settle(self._outside)

    def _course(self, index: int, source: Source, now: Now) -> Course:
        if index == len(self.result.runs):
            self.result.runs.append(RunResult(index, untimed=self._untimed))
        ledger = self._ledger(self.result.runs[index], now)
        return Course(
            self.plan, ledger, source, self._outcomes, self.errors, self._confined, self._counted, self._played
        )

    def _ledger(self, run: RunResult, now: Now) -> Ledger:
        return Ledger(
            run,
            self._rows,
            now,
            now(),
            self._price,
            self._json_check,
            self._ceilings,
            self.result.gateway_kind,
            recorder=self._recorder,
            limiter=Limiter(self.plan.limit, now) if self.plan.limit else None,
            on_call=self._on_call,
            on_task=self._on_task,
        )

    @contextmanager
    def _running(self, course: Course, stop: Callable[[str], None]) -> Iterator[None]:
        """While the run goes on, it can be stopped; whatever ends it from outside is noted on it."""
        self._stop, self._now_running = stop, course
        try:
            yield
        except BaseException as error:
            course.ledger.run.interrupted = f"stopped by {describe(error)}" if str(error) else "interrupted"
            raise

    def _on_call(self, call: Call) -> None:
        if self._clock is not None:
            self._clock.progress()
        if call.outcome == "budget":
            self._wind_down(call.detail)
        if call.status in REFUSALS:
            self._refusals += 1
            if self._refusals > 1:
                self._stop(f"the gateway refused the key again (HTTP {call.status}): every further call would fail")
        if self._curtailment is not None:
            self._give_up(self._curtailment.call_ended(call))
        if self._watcher is not None:
            self._watcher.call_ended(call)

    def _give_up(self, reason: str | None) -> None:
        """End the run, where there is a reason: what runs now is cancelled, since it can change nothing."""
        if reason is not None:
            self._curtailment = None
            self._stop(reason)

    def _wind_down(self, reason: str) -> None:
        """Start no further body. Those that run may finish: cutting them off would lose what is being paid for."""
        run = self.result.runs[-1]
        run.over_budget = True
        run.interrupted = run.interrupted or reason
        if self._now_running is not None:
            self._now_running.closed = True

    def _on_task(self, task: Task) -> None:
        if self._clock is not None:
            self._clock.progress()
        if self._curtailment is not None:
            self._give_up(self._curtailment.task_ended(task))
        if self._watcher is not None:
            self._watcher.task_ended(task)
