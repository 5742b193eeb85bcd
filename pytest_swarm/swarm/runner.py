"""Running one body as N concurrent tasks over lanes, in a closed loop. Knows nothing of pytest."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_swarm.records import Task
from pytest_swarm.swarm.outcomes import ReturnedValue, TestOutcomes, describe, status_of
from pytest_swarm.tap.routing import Agent, TaskContext, current

if TYPE_CHECKING:
    from pytest_swarm.exchange import Source
    from pytest_swarm.swarm.plan import Plan
    from pytest_swarm.tap.ledger import Ledger

__all__ = ["AsyncBody", "AsyncRunner", "Course", "few_collections"]

AsyncBody = Callable[[Agent], Awaitable[object]]

GRACE_SECONDS = 5.0
"""How long a cancelled body may take to end before it is left behind."""
GC_THRESHOLD = 20_000
"""New objects between two collections while a run is measured: each stops all tasks, and longer the rarer it is."""


@contextmanager
def few_collections() -> Iterator[None]:
    """Keep the garbage collector out of the measurement, and restore it after."""
    threshold = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *threshold[1:])
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()


@dataclass(slots=True)
class Course:
    """What both runners share: how agents are made, and how the end of a task becomes a row."""

    plan: Plan
    ledger: Ledger
    source: Source
    outcomes: TestOutcomes
    errors: dict[str, BaseException] = field(default_factory=dict)
    """The first exception behind each task status; warm-up left out."""
    confined: frozenset[str] | None = None
    """See `TaskContext.confined`."""
    counted: frozenset[str] | None = None
    """See `TaskContext.counted`."""
    played: str | None = None
    """See `TaskContext.played`."""
    in_flight: int = 0
    closed: bool = False
    """No further body is started; those that run may finish."""

    def indices(self) -> Iterator[tuple[int, bool]]:
        """Task numbers with whether they warm up; both count from 0."""
        assert self.plan.tasks is not None
        yield from ((index, True) for index in range(self.plan.warmup))
        yield from ((index, False) for index in range(self.plan.tasks))

    def lanes(self) -> int:
        """How many tasks are in flight at one time."""
        assert self.plan.in_flight is not None
        return self.plan.in_flight

    def context(self, index: int, *, warmup: bool, due: float) -> TaskContext:
        """The context of one task."""
        return TaskContext(
            index,
            self.ledger.run.index,
            ledger=self.ledger,
            source=self.source,
            seed=self.plan.seed,
            warmup=warmup,
            due=due,
            confined=self.confined,
            counted=self.counted,
            played=self.played,
        )

    def started(self) -> None:
        """A body starts."""
        self.in_flight += 1
        self.ledger.run.in_flight_max = max(self.ledger.run.in_flight_max, self.in_flight)

    def ended(
        self,
        context: TaskContext,
        start: float,
        error: BaseException | None,
        status: str | None,
        end: float | None = None,
    ) -> None:
        """A body has ended, at `end` or now, with `status` or with the one that `error` and its replies tell."""
        self.in_flight -= 1
        if context.stopped is not None and status in (None, "failed"):
            # Clients wrap what they do not know, or ask again: what stopped the request is what has to be told.
            error, status = context.stopped, "failed"
        text = None if error is None else describe(error)
        if status is None:
            status = _status_of_replies(context)
            if status != "passed":
                text = "a reply was not valid JSON" if status == "json_invalid" else "a reply did not fit the schema"
        if status == "failed" and any(call.outcome == "budget" for call in context.calls):
            # For want of a reply that a cost ceiling kept from being asked for: that tells nothing of the gateway.
            status = "cancelled"
        if error is not None and not context.warmup:
            self.errors.setdefault(status, error)
        zero = self.ledger.zero
        assert context.index is not None
        end = self.ledger.now() if end is None else end
        row = Task(
            context.index, context.run, context.warmup, status, context.due - zero, start - zero, end - zero, text
        )
        self.ledger.close_task(context, row)


def _status_of_replies(context: TaskContext) -> str:
    """A task that returned has passed, unless one of its replies was asked to be JSON and was not."""
    statuses = {call.json_status for call in context.calls} - {None, "valid"}
    if not statuses:
        return "passed"
    return "schema_invalid" if statuses == {"schema_invalid"} else "json_invalid"


class BodyTimeout(Exception):
    """A body ran longer than `task_timeout`."""


class RunStopped(Exception):
    """The run was told to stop before its plan was done."""


class AsyncRunner:
    """Runs a coroutine function as the plan says, on the running loop."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._stopping = False
        self._stop: asyncio.Future[None] | None = None

    def stop(self, reason: str) -> None:
        """End the run early: running tasks are cancelled, the others are not started."""
        self._end_with(RunStopped(reason))

    def _end_with(self, error: BaseException) -> None:
        if self._stop is not None and not self._stop.done():
            self._stop.set_exception(error)

    async def run(self, body: AsyncBody) -> None:
        """Run all tasks. Raises what stops a session; failures of bodies are in the ledger."""
        course = self._course
        loop = asyncio.get_running_loop()
        self._stop = loop.create_future()
        course.ledger.zero = course.ledger.now()
        for warmup in (True, False):
            numbers = [index for index, warm in course.indices() if warm is warmup]
            waiting = iter(numbers)
            lanes = [
                loop.create_task(self._lane(body, waiting, warmup=warmup))
                for _ in range(min(course.lanes(), len(numbers)))
            ]
            try:
                await self._until_done(lanes)
            except RunStopped as stopped:
                course.ledger.run.interrupted = str(stopped)
                return

    async def _until_done(self, lanes: list[asyncio.Task[None]]) -> None:
        """Wait for the lanes; when one raises, or we are cancelled or stopped, end the others first."""
        assert self._stop is not None
        everything = asyncio.gather(*lanes)
        ends: set[asyncio.Future[Any]] = {everything, self._stop}
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for finished in done:
                finished.result()
        finally:
            self._stopping = True
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, everything, return_exceptions=True)
            self._stopping = False

    async def _lane(self, body: AsyncBody, numbers: Iterator[int], *, warmup: bool) -> None:
        course = self._course
        for index in numbers:
            if course.closed:
                return
            context = course.context(index, warmup=warmup, due=course.ledger.now())
            start = context.due
            task = asyncio.get_running_loop().create_task(self._one(context, body), name=f"swarm-agent-{index}")
            limit = course.plan.task_timeout
            try:
                # Not `await task`: that would take a cancellation of the task for one of the lane.
                await asyncio.wait({task}, timeout=None if limit is None else limit + GRACE_SECONDS)
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait({task}, timeout=GRACE_SECONDS)
                if not context.gone:
                    course.ended(context, start, RunStopped("the body did not end when it was cancelled"), "cancelled")
                raise
            if not context.gone:
                course.ended(
                    context, start, BodyTimeout(f"did not end when task_timeout={limit:g} s was over"), "timeout"
                )

    async def _one(self, context: TaskContext, body: AsyncBody) -> None:
        course = self._course
        current.set(context)
        error: BaseException | None = None
        status: str | None = None
        start = course.ledger.now()
        course.started()
        try:
            value = await self._within_timeout(body(context.agent))
            if value is not None:
                raise ReturnedValue(f"a test body returns nothing, this one returned {type(value).__name__}")
        except BodyTimeout as timeout:
            error, status = timeout, "timeout"
        except asyncio.CancelledError as cancelled:
            if self._stopping:
                error, status = RunStopped("cancelled when the run was stopped"), "cancelled"
            else:
                error, status = cancelled, "failed"
        except BaseException as raised:  # noqa: BLE001 - SystemExit would end the loop, pytest's outcomes are no Exceptions
            error, status = raised, status_of(raised, course.outcomes)
            if status is None:
                status = "cancelled"
                self._end_with(raised)
        end = course.ledger.now()
        await context.all_checked()
        if not context.gone:
            course.ended(context, start, error, status, end)

    async def _within_timeout(self, awaitable: Awaitable[object]) -> object:
        limit = self._course.plan.task_timeout
        if limit is None:
            return await awaitable
        timeout = asyncio.timeout(limit)
        try:
            async with timeout:
                return await awaitable
        except TimeoutError:
            if timeout.expired():
                raise BodyTimeout(f"still running after task_timeout={limit:g} s") from None
            raise
