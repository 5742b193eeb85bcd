"""What a plan would release, told without releasing anything. Plain data: it crosses process borders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pytest_swarm.swarm.plan import Plan
from pytest_swarm.swarm.release import arrivals_of
from pytest_swarm.values import plain

__all__ = ["preview"]

FIRST: Final = 5
"""Due times that are told."""


def preview(plan: Plan) -> dict[str, Any]:
    """The plan of the first run: `tasks` that are measured, and `first`, `last` and `stages` where it paces them.

    `tasks` is None where only the time ends a closed loop. `stages` are rows of when, from and to which target, and how
    many tasks fall due, which is None in a closed loop.
    """
    return {
        "plan": plan.to_dict(),
        "in_flight": plan.in_flight,
        "seconds": plan.seconds,
        **(_due(plan) if plan.is_open else {"tasks": plan.tasks, "first": None, "last": None}),
        "stages": list(_stages(plan)),
    }


def _due(plan: Plan) -> dict[str, Any]:
    due = [arrival.offset for arrival in arrivals_of(plan, 0)]
    return {"tasks": max(0, len(due) - plan.warmup), "first": due[:FIRST], "last": due[-1] if due else None}


def _stages(plan: Plan) -> Iterator[dict[str, Any]]:
    began, before = 0.0, 0.0
    due = [arrival.offset for arrival in arrivals_of(plan, 0)] if plan.is_open and plan.stages else []
    for stage in plan.stages:
        end, unit = began + stage.seconds, "/s" if stage.kind == "rate" else ""
        yield {
            "from": began,
            "to": end,
            "start": f"{plain(before)}{unit}",
            "end": f"{plain(float(stage.target))}{unit}",
            "due": sum(began <= at < end for at in due) if plan.is_open else None,
        }
        began, before = end, float(stage.target)
