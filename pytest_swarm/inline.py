"""The `swarm` fixture: a swarm inside a test, started and judged by hand."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_swarm.demands import Demands
from pytest_swarm.errors import SettingError
from pytest_swarm.gateway.sdk import load_early
from pytest_swarm.judging.sla import Expression, parse, parse_metric
from pytest_swarm.judging.verdict import Judgement
from pytest_swarm.swarm.plan import Plan, plan_from, with_trace
from pytest_swarm.swarm.searching import MAX_TASKS, search_from
from pytest_swarm.trial import Trial
from pytest_swarm.values import parse_probability

if TYPE_CHECKING:
    from pytest_swarm.settings import Settings
    from pytest_swarm.tap.routing import Agent

__all__ = ["InlineResult", "InlineSearch", "InlineSwarm"]


class InlineResult:
    """What came of `swarm.run`."""

    def __init__(self, trial: Trial, test: str, settings: Settings) -> None:
        self._trial = trial
        self._test = test
        self._settings = settings

    def __getitem__(self, metric: str) -> float | None:
        """The value of a metric by its SLA name, ``result["latency.p99"]``; None when there is no data.

        Raises `SettingError` for a name that is none.
        """
        assert self._trial.judgement is not None
        return self._trial.judgement.metrics.observe(parse_metric(metric)).value

    def judge(self, *expressions: str, confidence: float | None = None) -> Judgement:
        """Judge by service levels; the judgement is true when all of them hold and every task passed.

        With `confidence`, a share such as 0.95, or ``--swarm-confidence``, the levels must be proven.
        Those of ``--swarm-sla`` count too, as for every swarm. Without any, only the demand that every task passes
        counts. A swarm that nobody judges is judged so in the reports; otherwise they show the latest judgement.
        Raises `SettingError` for a wrong expression, or a confidence that is none.
        """
        marked = None if confidence is None else parse_probability(confidence, "judge(confidence=...)")
        demanded = self._settings.confidence_of(marked)
        asked = (replace(parse(text), confidence=demanded) for text in expressions)
        levels = dict.fromkeys((*asked, *self._trial.demands.expressions))
        return self._trial.conclude(self._test, expressions=tuple(levels))


class InlineSearch:
    """What came of `swarm.search`; true when some load held.

    Attributes:
        held: the largest load that held; None when none did.
        missed: the smallest load that did not; None when all did.
        probes: the curve, a dict for every run as in the JSON report, from the lowest load to the highest.
        verdict: `pass`, `fail` or `invalid`, with its `reasons`.
    """

    def __init__(self, found: Mapping[str, Any], reasons: list[str]) -> None:
        self.held: float | None = found["held"]
        self.missed: float | None = found["missed"]
        self.probes: list[dict[str, Any]] = found["probes"]
        self.verdict: str = found["verdict"]
        self.reasons = reasons

    def __bool__(self) -> bool:
        return self.verdict == "pass"

    def __repr__(self) -> str:
        # What a failed `assert` shows.
        return f"<{self.verdict}: {'; '.join(self.reasons)}>" if self.reasons else f"<{self.verdict}: {self.held}>"


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
        _check_body(body, "swarm.run(body)")
        plan = with_trace(plan_from((), arguments, self._settings), self._settings.root)
        trial = self._open_trial(self._demands(plan))
        await self._run(trial, body)
        return InlineResult(trial, self._test, self._settings)

    async def search(
        self,
        body: Callable[..., Awaitable[object]],
        metric: str,
        low: object,
        high: object,
        *,
        sla: Sequence[str],
        max_tasks: int = MAX_TASKS,
        **arguments: Any,
    ) -> InlineSearch:
        """Find the largest load that holds, as the marker `swarm_search` does; `arguments` are those of `swarm`.

        Raises `SettingError` for a wrong argument, or a body that is no coroutine function.
        """
        _check_body(body, "swarm.search(body)")
        asked = {"metric": metric, "low": low, "high": high, "sla": sla, "max_tasks": max_tasks}
        search, texts = search_from((), asked, (), arguments, self._settings)
        demands = self._demands(search.at(search.low), map(parse, texts))
        if not demands.expressions:
            raise SettingError("swarm.search(sla=...): nothing says what must hold; name a level such as ['p95 < 5s']")
        trial = self._open_trial(replace(demands, search=search))
        await self._run(trial, body)
        assert trial.record is not None
        return InlineSearch(trial.record["search"], trial.record["reasons"])

    def _demands(self, plan: Plan, levels: Iterable[Expression] = ()) -> Demands:
        # Then its models are shown side by side, as those of a marked test are.
        parametrised = plan.model is not None and plan.model == self._parametrised_model
        demanded = self._settings.confidence_of(None)
        for_all = (replace(parse(text), confidence=demanded) for text in self._settings.sla)
        expressions = tuple(dict.fromkeys([*levels, *for_all]))
        return Demands(plan, expressions, model=plan.model, parametrised=parametrised)

    async def _run(self, trial: Trial, body: Callable[..., Awaitable[object]]) -> None:
        wanted = set(inspect.signature(body).parameters) & {"agent", "gateway"}
        load_early(body)

        async def one(agent: Agent) -> object:
            offered = {"agent": agent, "gateway": trial.gateway}
            return await body(**{name: offered[name] for name in wanted})

        try:
            await trial.run(one)
        finally:
            trial.conclude(self._test)
            trial.rows.close()


def _check_body(body: object, what: str) -> None:
    if not inspect.iscoroutinefunction(body):
        raise SettingError(f"{what}: the body must be a coroutine function (async def)")
