"""A test whose cassette is checked: instead of its body, a sample of what was recorded is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_swarm.demands import Demands, Surroundings
from pytest_swarm.gateway.recheck import recheck_of
from pytest_swarm.trial import Trial

if TYPE_CHECKING:
    from pytest_swarm.judging.sla import Expression
    from pytest_swarm.judging.verdict import Judgement
    from pytest_swarm.progresswatch import ProgressWatch
    from pytest_swarm.rowfile import RowFile
    from pytest_swarm.tap.routing import Agent

__all__ = ["RecheckTrial"]


class RecheckTrial(Trial):
    """Runs the sample as tasks. Its figures are the sample's; service levels, meant for the body, are not judged."""

    def __init__(
        self,
        nodeid: str,
        demands: Demands,
        around: Surroundings,
        rows: RowFile,
        cassette: Path | None,
        *,
        number: int = 0,
        watcher: ProgressWatch | None = None,
    ) -> None:
        """Raises `SettingError` where there is no cassette, `CassetteError` where it cannot be read."""
        self._recheck = recheck_of(cassette, nodeid)
        plan = demands.plan
        tasks = len(self._recheck)
        plan = replace(
            type(plan)(tasks=tasks, concurrency=min(plan.in_flight or tasks, tasks)),
            seed=plan.seed,
            model=plan.model,
            timeout=plan.timeout,
            limit=plan.limit,
            max_cost=plan.max_cost,
        )
        asked = replace(demands, plan=plan, expressions=(), per_task=(), json_rule=None)
        super().__init__(nodeid, asked, around, rows, number=number, watcher=watcher)
        self._recheck.terms = self.terms

    async def run(self, body: Callable[[Agent], Any]) -> None:
        """Ask again; `body` does not run."""
        del body
        await super().run(self._recheck.body)

    def run_in_threads(self, body: Callable[[Agent, Callable[[Any], Any]], Any]) -> None:
        """As `run`: the sample needs no threads, whatever the body would."""
        del body
        asyncio.run(super().run(self._recheck.body))

    def conclude(
        self, test: str, *, interrupted: bool = False, expressions: tuple[Expression, ...] | None = None
    ) -> Judgement:
        """Judge that the sample was answered as it had been, and tell what has moved."""
        del expressions
        notes = self.conductor.result.notes
        notes.extend(note for note in self._recheck.notes() if note not in notes)
        return super().conclude(test, interrupted=interrupted, expressions=())
