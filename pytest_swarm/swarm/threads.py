"""Running a sync body as N concurrent tasks in threads. Its time is real, whatever clock was asked for."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_swarm.swarm.outcomes import ReturnedValue, status_of
from pytest_swarm.swarm.runner import BodyTimeout, Course, RunStopped
from pytest_swarm.tap.routing import Agent, TaskContext, current

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SyncBody", "ThreadRunner"]

SyncBody = Callable[[Agent], object]


@dataclass(slots=True, eq=False)
class _Running:
    """One body in its thread."""

    context: TaskContext
    start: float
    error: BaseException | None = None


class ThreadRunner:
    """Runs a plain function as the plan says. The calling thread waits, starts bodies and closes their tasks."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._finished: queue.SimpleQueue[_Running | RunStopped] = queue.SimpleQueue()

    def stop(self, reason: str) -> None:
        """End the run early: nothing more is started; running bodies are left behind, since no thread can be ended."""
        self._finished.put(RunStopped(reason))

    def run(self, body: SyncBody) -> None:
        """Run all tasks. Raises what stops a session; failures of bodies are in the ledger."""
        course = self._course
        course.ledger.zero = course.ledger.now()
        for warmup in (True, False):
            numbers = iter([index for index, warm in course.indices() if warm is warmup])
            try:
                self._run_phase(body, numbers, warmup=warmup)
            except RunStopped as stopped:
                course.ledger.run.interrupted = str(stopped)
                return

    def _run_phase(self, body: SyncBody, numbers: Iterator[int], *, warmup: bool) -> None:
        running: set[_Running] = set()
        try:
            for _ in range(self._course.lanes()):
                self._start_next(body, numbers, running, warmup=warmup)
            while running:
                for ended in self._wait(running):
                    running.discard(ended)
                    self._close(ended)
                    self._start_next(body, numbers, running, warmup=warmup)
        finally:
            for left in running:
                self._course.ended(
                    left.context, left.start, RunStopped("left behind when the run was stopped"), "cancelled"
                )

    def _start_next(self, body: SyncBody, numbers: Iterator[int], running: set[_Running], *, warmup: bool) -> None:
        index = next(numbers, None)
        if index is None or self._course.closed:
            return
        now = self._course.ledger.now()
        one = _Running(self._course.context(index, warmup=warmup, due=now), now)
        running.add(one)
        self._course.started()
        around = contextvars.copy_context()
        # A daemon: a body that never ends must not keep the process from ending.
        threading.Thread(
            target=around.run, args=(self._one, one, body), name=f"swarm-agent-{index}", daemon=True
        ).start()

    def _one(self, one: _Running, body: SyncBody) -> None:
        current.set(one.context)
        one.start = self._course.ledger.now()
        try:
            value = body(one.context.agent)
            if value is not None:
                raise ReturnedValue(f"a test body returns nothing, this one returned {type(value).__name__}")
        except BaseException as raised:  # noqa: BLE001 - SystemExit would end the thread unseen
            one.error = raised
        self._finished.put(one)

    def _wait(self, running: set[_Running]) -> list[_Running]:
        """The bodies that have ended, or that have run for too long; waits for the first of them."""
        limit = self._course.plan.task_timeout
        patience = None
        if limit is not None:
            now = self._course.ledger.now()
            patience = max(0.0, min(one.start for one in running) + limit - now)
        try:
            ended = self._finished.get(timeout=patience)
        except queue.Empty:
            now = self._course.ledger.now()
            late = [one for one in running if limit is not None and one.start + limit <= now]
            for one in late:
                one.error = BodyTimeout(f"still running after task_timeout={limit:g} s")
            return late
        if isinstance(ended, RunStopped):
            raise ended
        return [ended] if ended in running else []

    def _close(self, one: _Running) -> None:
        status = None
        if isinstance(one.error, BodyTimeout):
            status = "timeout"
        elif one.error is not None:
            status = status_of(one.error, self._course.outcomes)
            if status is None:
                self._course.ended(one.context, one.start, one.error, "cancelled")
                raise one.error
        self._course.ended(one.context, one.start, one.error, status)
