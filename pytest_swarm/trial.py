"""A trial: everything that one test needs to run as a swarm, be measured and be judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_swarm.columns import SwarmResult
from pytest_swarm.errors import SettingError
from pytest_swarm.exchange import Source
from pytest_swarm.gateway.blocking import BlockingGateway, Portal
from pytest_swarm.gateway.client import Gateway, Terms
from pytest_swarm.gateway.preflight import preflight
from pytest_swarm.gateway.reply import JsonRule
from pytest_swarm.judging.verdict import Judgement, judge
from pytest_swarm.reports.record import test_record
from pytest_swarm.sources.live import LiveSource
from pytest_swarm.swarm.conductor import Conductor
from pytest_swarm.swarm.outcomes import TestOutcomes

if TYPE_CHECKING:
    from pytest_swarm.judging.prices import Cost, PriceTable
    from pytest_swarm.judging.sla import Expression, TaskBound
    from pytest_swarm.progresswatch import ProgressWatch
    from pytest_swarm.records import Reading
    from pytest_swarm.rowfile import RowFile
    from pytest_swarm.settings import Settings
    from pytest_swarm.swarm.plan import Plan
    from pytest_swarm.tap.routing import Agent, TaskContext

__all__ = ["Demands", "Trial"]


@dataclass(frozen=True, slots=True)
class Demands:
    """What the markers of a test ask of it."""

    plan: Plan
    expressions: tuple[Expression, ...] = ()
    per_task: tuple[TaskBound, ...] = ()
    json_rule: JsonRule | None = None
    model: str | None = None
    """The model that the test is parametrised by, else that of the plan."""
    parametrised: bool = False
    """Whether the test is parametrised by model."""


@dataclass(slots=True, eq=False)
class Trial:
    """One test from the set-up of its fixtures to its record."""

    nodeid: str
    demands: Demands
    settings: Settings
    prices: PriceTable
    rows: RowFile
    outcomes: TestOutcomes
    checked: dict[tuple[str, str | None], str | None]
    """What pre-flight calls of this session found, by address and model: an error's text, or None."""
    watcher: ProgressWatch | None = None
    conductor: Conductor = field(init=False)
    terms: Terms = field(init=False)
    gateway: Gateway = field(init=False)
    judgement: Judgement | None = None
    record: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        demands, settings = self.demands, self.settings
        if settings.base_url is None:
            raise SettingError(
                "no gateway is named: give --swarm-base-url, SWARM_BASE_URL or the ini key swarm_base_url"
            )
        result = SwarmResult(
            nodeid=self.nodeid,
            model=demands.model,
            gateway_kind="live",
            base_url=settings.base_url,
            clock="real",
            plan=demands.plan.to_dict(),
            rows=str(self.rows.path),
            notes=list(demands.plan.notes),
        )
        self.conductor = Conductor(
            result,
            demands.plan,
            make_source=_live_source,
            rows=self.rows,
            price=self._price,
            outcomes=self.outcomes,
            json_check=None if demands.json_rule is None else demands.json_rule.status,
            watcher=self.watcher,
        )
        if self.watcher is not None:
            self.watcher.watch(self.conductor)
        self.terms = Terms(
            base_url=settings.base_url,
            headers=_headers(settings),
            model=demands.model,
            limits=demands.plan.timeout,
            retries=demands.plan.retries,
            json_rule=demands.json_rule,
        )
        self.gateway = Gateway(self.terms, self._outside)

    async def run(self, body: Callable[[Agent], Any]) -> None:
        """Run a coroutine function as the plan says, after a question to the gateway whether it can work at all."""
        await self._preflight()
        await self.conductor.run(body)

    def run_in_threads(self, body: Callable[[Agent, Callable[[Any], Any]], Any]) -> None:
        """Run a plain function as the plan says; it gets the agent, and how to make a fixture's value blocking."""
        with Portal() as portal:
            portal.call(self._preflight())

            def blocking(value: Any) -> Any:
                return BlockingGateway(value, portal) if isinstance(value, Gateway) else value

            self.conductor.run_in_threads(lambda agent: body(agent, blocking), portal.enter)

    def conclude(self, test: str, *, interrupted: bool = False) -> Judgement:
        """Judge what was measured and make the record; `test` is the node id without parameters."""
        demands = self.demands
        judgement = judge(
            self.conductor.result,
            demands.expressions,
            per_task=demands.per_task,
            json_expected=demands.json_rule is not None,
            interrupted=interrupted,
        )
        self.judgement = judgement
        self.rows.flush()
        self.record = test_record(
            self.conductor.result,
            judgement,
            test=test,
            param_model=demands.model if demands.parametrised else None,
        )
        return judgement

    def _outside(self) -> TaskContext:
        return self.conductor.outside(LiveSource())

    def _price(self, model: str | None, reading: Reading) -> Cost:
        usage = reading.usage
        reported = None if usage is None else usage.reported_cost
        return self.prices.cost(model, usage, reported, reading.outcome)

    async def _preflight(self) -> None:
        key = (self.terms.base_url, self.terms.model)
        if key not in self.checked:
            try:
                await preflight(self.terms, self.settings.api_key_variable)
            except SettingError as error:
                self.checked[key] = str(error)
            else:
                self.checked[key] = None
        found = self.checked[key]
        if found is not None:
            raise SettingError(found)


def _live_source(_run: int) -> AbstractAsyncContextManager[Source]:
    return LiveSource()


def _headers(settings: Settings) -> Mapping[str, str]:
    headers = {"accept": "application/json, text/event-stream"}
    if settings.api_key is not None:
        headers["authorization"] = f"Bearer {settings.api_key.reveal()}"
    return headers | {name.lower(): value.reveal() for name, value in settings.headers}
