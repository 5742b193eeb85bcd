"""What a `swarm_search` marker asks for, and the plan of each of its probes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.swarm.plan import Layers, Plan, plan_from
from pytest_swarm.values import parse_choice, parse_count, parse_rate, plain, shown

__all__ = ["MAX_TASKS", "METRICS", "RATE_SECONDS", "TASKS_PER_LANE", "SearchPlan", "search_from", "tasks_of"]

METRICS: Final = ("concurrency", "rate")
"""What can be searched for: tasks in flight, or starts per second."""

MAX_TASKS: Final = 20_000
"""Tasks of all probes together, where nothing else is asked for."""

TASKS_PER_LANE: Final = 5
"""A probe has at least so many tasks for each in flight: fewer would measure little but the start."""

RATE_SECONDS: Final = 10
"""A probe at a rate lasts at least so long."""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The largest load between `low` and `high` that holds is looked for."""

    metric: str
    low: float
    high: float
    max_tasks: int
    plan: Plan
    """Of the probe at `low`; the others differ from it in their load and what follows from that."""

    @property
    def whole(self) -> bool:
        """Whether loads are whole numbers."""
        return self.metric == "concurrency"

    def at(self, load: float) -> Plan:
        """The plan of a probe."""
        least = TASKS_PER_LANE * round(load) if self.whole else math.ceil(load * RATE_SECONDS)
        tasks = self.plan.tasks
        if tasks is not None or self.plan.duration is None:
            tasks = max(tasks or 0, least)
        # A rate for the whole pytest run, from the command line, would be another load beside the one that is tried.
        rate, concurrency = (None, round(load)) if self.whole else (load, self.plan.concurrency)
        return replace(self.plan, tasks=tasks, rate=rate, concurrency=concurrency, stages=())

    def shown(self, load: float) -> str:
        """A load as the marker writes it."""
        return f"{load:,.0f}" if self.whole else f"{load:.4g}/s"


def tasks_of(plan: Plan) -> int:
    """Tasks of a probe, warm-up and repeats included; 0 where a duration ends it and nobody knows."""
    return 0 if plan.tasks is None else (plan.tasks + plan.warmup) * plan.repeat


def _texts(value: object, what: str) -> tuple[object, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise SettingError(f"{what}: {shown(value)} is no list; write one such as ['p95 < 5s']")
    return tuple(value)


_PARSERS: Final[Mapping[str, Callable[[object, str], Any]]] = {
    "metric": partial(parse_choice, allowed=METRICS),
    "low": lambda value, _: value,
    "high": lambda value, _: value,
    "sla": _texts,
    "max_tasks": parse_count,
}
"""Of `low` and `high`, the metric decides what they may be."""
_BY_POSITION: Final = ("metric", "low", "high")


def search_from(
    args: Sequence[object],
    kwargs: Mapping[str, object],
    swarm_args: Sequence[object],
    swarm_kwargs: Mapping[str, object],
    layers: Layers,
) -> tuple[SearchPlan, tuple[str, ...]]:
    """The search of a `swarm_search` marker beside a `swarm` marker, and the service levels that it names.

    Raises:
        SettingError: an argument is unknown, cannot be used, or does not go with another one.
    """
    given = _bind(args, kwargs)
    for name in ("metric", "low", "high"):
        if name not in given:
            raise SettingError(
                f"swarm_search({name}=...): missing; write one such as "
                'swarm_search("concurrency", low=8, high=256, sla=["p95 < 5s"])'
            )
    parsed = {name: _PARSERS[name](value, f"swarm_search({name}=...)") for name, value in given.items()}
    metric = parsed["metric"]
    parse: Callable[[object, str], float] = parse_count if metric == "concurrency" else parse_rate
    low, high = (parse(parsed[name], f"swarm_search({name}=...)") for name in ("low", "high"))
    if not low < high:
        raise SettingError(
            f"swarm_search(high=...): {shown(given['high'])} is not above low={shown(given['low'])}; "
            "the search goes from low to high"
        )
    _check_swarm(metric, swarm_args, swarm_kwargs)
    plan = plan_from(swarm_args, {**swarm_kwargs, **_load(metric, low, swarm_args, swarm_kwargs)}, layers)
    return SearchPlan(metric, low, high, parsed.get("max_tasks", MAX_TASKS), plan), parsed.get("sla", ())


def _bind(args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
    if len(args) > len(_BY_POSITION):
        extra = shown(args[len(_BY_POSITION)])
        raise SettingError(f"swarm_search(): {extra} has no name; only metric, low and high are taken by position")
    found: dict[str, object] = dict(zip(_BY_POSITION, args, strict=False))
    for name, value in kwargs.items():
        if name in found:
            raise SettingError(f"swarm_search({name}=...): given twice, by position and by name; drop one")
        if name not in _PARSERS:
            hint = nearest(name, _PARSERS)
            raise SettingError(f"swarm_search({name}=...): no such argument; allowed are {', '.join(_PARSERS)}{hint}")
        found[name] = value
    return found


def _check_swarm(metric: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """What the search sets cannot be set beside it."""
    taken = ("rate", "stages", "arrival") if metric == "concurrency" else ("stages",)
    set_twice = [name for name in (metric, *taken) if kwargs.get(name) is not None]
    if metric == "concurrency" and len(args) > 1:
        set_twice.insert(0, "concurrency")
    if set_twice:
        name = set_twice[0]
        raise SettingError(f"swarm({name}=...) and swarm_search({metric!r}) exclude each other; drop one")


def _load(metric: str, low: float, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
    """What makes the marker's plan the one of the lowest load."""
    if metric == "concurrency":
        return {"concurrency": round(low)}
    ends = bool(args) or kwargs.get("tasks") is not None or kwargs.get("duration") is not None
    return {"rate": f"{plain(float(low))}/s"} | ({} if ends else {"tasks": math.ceil(low * RATE_SECONDS)})
