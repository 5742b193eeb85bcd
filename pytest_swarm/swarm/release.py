"""Which task starts when: a plan as decisions, for a runner that has the clock. Told the time; no I/O, no sleeping.

In a closed loop the next task starts as soon as a lane is free, in an open loop when it is due, whatever became of
those before. Both runners ask the same questions: what is the next instant at which anything happens by itself, and is
there a task to start now?
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice, takewhile
from typing import TYPE_CHECKING, Protocol

from pytest_swarm.records import Arrival
from pytest_swarm.swarm.adaptive import Controller
from pytest_swarm.swarm.arrivals import constant_rate, due_times, ramps_of
from pytest_swarm.swarm.caps import TOLERANCE, AdaptiveCap, Cap, FixedCap, SteppedCap, steps_of

if TYPE_CHECKING:
    from pytest_swarm.columns import RunResult
    from pytest_swarm.swarm.adaptive import Trouble
    from pytest_swarm.swarm.plan import Plan

__all__ = ["ClosedLoop", "OpenLoop", "Phase", "Release", "Releases", "arrivals_of", "phases"]


@dataclass(frozen=True, slots=True)
class Release:
    """A task that is to be started."""

    index: int
    warmup: bool
    due: float
    """On the clock of the run."""
    arrival: Arrival | None = None
    """The row of the trace that it stands for."""
    waited: bool = False
    """Whether it had to wait until others had ended."""


class Releases(Protocol):
    """The tasks of one phase of a run."""

    def advance(self, now: float, running: int) -> None:
        """It is `now`, and so many tasks are running: note what has become due."""

    def next_time(self) -> float | None:
        """When `advance` should be called next, if no task ends before; None when only the end of tasks matters."""

    def take(self, now: float, running: int) -> Release | None:
        """The task to start now beside those that are running, if there is one."""

    def ended(self, now: float, latency: float, trouble: Trouble | None) -> bool:
        """A task has ended. Returns whether more may be in flight now than before."""

    def left(self, now: float) -> Iterator[tuple[Release, str]]:
        """Tasks that were due and will never be started, with the reason; each is told once."""


class ClosedLoop:
    """As many tasks in flight as the cap allows, until the numbers run out or the time is over."""

    def __init__(self, numbers: Iterable[tuple[int, bool]], cap: Cap, end: float = math.inf) -> None:
        """`numbers` are indices with whether they warm up; nothing starts at `end` or later."""
        self._numbers = iter(numbers)
        self._cap = cap
        self._end = end
        self._out = False

    def advance(self, now: float, running: int) -> None:  # noqa: ARG002 - part of the interface
        """See `Releases`."""
        self._cap.advance(now)

    def next_time(self) -> float | None:
        """See `Releases`."""
        return None if self._out else self._cap.next_time()

    def take(self, now: float, running: int) -> Release | None:
        """See `Releases`: due is a task when its lane is free."""
        if running >= self._cap.limit or now >= self._end - TOLERANCE:
            return None
        number = next(self._numbers, None)
        self._out = number is None
        return None if number is None else Release(number[0], number[1], now)

    def ended(self, now: float, latency: float, trouble: Trouble | None) -> bool:
        """See `Releases`."""
        before = self._cap.limit
        self._cap.ended(now, latency, trouble)
        return self._cap.limit > before

    def left(self, now: float) -> Iterator[tuple[Release, str]]:  # noqa: ARG002 - part of the interface
        """Nothing is due in a closed loop before it starts."""
        return iter(())


class OpenLoop:
    """Tasks at the times at which they are due. Above the cap they wait in a backlog, and above that they are shed."""

    def __init__(
        self, due: Iterator[Release], cap: Cap, run: RunResult, *, backlog: int | None = None, end: float = math.inf
    ) -> None:
        """`due` ascends. No task that had to wait starts at `end` or later. What waited is counted on `run`."""
        self._due = due
        self._coming = next(due, None)
        self._cap = cap
        self._run = run
        self._backlog = math.inf if backlog is None else backlog
        self._end = end
        self._ready: deque[Release] = deque()
        self._waiting: deque[Release] = deque()
        self._shed: deque[Release] = deque()

    def advance(self, now: float, running: int) -> None:
        """See `Releases`."""
        self._cap.advance(now)
        while self._coming is not None and self._coming.due <= now + TOLERANCE:
            self._arrive(self._coming, running)
            self._coming = next(self._due, None)

    def _arrive(self, release: Release, running: int) -> None:
        if not self._waiting and running + len(self._ready) < self._cap.limit:
            self._ready.append(release)
        elif len(self._waiting) < self._backlog:
            self._waiting.append(release)
            if not release.warmup:
                self._run.backlogged += 1
            self._run.backlog_max = max(self._run.backlog_max, len(self._waiting))
        else:
            self._shed.append(release)

    def next_time(self) -> float | None:
        """See `Releases`."""
        return None if self._coming is None else self._coming.due

    def take(self, now: float, running: int) -> Release | None:
        """See `Releases`: what has just become due goes first only because nothing waits then."""
        if self._ready:
            return self._ready.popleft()
        if self._waiting and running < self._cap.limit and now < self._end - TOLERANCE:
            return replace(self._waiting.popleft(), waited=True)
        return None

    def ended(self, now: float, latency: float, trouble: Trouble | None) -> bool:  # noqa: ARG002 - part of the interface
        """The cap of an open loop learns nothing."""
        return False

    def left(self, now: float) -> Iterator[tuple[Release, str]]:
        """See `Releases`: what the backlog had no room for, and what is still in it when the time is over."""
        while self._shed:
            yield self._shed.popleft(), f"shed: {len(self._waiting)} tasks were waiting already, as the backlog allows"
        while self._waiting and now >= self._end - TOLERANCE:
            yield self._waiting.popleft(), "shed: it was still waiting when the time of the plan was over"


Phase = Callable[[float], Releases]
"""What is released from the start of a phase on, given that start on the clock of the run."""


def phases(plan: Plan, run: RunResult) -> list[Phase]:
    """The phases of one run, each of which begins when the tasks of the one before have ended.

    Only a closed loop of fixed size warms up in a phase of its own; elsewhere the first tasks of the load do.
    """
    numbers = partial(_numbers, plan)
    if plan.is_open:
        return [
            lambda start: OpenLoop(
                _due(plan, run.index, start), _cap(plan, run, start), run, backlog=plan.backlog, end=_end(plan, start)
            )
        ]
    if plan.stages or isinstance(plan.concurrency, tuple):
        return [lambda start: ClosedLoop(numbers(), _cap(plan, run, start), _end(plan, start))]
    warmup = [lambda start: ClosedLoop(numbers(measured=False), _cap(plan, run, start))] if plan.warmup else []
    return [*warmup, lambda start: ClosedLoop(numbers(warmup=False), _cap(plan, run, start), _end(plan, start))]


def arrivals_of(plan: Plan, run_index: int) -> Iterator[Arrival]:
    """The arrivals of an open loop, until its tasks or its time are over."""
    if plan.trace:
        seconds = math.inf if plan.duration is None else plan.duration
        found: Iterator[Arrival] = takewhile(lambda row: row.offset < seconds, plan.trace)
    else:
        ramps = ramps_of(plan.stages) if plan.rate is None else constant_rate(plan.rate, plan.duration)
        found = map(Arrival, due_times(ramps, plan.arrival, f"{plan.seed}:{run_index}:arrivals"))
    return islice(found, None if plan.tasks is None else plan.warmup + plan.tasks)


def _due(plan: Plan, run_index: int, start: float) -> Iterator[Release]:
    for number, arrival in enumerate(arrivals_of(plan, run_index)):
        warmup = number < plan.warmup
        index = number if warmup else number - plan.warmup
        yield Release(index, warmup, start + arrival.offset, arrival if plan.trace else None)


def _numbers(plan: Plan, *, warmup: bool = True, measured: bool = True) -> Iterator[tuple[int, bool]]:
    """Indices with whether they warm up; both count from 0."""
    if warmup:
        yield from ((index, True) for index in range(plan.warmup))
    if measured:
        yield from ((index, False) for index in (count() if plan.tasks is None else range(plan.tasks)))


def _cap(plan: Plan, run: RunResult, start: float) -> Cap:
    concurrency = plan.concurrency
    if isinstance(concurrency, tuple):
        return AdaptiveCap(Controller(*concurrency, trace=run.limits), start)
    if plan.stages and not plan.is_open:
        return SteppedCap(steps_of(plan.stages), start, concurrency)
    return FixedCap(concurrency)


def _end(plan: Plan, start: float) -> float:
    return math.inf if plan.seconds is None else start + plan.seconds
