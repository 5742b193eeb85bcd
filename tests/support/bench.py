"""A swarm without pytest: a body, run as tasks against a server, and everything that was booked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_swarm.columns import SwarmResult
from pytest_swarm.gateway.client import Gateway, Terms
from pytest_swarm.gateway.reply import JsonRule
from pytest_swarm.judging.prices import PriceTable
from pytest_swarm.records import Reading
from pytest_swarm.sources.cassette.recorder import Recorder
from pytest_swarm.sources.live import LiveSource
from pytest_swarm.swarm.conductor import Conductor
from pytest_swarm.swarm.outcomes import TestOutcomes
from pytest_swarm.swarm.plan import Plan, Timeouts
from pytest_swarm.tap import aiohttp as tap
from pytest_swarm.tap.routing import Agent
from pytest_swarm.traffic.budget import BaseBudget
from pytest_swarm.traffic.ceilings import Ceilings

Body = Callable[[Gateway, Agent], Awaitable[object]]


class Skipped(BaseException):
    """Stands for the test framework's skip."""


@dataclass
class Rows:
    """A row sink in memory."""

    tasks: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)

    def task(self, row: dict[str, Any]) -> None:
        self.tasks.append(row)

    def call(self, row: dict[str, Any]) -> None:
        self.calls.append(row)


def conductor(
    rows: Rows,
    plan: Plan,
    *,
    clock: str = "real",
    json_rule: JsonRule | None = None,
    prices: PriceTable | None = None,
    budget: BaseBudget | None = None,
    recorder: Recorder | None = None,
) -> Conductor:
    """A conductor that sends over the network."""
    prices = prices or PriceTable({})

    def price(model: str | None, reading: Reading, *, simulated: bool) -> Any:
        usage = reading.usage
        reported = None if usage is None else usage.reported_cost
        return prices.cost(model, usage, reported, reading.outcome, simulated=simulated)

    return Conductor(
        SwarmResult("test", None, "live", None, clock, plan.to_dict()),
        plan,
        make_source=lambda _: LiveSource(),
        rows=rows,
        price=price,
        outcomes=TestOutcomes(Skipped, (KeyboardInterrupt,)),
        json_check=None if json_rule is None else json_rule.check,
        ceilings=None if budget is None else Ceilings([budget], prices.tariffs),
        recorder=recorder,
    )


async def swarm(
    base_url: str,
    body: Body,
    *,
    tasks: int = 1,
    concurrency: int | None = None,
    timeout: Mapping[str, float] | None = None,
    retries: int = 0,
    json_rule: JsonRule | None = None,
    prices: PriceTable | None = None,
    budget: BaseBudget | None = None,
    recorder: Recorder | None = None,
    **arguments: Any,
) -> tuple[Rows, Conductor]:
    """Run `body(gateway, agent)` as tasks with the tap set, and give back what was booked."""
    limits = Timeouts(**(timeout or {}))
    plan = Plan(tasks=tasks, concurrency=concurrency or tasks, timeout=limits, retries=retries, **arguments)
    rows = Rows()
    conducting = conductor(rows, plan, json_rule=json_rule, prices=prices, budget=budget, recorder=recorder)
    gateway = Gateway(Terms(base_url, {}, None, limits, retries, json_rule), lambda: conducting.outside(LiveSource()))
    tap.install()
    try:
        async with asyncio.timeout(60):
            await conducting.run(lambda agent: body(gateway, agent))
    finally:
        tap.uninstall()
    return rows, conducting
