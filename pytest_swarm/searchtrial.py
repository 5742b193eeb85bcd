"""A test that searches for the largest load that holds: one trial for every probe, and one answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pytest_swarm.demands import Demands, Surroundings
from pytest_swarm.errors import SwarmError
from pytest_swarm.judging.search import Search, is_near
from pytest_swarm.swarm.searching import SearchPlan, tasks_of
from pytest_swarm.trial import Trial

if TYPE_CHECKING:
    from pytest_swarm.judging.sla import Expression
    from pytest_swarm.judging.verdict import Judgement, Verdict
    from pytest_swarm.progresswatch import ProgressWatch
    from pytest_swarm.rowfile import RowFile
    from pytest_swarm.tap.routing import Agent

__all__ = ["SearchTrial"]

_ANSWERS: Final[Mapping[str, str]] = {"pass": "held", "fail": "missed"}
_CURVE: Final = {
    "throughput": "throughput",
    "p50": "latency.p50",
    "p95": "latency.p95",
    "p99": "latency.p99",
    "success_rate": "success_rate",
    "cost": "cost",
}
"""What is told of every probe, by the metric that it is."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """A load that was tried."""

    load: float
    trial: Trial
    judgement: Judgement
    near: bool

    @property
    def answer(self) -> str:
        return _ANSWERS.get(self.judgement.verdict, "undecided")

    def to_dict(self) -> dict[str, Any]:
        record = self.trial.record
        assert record is not None
        return {
            "load": self.load,
            "verdict": self.answer,
            "near": self.near,
            "tasks": record["plan"]["tasks"],
            "in_flight_max": record["in_flight_max"],
            **{name: record["metrics"].get(metric) for name, metric in _CURVE.items()},
            "reasons": record["reasons"],
        }


class SearchTrial(Trial):
    """Runs the body under one load after the other. Its figures are those of the load that is the answer."""

    def __init__(
        self,
        nodeid: str,
        demands: Demands,
        around: Surroundings,
        open_rows: Callable[[], RowFile],
        *,
        is_async: bool = True,
        number: int = 0,
        watcher: ProgressWatch | None = None,
    ) -> None:
        """As `Trial`; every probe has a file of rows of its own."""
        super().__init__(nodeid, demands, around, open_rows(), is_async=is_async, number=number, watcher=watcher)
        assert demands.search is not None
        self._plan: SearchPlan = demands.search
        self._search = Search(self._plan.low, self._plan.high, whole=self._plan.whole)
        self._open_rows = open_rows
        self._is_async = is_async
        self._number = number
        self._watcher = watcher
        self._before = self.conductor
        """Has the calls that were made before the first probe, in fixtures for example."""
        self._probes: list[_Probe] = []
        self._running: Trial | None = None
        self._tasks = 0
        self._undecided: list[str] = []
        """Why the search has no answer."""

    async def run(self, body: Callable[[Agent], Any]) -> None:
        """Run a coroutine function under every load that the search asks for."""
        try:
            while (probe := self._next()) is not None:
                with _closing_rows(probe):
                    await probe.run(body)
                self._tell(probe)
        finally:
            await self.gateway.clients.close()

    def run_in_threads(self, body: Callable[[Agent, Callable[[Any], Any]], Any]) -> None:
        """Run a plain function under every load that the search asks for."""
        try:
            while (probe := self._next()) is not None:
                with _closing_rows(probe):
                    probe.run_in_threads(body)
                self._tell(probe)
        finally:
            self.gateway.clients.close_blocking()

    def _next(self) -> Trial | None:
        """The trial of the next load; None when there is an answer, or will be none."""
        load = self._search.load
        if load is None or self._undecided:
            return None
        plan = self._plan.at(load)
        if self._tasks + tasks_of(plan) > self._plan.max_tasks:
            self._undecided = [self._too_few(load, tasks_of(plan))]
            return None
        number = self._number * 1000 + len(self._probes) + 1
        self._running = Trial(
            self.nodeid,
            replace(self.demands, plan=plan, search=None),
            self._around,
            self._open_rows(),
            is_async=self._is_async,
            number=number,
            watcher=self._watcher,
            budget=self._own_budget,
        )
        # So that what a fixture or a background task asks meanwhile is measured with the probe.
        self.conductor = self._running.conductor
        return self._running

    def _tell(self, trial: Trial) -> None:
        """A probe is over: judge it, and go on from there."""
        load = self._search.load
        assert load is not None
        judgement = self._conclude_probe(load, trial)
        if judgement.verdict in _ANSWERS:
            self._search.tell(held=judgement.verdict == "pass", near=self._probes[-1].near)
        else:
            name = f"{self._plan.metric} {self._plan.shown(load)}"
            self._undecided = [f"{name}: {reason}" for reason in judgement.reasons] + (
                [f"the search was not finished{self._bracket()}"] if self._search.held is not None else []
            )

    def _conclude_probe(self, load: float, trial: Trial, *, interrupted: bool = False) -> Judgement:
        self._running = None
        judgement = trial.conclude(self.nodeid.partition("[")[0], interrupted=interrupted)
        trial.rows.close()
        self._tasks += sum(len(run.tasks) for run in trial.conductor.result.runs)
        near = is_near(judgement, trial.demands.expressions)
        self._probes.append(_Probe(load, trial, judgement, near))
        return judgement

    def conclude(
        self, test: str, *, interrupted: bool = False, expressions: tuple[Expression, ...] | None = None
    ) -> Judgement:
        """The answer, and the record with the curve."""
        if self._running is not None and self._search.load is not None:
            self._conclude_probe(self._search.load, self._running, interrupted=True)
        shown = self._shown()
        if shown is None:
            judgement = super().conclude(test, interrupted=interrupted, expressions=expressions)
            assert self.record is not None
            self.record = {**self.record, "search": self._to_dict(judgement.verdict)}
            return judgement
        verdict, reasons = self._verdict(shown, interrupted=interrupted)
        self.conductor = shown.trial.conductor
        self.judgement = replace(shown.judgement, verdict=verdict, reasons=reasons)
        assert shown.trial.record is not None
        self.record = {
            **shown.trial.record,
            "test": test,
            "verdict": verdict,
            "reasons": reasons,
            "spent": _together(self._spent()),
            "ceiling": None if self._own_budget is None else self._own_budget.standing().to_dict(),
            "search": self._to_dict(verdict),
        }
        return self.judgement

    def _shown(self) -> _Probe | None:
        """The probe whose figures stand for the test: of the largest load that held, else the latest one."""
        holding = [probe for probe in self._probes if probe.load == self._search.held and probe.answer == "held"]
        missing = [probe for probe in self._probes if probe.answer == "missed"]
        if self._search.held is None and self._search.missed is not None:
            holding = missing
        return next(reversed(holding or self._probes), None)

    def _verdict(self, shown: _Probe, *, interrupted: bool) -> tuple[Verdict, list[str]]:
        if interrupted:
            return "interrupted", ["the search was interrupted"]
        if self._undecided:
            skipped = shown.judgement.verdict == "skipped"
            return ("skipped", shown.judgement.reasons) if skipped else ("invalid", self._undecided)
        if self._search.held is None:
            name = f"{self._plan.metric} {self._plan.shown(self._plan.low)}, the lowest,"
            return "fail", [f"{name} does not hold: {reason}" for reason in shown.judgement.reasons]
        return "pass", []

    def _too_few(self, load: float, tasks: int) -> str:
        plan = self._plan
        return (
            f"the search used {self._tasks:,} of max_tasks={plan.max_tasks:,}, which leaves too few for the {tasks:,} "
            f"of {plan.metric} {plan.shown(load)}: raise max_tasks, or narrow low and high{self._bracket()}"
        )

    def _bracket(self) -> str:
        """What is known when the search ends early."""
        held, missed = self._search.held, self._search.missed
        if held is None:
            return ""
        upper = "" if missed is None else f" and {self._plan.shown(missed)} does not"
        return f"; {self._plan.shown(held)} holds{upper}"

    def _spent(self) -> Iterable[Mapping[str, Any]]:
        """What every probe cost, and the calls before the first."""
        for probe in self._probes:
            assert probe.trial.record is not None
            yield probe.trial.record["spent"]
        if self._before.result.runs:
            conductor, judgement, record = self.conductor, self.judgement, self.record
            self.conductor = self._before
            super().conclude(self.nodeid)
            assert self.record is not None
            yield self.record["spent"]
            self.conductor, self.judgement, self.record = conductor, judgement, record

    def _to_dict(self, verdict: str) -> dict[str, Any]:
        """The curve, from the lowest load to the highest."""
        plan = self._plan
        return {
            "metric": plan.metric,
            "low": plan.low,
            "high": plan.high,
            "max_tasks": plan.max_tasks,
            "tasks": self._tasks,
            "verdict": verdict,
            "held": self._search.held,
            "missed": self._search.missed,
            "probes": [probe.to_dict() for probe in sorted(self._probes, key=lambda probe: probe.load)],
        }


@contextmanager
def _closing_rows(trial: Trial) -> Iterator[None]:
    """Of a probe that cannot be run nobody asks for rows."""
    try:
        yield
    except SwarmError:
        trial.rows.close()
        raise


def _together(spent: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums of what several runs cost; of a model with a part that nobody knows, it is unknown."""
    by_model: dict[str, float | None] = {}
    unpriced: Counter[str] = Counter()
    for one in spent:
        unpriced["calls"] += one["unpriced_calls"]
        for model, cost in one["by_model"].items():
            before = by_model.get(model, 0.0)
            by_model[model] = None if cost is None or before is None else before + cost
    return {"by_model": by_model, "unpriced_calls": unpriced["calls"]}
