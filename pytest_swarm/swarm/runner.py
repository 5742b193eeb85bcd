"""Running one body as many concurrent tasks, each when the plan releases it. Knows nothing of pytest."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_swarm.swarm.course import Course
from pytest_swarm.swarm.outcomes import ReturnedValue, status_of
from pytest_swarm.tap.routing import Agent, TaskContext, current

if TYPE_CHECKING:
    from pytest_swarm.swarm.release import Release

__all__ = ["AsyncBody", "AsyncRunner", "Course", "few_collections"]

AsyncBody = Callable[[Agent], Awaitable[object]]

GRACE_SECONDS = 5.0
"""How long a cancelled body may take to end before it is left behind."""
GC_THRESHOLD = 2_000
"""New objects between two collections while a run is measured: each stops all tasks, and longer the rarer it is."""
GC_YOUNG_ROUNDS = 2
"""Collections of what is new between two of what outlived one: tasks in flight do that, and are garbage soon after."""


@contextmanager
def few_collections() -> Iterator[None]:
    """Keep the garbage collector out of the measurement, and restore it after."""
    threshold = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, GC_YOUNG_ROUNDS, *threshold[2:])
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()


class BodyTimeout(Exception):
    """A body ran longer than `task_timeout`."""


class RunStopped(Exception):
    """The run was told to stop before its plan was done."""


class AsyncRunner:
    """Runs a coroutine function as the plan says, on the running loop.

    A lane runs one task after the other. One more is opened for every task that is to start while all are busy.
    """

    def __init__(self, course: Course) -> None:
        self._course = course
        self._stopping = False
        self._stop: asyncio.Future[None] | None = None
        self._lanes: set[asyncio.Task[None]] = set()
        self._rest: asyncio.Future[None] | None = None

    def stop(self, reason: str) -> None:
        """End the run early: running tasks are cancelled, the others are not started."""
        self._end_with(RunStopped(reason))

    def _end_with(self, error: BaseException) -> None:
        if self._stop is not None and not self._stop.done():
            self._stop.set_exception(error)

    async def run(self, body: AsyncBody) -> None:
        """Run all tasks. Raises what stops a session; failures of bodies are in the ledger."""
        course = self._course
        course.room = self._wake
        self._stop = asyncio.get_running_loop().create_future()
        for _ in course.phases():
            try:
                await self._until_done(asyncio.get_running_loop().create_task(self._release(body)))
            except RunStopped as stopped:
                course.ledger.run.interrupted = str(stopped)
                return

    async def _until_done(self, releasing: asyncio.Task[None]) -> None:
        """Wait for all tasks; when a lane raises, or we are cancelled or stopped, end the others first."""
        assert self._stop is not None
        ends: set[asyncio.Future[Any]] = {releasing, self._stop}
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for finished in done:
                finished.result()
        finally:
            self._stopping = True
            everything = [releasing, *self._lanes]
            for one in everything:
                one.cancel()
            await asyncio.gather(*everything, return_exceptions=True)
            self._stopping = False

    async def _release(self, body: AsyncBody) -> None:
        """Start what is due when it is due, until nothing is left that could start or end."""
        course = self._course
        while True:
            course.advance(len(self._lanes))
            while (release := course.next_release(len(self._lanes))) is not None:
                self._open_lane(body, release)
            due = course.next_time()
            if due is None and not self._lanes:
                return
            await self._until(due)

    async def _until(self, due: float | None) -> None:
        """Wait until it is time, or until a lane has closed or may be opened."""
        loop = asyncio.get_running_loop()
        self._rest = loop.create_future()
        # The distance to an absolute time: however late the one before was, this one is not later for it.
        timer = None if due is None else loop.call_later(max(0.0, due - self._course.ledger.now()), self._wake)
        try:
            await self._rest
        finally:
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._rest is not None and not self._rest.done():
            self._rest.set_result(None)

    def _open_lane(self, body: AsyncBody, release: Release) -> None:
        lane = asyncio.get_running_loop().create_task(self._lane(body, release))
        self._lanes.add(lane)
        lane.add_done_callback(self._lane_closed)

    def _lane_closed(self, lane: asyncio.Task[None]) -> None:
        self._lanes.discard(lane)
        error = None if lane.cancelled() else lane.exception()
        if error is not None:
            self._end_with(error)
        self._wake()

    async def _lane(self, body: AsyncBody, release: Release | None) -> None:
        course = self._course
        while release is not None:
            context = course.context(release)
            await self._task(context, body)
            while context.row is not None and context.row.rescheduled:
                context = course.context(release, context.attempt + 1)
                await self._task(context, body)
            release = course.next_release(len(self._lanes) - 1)

    async def _task(self, context: TaskContext, body: AsyncBody) -> None:
        """Run one body to its end, or leave it behind when it does not end."""
        course = self._course
        start = course.ledger.now()
        task = asyncio.get_running_loop().create_task(self._one(context, body), name=f"swarm-agent-{context.index}")
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
            course.ended(context, start, BodyTimeout(f"did not end when task_timeout={limit:g} s was over"), "timeout")

    async def _one(self, context: TaskContext, body: AsyncBody) -> None:
        course = self._course
        current.set(context)
        error: BaseException | None = None
        status: str | None = None
        start = course.ledger.now()
        course.started(context, start)
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
