"""How the load of a run was released: what waited, what was shed, what was run again, how a concurrency adapted."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, Final

from pytest_swarm.columns import RunResult
from pytest_swarm.reports.figures import count, figure, one_line, span

__all__ = ["load_items", "load_of", "plan_items", "settled_items"]

STEPS_SHOWN: Final = 8
"""Of a concurrency that adapts; the JSON report has all."""


def load_of(run: RunResult) -> dict[str, Any]:
    """The entry of the JSON report."""
    return {
        "in_flight_max": run.in_flight_max,
        "backlogged": run.backlogged,
        "backlog_max": run.backlog_max,
        "shed": run.shed,
        "rescheduled": run.rescheduled,
        "limits": [step._asdict() for step in run.limits],
        "settled": _settled(run),
    }


def _settled(run: RunResult) -> dict[str, Any] | None:
    """Of a concurrency that adapts, what most tasks of the second half started under, and what it last came to."""
    if not run.limits:
        return None
    times = [step.time for step in run.limits]
    starts = sorted(run.tasks.start)
    started = Counter(run.limits[max(0, bisect(times, at) - 1)].limit for at in starts[len(starts) // 2 :])
    limit = max(started, key=started.__getitem__, default=run.limits[-1].limit)
    found = [after for before, after in pairwise(run.limits) if before.limit == limit and after.throughput is not None]
    last = found[-1] if found else None
    return {
        "limit": limit,
        "throughput": None if last is None else last.throughput,
        "latency": None if last is None else last.latency,
    }


def load_items(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """What there is to say of all runs together; nothing where every task started when it was due, and once."""
    loads = [run["load"] for run in runs]
    total = {name: sum(load[name] for load in loads) for name in ("backlogged", "shed", "rescheduled")}
    items = []
    if total["backlogged"]:
        most = max(load["backlog_max"] for load in loads)
        items.append(f"{count(total['backlogged'], 'task')} waited, {most:,} at most at a time")
    if total["shed"]:
        items.append(f"{count(total['shed'], 'task')} shed: due and never started")
    if total["rescheduled"]:
        items.append(f"{count(total['rescheduled'], 'failed task')} run again")
    return items


def settled_items(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """How the concurrency adapted in the first run."""
    load: Mapping[str, Any] | None = runs[0]["load"] if runs else None
    settled = None if load is None else load["settled"]
    if load is None or settled is None:
        return []
    limits = [str(limit) for limit, _ in groupby(step["limit"] for step in load["limits"])]
    shown = limits if len(limits) <= STEPS_SHOWN else [*limits[:STEPS_SHOWN], "..."]
    items = [" ".join(shown), f"settled at {settled['limit']}"]
    if settled["throughput"] is not None:
        throughput, latency = figure("throughput", settled["throughput"]), figure("latency.mean", settled["latency"])
        items.append(f"{throughput} at a mean of {latency}")
    return items


def plan_items(plan: Mapping[str, Any], reached: int | None) -> list[str]:
    """The plan of a test, and how many tasks really were in flight; None where none were yet."""
    tasks, concurrency, repeat = plan.get("tasks"), plan.get("concurrency"), plan.get("repeat") or 1
    items = [count(tasks, "task")] if tasks is not None else []
    if plan.get("rate") is not None:
        items.append(str(plan["rate"]))
    if plan.get("arrival") not in (None, "poisson"):
        items.append(one_line(str(plan["arrival"])))
    if plan.get("duration") is not None:
        items.append(f"for {span(plan['duration'])}")
    if plan.get("stages"):
        items.append(", ".join(f"{span(seconds)} to {target}" for seconds, target in plan["stages"]))
    items += _in_flight(plan, tasks, concurrency, reached)
    if plan.get("backlog") is not None:
        items.append(f"{plan['backlog']:,} may wait")
    if plan.get("limit"):
        items.append(f"limit {' and '.join(plan['limit'])}")
    if plan.get("warmup"):
        items.append(f"{plan['warmup']} to warm up")
    if plan.get("reschedule"):
        items.append(f"failed tasks run again {count(plan['reschedule'], 'time')} at most")
    if repeat > 1:
        items.append(f"{repeat} runs")
    return items


def _in_flight(
    plan: Mapping[str, Any], tasks: int | None, concurrency: int | str | None, reached: int | None
) -> list[str]:
    """What may be in flight and what was."""
    was = "" if reached is None else f" ({reached:,} reached)"
    if concurrency is None:
        levels = any(isinstance(target, int) for _, target in plan.get("stages") or ())
        if levels:
            return [] if reached is None else [f"{reached:,} in flight reached"]
        return [f"any number in flight{was}"]
    if tasks is not None and isinstance(concurrency, int) and concurrency > tasks:
        return [f"{tasks} in flight: tasks={tasks}{was}"]
    return [f"{concurrency} in flight{was}"]
