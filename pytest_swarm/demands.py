"""What a test asks of its swarm, and what all swarms of a session share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_swarm.gateway.reply import JsonRule
    from pytest_swarm.judging.genai import GenaiRates
    from pytest_swarm.judging.prices import PriceTable
    from pytest_swarm.judging.sla import Expression, TaskBound
    from pytest_swarm.reports.baseline_file import FormerReport
    from pytest_swarm.settings import Settings
    from pytest_swarm.sources.simulated.systems import System
    from pytest_swarm.swarm.outcomes import TestOutcomes
    from pytest_swarm.swarm.plan import Plan
    from pytest_swarm.swarm.searching import SearchPlan
    from pytest_swarm.traffic.budget import BaseBudget

__all__ = ["Demands", "Surroundings"]


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
    search: SearchPlan | None = None
    """The largest load that holds is looked for, and `plan` is that of the lowest."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all trials of a session share."""

    settings: Settings
    prices: PriceTable
    systems: Mapping[str, System]
    """The simulated gateway's, by name."""
    outcomes: TestOutcomes
    public: GenaiRates
    """The part of `prices` that is not the user's."""
    budget: BaseBudget | None = None
    """The cost ceiling of the whole session."""
    former: FormerReport | None = None
    """What is compared with."""
    checked: dict[tuple[str, str | None], str | None] = field(default_factory=dict)
    """What pre-flight questions found, by address and model: an error's text, or None."""
