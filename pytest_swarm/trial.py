"""A trial: everything that one test needs to run as a swarm, be measured and be judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pytest_swarm.columns import SwarmResult
from pytest_swarm.demands import Demands, Surroundings
from pytest_swarm.errors import SettingError
from pytest_swarm.gateway.blocking import BlockingGateway, Portal
from pytest_swarm.gateway.client import Gateway, Terms
from pytest_swarm.gateway.preflight import preflight
from pytest_swarm.judging.baseline import NO_BASELINE, Baseline, NoBaseline
from pytest_swarm.judging.change import changes
from pytest_swarm.judging.curtailment import Curtailment
from pytest_swarm.judging.projection import cost_without_cache
from pytest_swarm.judging.verdict import Judgement, judge
from pytest_swarm.judging.workloads import fit_of
from pytest_swarm.pricing import Pricing
from pytest_swarm.reports.record import test_record
from pytest_swarm.reports.requests import notes_on_requests
from pytest_swarm.sources.live import LiveSource
from pytest_swarm.sources.simulated.source import SimulatedSource
from pytest_swarm.sources.simulated.systems import DEFAULT_SYSTEM
from pytest_swarm.swarm.conductor import Conductor
from pytest_swarm.traffic.budget import Budget

if TYPE_CHECKING:
    from pytest_swarm.judging.observation import Observation
    from pytest_swarm.judging.rates import Tariff
    from pytest_swarm.judging.sla import Expression
    from pytest_swarm.progresswatch import ProgressWatch
    from pytest_swarm.replaying import Replaying
    from pytest_swarm.rowfile import RowFile
    from pytest_swarm.settings import Settings
    from pytest_swarm.sources.cassette.recorder import Recorder
    from pytest_swarm.sources.cassette.replay import CassetteSource
    from pytest_swarm.tap.routing import Agent, TaskContext

__all__ = ["Trial"]

SIMULATED_URL: Final = "http://simulated.localhost/v1"
"""Where requests to the simulated gateway are addressed; nothing is sent there."""


class Trial:
    """One test from the set-up of its fixtures to its record."""

    def __init__(
        self,
        nodeid: str,
        demands: Demands,
        around: Surroundings,
        rows: RowFile,
        *,
        is_async: bool = True,
        number: int = 0,
        watcher: ProgressWatch | None = None,
        recorder: Recorder | None = None,
        replaying: Replaying | None = None,
        budget: Budget | None = None,
    ) -> None:
        """`number` tells the swarms of one test apart; `budget` is the test's cost ceiling where several share it.

        With `replaying` every reply comes from a cassette.

        Raises `SettingError` when the settings do not go together.
        """
        self.nodeid = nodeid
        self.demands = demands
        self.rows = rows
        self.judgement: Judgement | None = None
        self.record: dict[str, Any] | None = None
        self._around = around
        self.recorder = recorder
        self._ran = False
        self._number = number
        plan = demands.plan
        self._seed = f"{plan.seed}:{nodeid}:{number}" if number else f"{plan.seed}:{nodeid}"
        settings = around.settings
        self.replaying = replaying
        self._live = replaying is None and settings.base_url is not None
        self._base_url = settings.base_url if replaying is None else replaying.base_url
        self._pricing = Pricing(around, replaying, live=self._live)
        result = SwarmResult(
            nodeid=nodeid,
            model=demands.model or self._usual_model(),
            gateway_kind="live" if self._live else "simulated" if replaying is None else "replay",
            base_url=self._base_url,
            clock=_clock(settings, live=self._live, is_async=is_async) if replaying is None else replaying.clock,
            plan=plan.to_dict(),
            rows=str(rows.path),
            notes=list(plan.notes),
        )
        self._own_budget = budget
        if budget is None and plan.max_cost is not None:
            self._own_budget = Budget(plan.max_cost, "swarm(max_cost=...)")
        self._ceilings = self._pricing.ceilings((self._own_budget, around.budget), result.model)
        self.conductor = Conductor(
            result,
            plan,
            make_source=self._source,
            rows=rows,
            price=self._pricing.cost,
            outcomes=around.outcomes,
            json_check=None if demands.json_rule is None else demands.json_rule.check,
            ceilings=self._ceilings,
            watcher=watcher,
            recorder=recorder,
            curtailment=_curtailment(demands),
            confined=None if self._live else frozenset(settings.hosts),
            counted=frozenset({*settings.hosts, urlsplit(self._base_url or SIMULATED_URL).hostname or ""})
            | (set() if replaying is None else replaying.hosts),
            played=None if self._live else urlsplit(SIMULATED_URL).hostname,
            speed=None if replaying is None else replaying.speed,
            untimed=None if replaying is None else replaying.untimed,
        )
        if watcher is not None:
            watcher.watch(self.conductor)
        self.terms = Terms(
            base_url=self._base_url or SIMULATED_URL,
            headers=_headers(settings),
            model=result.model,
            limits=plan.timeout,
            retries=plan.retries,
            json_rule=demands.json_rule,
        )
        self.gateway = Gateway(self.terms, self.outside)

    async def run(self, body: Callable[[Agent], Any]) -> None:
        """Run a coroutine function as the plan says, after a question to the gateway whether it can work at all."""
        if self._live:
            await self._preflight()
        try:
            with self._confined():
                await self.conductor.run(body)
            self._ran = True
        finally:
            await self.gateway.clients.close()

    def run_in_threads(self, body: Callable[[Agent, Callable[[Any], Any]], Any]) -> None:
        """Run a plain function as the plan says; it gets the agent, and how to make a fixture's value blocking."""
        with Portal() as portal:
            if self._live:
                portal.call(self._preflight())

            def blocking(value: Any) -> Any:
                return BlockingGateway(value, portal) if isinstance(value, Gateway) else value

            try:
                with self._confined():
                    self.conductor.run_in_threads(lambda agent: body(agent, blocking), portal.enter)
                self._ran = True
            finally:
                self.gateway.clients.close_blocking()

    def conclude(
        self, test: str, *, interrupted: bool = False, expressions: tuple[Expression, ...] | None = None
    ) -> Judgement:
        """Judge what was measured and make the record; `test` is the node id without parameters."""
        demands = self.demands
        self.conductor.settle_outside()
        baseline = self._baseline()
        judgement = judge(
            self.conductor.result,
            demands.expressions if expressions is None else expressions,
            per_task=demands.per_task,
            json_expected=demands.json_rule is not None,
            interrupted=interrupted,
            baseline=baseline,
        )
        if self.replaying is not None:
            judgement = self.replaying.judged(judgement)
        self.judgement = judgement
        self.rows.flush()
        result = self.conductor.result
        result.notes.extend(notes_on_requests(result, self.terms.base_url))
        if self.recorder is not None and self.recorder.note not in result.notes:
            result.notes.append(self.recorder.note)
        if self.replaying is not None:
            result.notes.extend(self.replaying.notes())
        result.notes.extend(self._pricing.notes(result.runs))
        said = next((run.simulated for run in result.runs if run.simulated is not None), None)
        over_http = self._live and said is not None
        if over_http:
            result.gateway_kind = "simulated"
        self.record = test_record(
            result,
            judgement,
            test=test,
            param_model=demands.model if demands.parametrised else None,
            simulated=f"simulated over HTTP ({said})" if over_http else None,
            replay=None if self.replaying is None else self.replaying.to_dict(),
            ceiling=None if self._own_budget is None else self._own_budget.standing().to_dict(),
            without_cache=self._without_cache(judgement),
            baseline=None
            if baseline is NO_BASELINE
            else changes(result, judgement.metrics, baseline, 1 - judgement.confidence),
            workloads=[fit_of(workload, judgement.metrics) for workload in self._around.settings.workloads],
        )
        return judgement

    def leave_to_body(self) -> None:
        """The test starts its swarms itself; what it asks beside them is recorded here."""
        self._ran = True

    def _baseline(self) -> Baseline | NoBaseline:
        """The former run of this test."""
        if self._around.former is None:
            return NO_BASELINE
        found = self._around.former.find(self.nodeid, self._number)
        return found if isinstance(found, NoBaseline) else Baseline(found, self.demands.per_task)

    def finish_recording(self) -> list[str]:
        """Nothing more of the test comes: its cassette is complete, unless a run was stopped before its end.

        Returns what is wrong with the cassette, written or played, and was not told yet.
        """
        if self.replaying is not None:
            problem = None if self.replaying.told else self.replaying.problem
            self.replaying.close()
            return [] if problem is None else [problem]
        recorder = self.recorder
        if recorder is None:
            return []
        stopped = any(run.interrupted is not None for run in self.conductor.result.runs)
        recorder.finish(complete=self._ran and not stopped)
        return [] if recorder.problem is None or recorder.told else [recorder.problem]

    def outside(self) -> TaskContext:
        """Who answers for calls that no task makes."""
        return self.conductor.outside(self._source("outside"))

    def _source(self, run: int | str) -> LiveSource | SimulatedSource | CassetteSource:
        if self.replaying is not None:
            return self.replaying.source()
        return LiveSource() if self._live else SimulatedSource(self._around.systems, f"{self._seed}:{run}")

    def _usual_model(self) -> str | None:
        """The model that is asked where nothing names another."""
        if self.replaying is not None:
            return self.replaying.model
        return None if self._live else DEFAULT_SYSTEM

    def _confined(self) -> AbstractContextManager[None]:
        """Around a run: in a replay nothing leaves the machine."""
        if self.replaying is None:
            return nullcontext()
        from pytest_swarm.tap.sockets import confined_sockets

        return confined_sockets(frozenset(self._around.settings.hosts), self.replaying.blocked.append)

    def _without_cache(self, judgement: Judgement) -> Observation | None:
        """What a task would cost without prompt caches; pricing every call once more is for whoever projects costs."""
        if self._around.settings.project is None:
            return None
        return cost_without_cache(judgement.metrics, self._tariff)

    def _tariff(self, model: str) -> Tariff | None:
        return self._pricing.tariff(model, simulated=self.conductor.result.gateway_kind == "simulated")

    def _affordable(self, question: bytes) -> bool:
        """Whether the ceilings have room for a question before the run."""
        return self._ceilings is None or self._ceilings.afford(self.terms.model, question)

    async def _preflight(self) -> None:
        self._pricing.prepare(self.terms.model)
        key = (self.terms.base_url, self.terms.model)
        if key not in self._around.checked:
            try:
                await preflight(self.terms, self._around.settings.api_key_variable, self._affordable)
            except SettingError as error:
                self._around.checked[key] = str(error)
            else:
                self._around.checked[key] = None
        found = self._around.checked[key]
        if found is not None:
            raise SettingError(found)


def _clock(settings: Settings, *, live: bool, is_async: bool) -> str:
    """The clock of a test. Virtual time has no use where something real answers, and no way into threads."""
    if settings.clock == "virtual" and live:
        raise SettingError("--swarm-clock virtual needs the simulated gateway or a replay; drop it or --swarm-base-url")
    if settings.clock == "virtual" and not is_async:
        raise SettingError("--swarm-clock virtual needs an async test: a sync body runs in threads, on the real clock")
    return "real" if live or not is_async or settings.clock == "real" else "virtual"


def _curtailment(demands: Demands) -> Curtailment | None:
    """What ends the runs early; None where no service level asks for it."""
    plan = demands.plan
    if not any(expression.abort for expression in demands.expressions):
        return None
    known = plan.repeat == 1 and plan.duration is None and not plan.stages and plan.backlog is None
    return Curtailment(demands.expressions, plan.tasks if known else None)


def _headers(settings: Settings) -> Mapping[str, str]:
    headers = {"accept": "application/json, text/event-stream"}
    if settings.api_key is not None:
        headers["authorization"] = f"Bearer {settings.api_key.reveal()}"
    return headers | {name.lower(): value.reveal() for name, value in settings.headers}
