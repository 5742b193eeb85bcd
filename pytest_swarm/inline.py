"""The `swarm` fixture: a swarm inside a test, started and judged by hand."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pytest_swarm.errors import SettingError
from pytest_swarm.judging.sla import parse, parse_metric
from pytest_swarm.judging.verdict import Judgement
from pytest_swarm.swarm.plan import plan_from
from pytest_swarm.trial import Demands, Trial

if TYPE_CHECKING:
    from pytest_swarm.settings import Settings
    from pytest_swarm.tap.routing import Agent

__all__ = ["InlineResult", "InlineSwarm"]


class InlineResult:
    """What came of `swarm.run`."""

    def __init__(self, trial: Trial, test: str) -> None:
        self._trial = trial
        self._test = test

    def __getitem__(self, metric: str) -> float | None:
        """The value of a metric by its SLA name, ``result["latency.p99"]``; None when there is no data.

        Raises `SettingError` for a name that is none.
        """
        assert self._trial.judgement is not None
        return self._trial.judgement.metrics.observe(parse_metric(metric)).value

    def judge(self, *expressions: str) -> Judgement:
        """Judge by service levels; the judgement is true when all of them hold and every task passed.

        Those of ``--swarm-sla`` count too, as for every swarm. Without any, only the demand that every task passes
        counts. A swarm that nobody judges is judged so in the reports; otherwise they show the latest judgement.
        Raises `SettingError` for a wrong expression.
        """
        levels = dict.fromkeys((*map(parse, expressions), *self._trial.demands.expressions))
        return self._trial.conclude(self._test, expressions=tuple(levels))


class InlineSwarm:
    """Runs coroutine functions as swarms: ``result = await swarm.run(body, tasks=100, concurrency=10)``."""

    def __init__(
        self, settings: Settings, open_trial: Callable[[Demands], Trial], test: str, parametrised_model: str | None
    ) -> None:
        self._settings = settings
        self._open_trial = open_trial
        self._test = test
        self._parametrised_model = parametrised_model

    async def run(self, body: Callable[..., Awaitable[object]], **arguments: Any) -> InlineResult:
        """Run `body` as the arguments of the `swarm` marker say.

        The body may take ``agent`` and ``gateway``, which are then the agent of its task and the gateway under the
        arguments given here (timeouts, retries, model).

        Raises `SettingError` for a wrong argument, or a body that is no coroutine function.
        """
        if not inspect.iscoroutinefunction(body):
            raise SettingError("swarm.run(body): the body must be a coroutine function (async def)")
        plan = plan_from((), arguments, self._settings)
        # Then its models are shown side by side, as those of a marked test are.
        parametrised = plan.model is not None and plan.model == self._parametrised_model
        levels = tuple(map(parse, self._settings.sla))
        trial = self._open_trial(Demands(plan, levels, model=plan.model, parametrised=parametrised))
        wanted = set(inspect.signature(body).parameters) & {"agent", "gateway"}

        async def one(agent: Agent) -> object:
            offered = {"agent": agent, "gateway": trial.gateway}
            return await body(**{name: offered[name] for name in wanted})

        try:
            await trial.run(one)
        finally:
            trial.conclude(self._test)
            trial.rows.close()
        return InlineResult(trial, self._test)
