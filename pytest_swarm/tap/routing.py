"""Who is calling: the context of the running task, found through a ContextVar."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_swarm.errors import SwarmError
    from pytest_swarm.exchange import Exchange, Source
    from pytest_swarm.reading.json_output import JSONResult
    from pytest_swarm.records import Arrival, Call, Task
    from pytest_swarm.tap.ledger import Ledger
    from pytest_swarm.tap.opencall import OpenCall

__all__ = ["Agent", "TaskContext", "caller", "current", "outer_exchange", "outside", "unobserved"]


@dataclass(eq=False)
class TaskContext:
    """What belongs to one running task. `index` is None for calls of a test that no task makes, in a fixture say."""

    index: int | None
    run: int
    ledger: Ledger
    source: Source
    seed: int = 0
    warmup: bool = False
    due: float = 0.0
    """When the task should have started, on the clock of the run."""
    arrival: Arrival | None = None
    """The row of an arrival trace that the task stands for."""
    attempt: int = 0
    """How often the task was run before, by other agents, and failed."""
    waited: bool = False
    """Whether the task could not start when it was due, because others had to end before."""
    calls: list[Call] = field(default_factory=list)
    open: set[OpenCall] = field(default_factory=set)
    checking: dict[OpenCall, asyncio.Future[JSONResult | None]] = field(default_factory=dict)
    """Closed calls whose replies are being checked as JSON; they are in the book when that is done."""
    confined: frozenset[str] | None = None
    """Hosts beside loopback that the task may reach; None where it may reach any."""
    counted: frozenset[str] | None = None
    """Hosts beside loopback whose model calls are measured; None where those of any are."""
    played: str | None = None
    """The host that `source` stands for, with nothing on the network behind it; None where requests are really sent."""
    stopped: SwarmError | None = None
    """The first request that was stopped: the task fails with it, whatever a client made of the exception."""
    gone: bool = False
    """The task is over: what it left running is kept in no book."""
    row: Task | None = None
    """What came of the task, once it is over."""

    async def all_checked(self) -> None:
        """Wait until the replies of all closed calls are checked."""
        while self.checking:
            await asyncio.wait(self.checking.values())

    @cached_property
    def agent(self) -> Agent:
        """What the body sees of it."""
        return Agent(self)

    @cached_property
    def jitter(self) -> random.Random:
        """For the waits of retries: apart from `Agent.rng`, so that an error does not change what a body draws."""
        return random.Random(f"{self.draws}:jitter")

    @property
    def draws(self) -> str:
        """The seed of what its agent draws."""
        return f"{self.seed}:{self.index}:{self.attempt}" if self.attempt else f"{self.seed}:{self.index}"


class Agent:
    """Who runs one task: a number, a seeded random generator, and a place for figures of your own."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"<agent {self.index} of run {self.run}>"

    @property
    def index(self) -> int | None:
        """Number of the task within its run, from 0."""
        return self._context.index

    @property
    def run(self) -> int:
        """Number of the run, from 0; more than one with ``repeat``."""
        return self._context.run

    @property
    def warmup(self) -> bool:
        """Whether this task warms the system up and is in no figure."""
        return self._context.warmup

    @property
    def arrival(self) -> Arrival | None:
        """The row of the arrival trace that the task stands for; None without a trace."""
        return self._context.arrival

    @property
    def attempt(self) -> int:
        """How often the task was run before and failed: more than 0 only with ``reschedule``."""
        return self._context.attempt

    @cached_property
    def rng(self) -> random.Random:
        """Depends on seed, index and attempt only, so that a task asks the same every time."""
        return random.Random(self._context.draws)

    def record(self, name: str, value: float) -> None:
        """Keep a number of your own; SLA lines know it as ``my.<name>.<statistic>``, ``my.hops.p95`` for example.

        Raises `SettingError` for a name that an SLA line could not spell, or a value that is no finite number.
        """
        self._context.ledger.record(self._context, name, value)

    def check(self, name: str, ok: object) -> bool:
        """Count a check of your own without ending the task; SLA lines know its share as ``check.<name>``.

        Returns whether it held.
        """
        return self._context.ledger.check(self._context, name, ok=bool(ok))


current: ContextVar[TaskContext | None] = ContextVar("pytest_swarm_task", default=None)
"""The context of the task that is running; None outside of any swarm."""

outside: list[Callable[[], TaskContext]] = []
"""Who answers for calls that no task makes, in a fixture for example: the test that is going on, as its last entry."""

outer_exchange: ContextVar[Exchange | None] = ContextVar("pytest_swarm_outer_exchange", default=None)
"""Set while a client that is measured already sends through another one: the request counts once."""

_unobserved: ContextVar[bool] = ContextVar("pytest_swarm_unobserved", default=False)


def caller() -> TaskContext | None:
    """Whose request it is that is made now: a task's, else the test's; None where nobody measures."""
    if _unobserved.get():
        return None
    context = current.get()
    return outside[-1]() if context is None and outside else context


@contextmanager
def unobserved() -> Iterator[None]:
    """Requests inside the block are our own, and are nobody's."""
    token = _unobserved.set(True)
    try:
        yield
    finally:
        _unobserved.reset(token)
