"""Rates of public models from the optional package `genai-prices`: its data, priced by our own calculator."""

from __future__ import annotations

import importlib
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

from pytest_swarm.judging.rates import Rates, Tariff

__all__ = ["GenaiRates", "genai_rates"]

_KEYS: Final = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}
"""What our rates are called there."""


class GenaiRates:
    """What `genai-prices` knew models to cost on one day, so that a figure does not depend on when it is looked at."""

    name: Final = "genai-prices"

    def __init__(self, snapshot: Any, on: date) -> None:
        self._snapshot = snapshot
        self._when = datetime.combine(on, time(12), tzinfo=UTC)
        self._known: dict[str, Tariff | None] = {}

    def find(self, model: str) -> Tariff | None:
        """The rates of ``provider/model``, or of ``model`` from its own maker; None when nobody is known for it."""
        if model not in self._known:
            self._known[model] = self._look_up(model)
        return self._known[model]

    def _look_up(self, model: str) -> Tariff | None:
        provider, _, rest = model.partition("/")
        found = self._info(rest, provider) if rest else self._info(model, None)
        if found is None:
            return self.find(rest) if rest else None
        prices = found.get_prices(self._when)
        figures = {ours: getattr(prices, theirs, None) for ours, theirs in _KEYS.items()}
        return _tariff({name: figure for name, figure in figures.items() if figure is not None})

    def _info(self, model: str, provider: str | None) -> Any:
        try:
            return self._snapshot.find_provider_model(model, None, provider, None)[1]
        except LookupError:
            return None


def genai_rates(on: date) -> GenaiRates | None:
    """The rates of that day; None when the package is not installed."""
    try:
        data = importlib.import_module("genai_prices.data_snapshot")
    except ModuleNotFoundError:
        return None
    return GenaiRates(data.get_snapshot(), on)


def _tariff(figures: dict[str, Any]) -> Tariff:
    """Rates that are a number for every prompt, or a number and steps by the size of the whole prompt."""
    steps = sorted({tier.start for figure in figures.values() for tier in getattr(figure, "tiers", ())})

    def at(above: int) -> Rates:
        return Rates(**{name: _figure(figure, above) for name, figure in figures.items()})

    return Tariff(at(0), tuple((step, at(step)) for step in steps))


def _figure(figure: Any, above: int) -> Decimal:
    if isinstance(figure, Decimal):
        return figure
    reached = [tier.price for tier in figure.tiers if tier.start <= above]
    return Decimal(reached[-1] if reached else figure.base)
