"""Who is calling: the agent of the running task, found through a ContextVar, and the call it is in the middle of."""

from __future__ import annotations

import random
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_swarm.exchange import Source
    from pytest_swarm.records import Call
    from pytest_swarm.tap.ledger import Ledger
    from pytest_swarm.tap.opencall import OpenCall

__all__ = ["Agent", "current_agent"]


class Agent:
    """Who runs one task: a number, a seeded random generator, and what the task recorded.

    Attributes:
        index: number of the task within its run, from 0.
        run: number of the run, from 0; more than one with ``repeat``.
        rng: a `random.Random` that depends on the seed and the index only, so that a task asks the same every time.
        warmup: whether this task warms the system up and is in no figure.
    """

    def __init__(
        self,
        index: int | None,
        run: int,
        *,
        ledger: Ledger,
        source: Source,
        seed: int = 0,
        warmup: bool = False,
        due: float = 0.0,
    ) -> None:
        self.index = index
        self.run = run
        self.warmup = warmup
        self.rng = random.Random(f"{seed}:{index}")  # noqa: S311 - repeatable on purpose, guards no secret
        self._ledger = ledger
        self._source = source
        self._due = due
        self._calls: list[Call] = []
        self._open: set[OpenCall] = set()
        self._gone = False

    def __repr__(self) -> str:
        return f"<agent {self.index} of run {self.run}>"

    def record(self, name: str, value: float) -> None:
        """Keep a number of your own; SLA lines know it as ``my.<name>.<statistic>``, ``my.hops.p95`` for example.

        Raises `SettingError` for a name that an SLA line could not spell, or a value that is no finite number.
        """
        self._ledger.record(self, name, value)

    def check(self, name: str, ok: object) -> bool:
        """Count a check of your own without ending the task; SLA lines know its share as ``check.<name>``.

        Returns whether it held.
        """
        return self._ledger.check(self, name, ok=bool(ok))


current_agent: ContextVar[Agent | None] = ContextVar("pytest_swarm_agent", default=None)
"""The agent whose task is running; None outside of any swarm."""
