"""``--swarm-plan``: what swarm tests would release is told; they are skipped before any fixture of theirs is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_swarm.items import own_fixture

if TYPE_CHECKING:
    from pytest_swarm.demands import Demands
    from pytest_swarm.settings import Settings

__all__ = ["plans_of", "put_plan_on_report", "skip_planned"]

_ATTRIBUTE = "swarm_plan"
"""Of a test report: plain data that xdist carries to the controller."""

_PLANNED: pytest.StashKey[dict[str, Any]] = pytest.StashKey()


def skip_planned(item: pytest.Item, demands: Demands | None, settings: Settings) -> None:
    """Keep what the test would release, and skip it; a test that is none of ours goes on."""
    inline = isinstance(item, pytest.Function) and own_fixture(item, ("swarm",))
    if demands is None and not inline:
        return
    item.stash[_PLANNED] = {
        "nodeid": item.nodeid,
        "source": _source(settings, demands),
        "note": _note(demands, inline=inline),
        "preview": None if inline or demands is None else _preview(demands),
    }
    raise pytest.skip.Exception("planned, not run: --swarm-plan", _use_item_location=True)


def _preview(demands: Demands) -> dict[str, Any]:
    from pytest_swarm.swarm.preview import preview

    return preview(demands.plan)


def _source(settings: Settings, demands: Demands | None) -> list[str]:
    from pytest_swarm.sources.simulated.systems import DEFAULT_SYSTEM

    model = None if demands is None else demands.model
    if settings.replay:
        return ["replay of recorded traffic", *([model] if model else [])]
    if settings.base_url is None:
        return ["simulated gateway", model or DEFAULT_SYSTEM]
    return [f"live {settings.base_url}", *([model] if model else [])]


def _note(demands: Demands | None, *, inline: bool) -> str:
    if inline:
        return "the test starts its swarms itself: what they release is known only when it runs"
    search = None if demands is None else demands.search
    if search is None:
        return ""
    load = f"from {search.shown(search.low)} to {search.shown(search.high)}"
    return f"a search for the largest {search.metric} {load}, {search.max_tasks:,} tasks at most; its first probe:"


def put_plan_on_report(item: pytest.Item, report: pytest.TestReport) -> None:
    """Attach what was planned to the report of the set-up in which the test was skipped."""
    if report.when == "setup" and _PLANNED in item.stash:
        setattr(report, _ATTRIBUTE, item.stash[_PLANNED])


def plans_of(report: pytest.TestReport) -> list[dict[str, Any]]:
    """What is attached to a report."""
    planned = getattr(report, _ATTRIBUTE, None)
    return [] if planned is None else [planned]
