"""What the calls of one trial cost, and which ceilings stand over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pytest_swarm.errors import SettingError
from pytest_swarm.judging.spending import cost_sources
from pytest_swarm.sources.simulated.tokens import tariff_of
from pytest_swarm.traffic.ceilings import Ceilings

if TYPE_CHECKING:
    from pytest_swarm.columns import RunResult
    from pytest_swarm.demands import Surroundings
    from pytest_swarm.judging.prices import Cost
    from pytest_swarm.judging.rates import Tariff
    from pytest_swarm.records import Reading
    from pytest_swarm.replaying import Replaying
    from pytest_swarm.sources.simulated.systems import System
    from pytest_swarm.traffic.budget import BaseBudget

__all__ = ["Pricing"]


class Pricing:
    """Prices as a trial knows them: of the user, of public models, of the gateway, of simulated systems."""

    def __init__(self, around: Surroundings, replaying: Replaying | None, *, live: bool) -> None:
        """A replay has the prices of the day of its recording; `live` is a trial with a gateway of its own."""
        self._systems: Mapping[str, System] = around.systems
        self._table = around.prices if replaying is None else replaying.prices
        self._public = around.public if replaying is None else replaying.public
        self._live = live
        self._replayed = replaying is not None
        self._recorded_simulated = replaying is not None and replaying.cassette.simulated is not None

    def prepare(self, model: str | None) -> None:
        """Look up a model that will be asked, before time counts."""
        self._table.prepare(model)

    def cost(self, model: str | None, reading: Reading, *, simulated: bool) -> Cost:
        """The cost of one call."""
        usage = reading.usage
        reported = None if usage is None else usage.reported_cost
        return self._table.cost(model, usage, reported, reading.outcome, simulated=simulated)

    def notes(self, runs: Iterable[RunResult]) -> list[str]:
        """Whose list prices these runs were priced by, where they were."""
        return [self._public.note] if any(self._public.name in cost_sources(run) for run in runs) else []

    def tariff(self, model: str, *, simulated: bool) -> Tariff | None:
        """The rates of a model that was measured; None where nobody knows them."""
        if simulated or self._recorded_simulated:
            system = self._systems.get(model)
            return None if system is None else tariff_of(system.prices)
        return self._table.tariff(model)

    def ceilings(self, budgets: Iterable[BaseBudget | None], model: str | None) -> Ceilings | None:
        """What stands over the calls; None without a budget, and in a replay, which costs nothing.

        Raises:
            SettingError: no ceiling can hold `model`, since its price is unknown.
        """
        known = [budget for budget in budgets if budget is not None]
        if not known or self._replayed:
            return None
        ceilings = Ceilings(known, self._tariffs)
        problem = None if model is None else ceilings.why_unpriced(model)
        if problem is not None:
            raise SettingError(problem)
        return ceilings

    def _tariffs(self, model: str) -> list[Tariff]:
        """All rates that a call of a model may come to."""
        system = None if self._live else self._systems.get(model)
        return self._table.tariffs(model) if system is None else [tariff_of(system.prices)]
