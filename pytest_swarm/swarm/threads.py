"""Running a sync body as N concurrent tasks in threads. Its time is real, whatever clock was asked for."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_swarm.swarm.outcomes import ReturnedValue, status_of
from pytest_swarm.swarm.runner import BodyTimeout, RunStopped
from pytest_swarm.tap.routing import Agent, TaskContext, current

if TYPE_CHECKING:
    from pytest_swarm.swarm.course import Course
    from pytest_swarm.swarm.release import Release

__all__ = ["SyncBody", "ThreadRunner"]

SyncBody = Callable[[Agent], object]


@dataclass(slots=True, eq=False)
class _Running:
    """One body in its thread."""

    release: Release
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
        for _ in self._course.phases():
            try:
                self._run_phase(body)
            except RunStopped as stopped:
                self._course.ledger.run.interrupted = str(stopped)
                return

    def _run_phase(self, body: SyncBody) -> None:
        course = self._course
        running: set[_Running] = set()
        try:
            while True:
                course.advance(len(running))
                while (release := course.next_release(len(running))) is not None:
                    self._start(body, release, running)
                due = course.next_time()
                if due is None and not running:
                    return
                for ended in self._wait(running, due):
                    running.discard(ended)
                    self._close(ended)
                    row = ended.context.row
                    if row is not None and row.rescheduled:
                        self._start(body, ended.release, running, ended.context.attempt + 1)
        finally:
            for left in running:
                course.ended(left.context, left.start, RunStopped("left behind when the run was stopped"), "cancelled")

    def _start(self, body: SyncBody, release: Release, running: set[_Running], attempt: int = 0) -> None:
        course = self._course
        one = _Running(release, course.context(release, attempt), course.ledger.now())
        running.add(one)
        course.started(one.context, one.start)
        around = contextvars.copy_context()
        # A daemon: a body that never ends must not keep the process from ending.
        threading.Thread(
            target=around.run, args=(self._one, one, body), name=f"swarm-agent-{release.index}", daemon=True
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

    def _wait(self, running: set[_Running], due: float | None) -> list[_Running]:
        """Wait for the first body to end. Those that have ended, or have run for too long; none when it is `due`."""
        limit, now = self._course.plan.task_timeout, self._course.ledger.now()
        times = [] if due is None else [due]
        if limit is not None and running:
            times.append(min(one.start for one in running) + limit)
        try:
            ended = self._finished.get(timeout=max(0.0, min(times) - now) if times else None)
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
