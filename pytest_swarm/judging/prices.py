"""What a call costs, and who says so."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Protocol

from pytest_swarm.judging.rates import SERVICE_TIERS, Tariff, Unpriced, parse_tariff
from pytest_swarm.records import Usage

__all__ = ["NOT_BILLED", "Cost", "PriceTable", "RateSource"]

NOT_BILLED: Final = frozenset(
    {
        *("rate_limited", "quota_exhausted", "client_error", "server_error"),
        *("connect_error", "tls_error", "pool_timeout", "connect_timeout", "budget"),
    }
)
"""Outcomes of what the server refused, or never saw: they cost nothing, and that is known."""


@dataclass(frozen=True, slots=True)
class Cost:
    """US dollars of one call; None with the reason where they are not known."""

    amount: Decimal | None
    source: str | None = None
    """``table``, ``genai-prices`` or ``reported`` (by the gateway); None where nobody had to say, or could."""
    reason: str = ""


class RateSource(Protocol):
    """Somebody who knows rates of models."""

    @property
    def name(self) -> str:
        """How a cost from here is labelled."""

    def find(self, model: str) -> Tariff | None:
        """The rates of a model; None when it is not known."""


class PriceTable:
    """The user's own prices, then what another source knows, then what the gateway reports.

    A model is looked for as it is written, then without its provider, either way round: ``openai/gpt-4o`` is found as
    ``gpt-4o`` and ``gpt-4o`` as ``openai/gpt-4o``, as long as one provider only has it.
    """

    name: Final = "table"

    def __init__(self, table: Mapping[str, object] | None = None, behind: RateSource | None = None) -> None:
        """Take prices as they stand in ``[tool.pytest_swarm.prices."model"]``, US dollars per million tokens.

        Raises:
            SettingError: a key or a value of the table is not allowed.
        """
        self._tariffs = {
            model: parse_tariff(rates, f'[tool.pytest_swarm.prices."{model}"]')
            for model, rates in (table or {}).items()
        }
        self._sources: tuple[RateSource, ...] = (self, behind) if behind is not None else (self,)

    def find(self, model: str) -> Tariff | None:
        """The rates of a model; None when the table does not have it, or has it differently from several providers."""
        for spelling in _spellings(model):
            if spelling in self._tariffs:
                return self._tariffs[spelling]
        found = {tariff for name, tariff in self._tariffs.items() if name.endswith(f"/{model}")}
        return found.pop() if len(found) == 1 else None

    def tariff(self, model: str) -> Tariff | None:
        """The rates of a model by the first who knows it; None when nobody does."""
        return next((found for source in self._sources if (found := source.find(model)) is not None), None)

    def tariffs(self, model: str) -> list[Tariff]:
        """The rates by which a reply of the model may come to be priced; none when nobody knows it.

        They are those of the first who knows it, and those behind them where the first has none for cached tokens.
        """
        known = [found for source in self._sources if (found := source.find(model)) is not None]
        complete = bool(known) and None not in (known[0].base.cache_read, known[0].base.cache_write)
        return known[:1] if complete else known

    def prepare(self, model: str | None) -> None:
        """Have at hand what calls of this model will be priced with: looking it up for the first time takes a while."""
        for source in self._sources:
            if source.find(model or "") is not None:
                return

    def cost(
        self, model: str | None, usage: Usage | None, reported: float | None, outcome: str, *, simulated: bool = False
    ) -> Cost:
        """What one exchange with this outcome cost.

        `reported` is what the gateway says, in US dollars. What was refused or never sent costs nothing. What a
        simulated gateway says is so: its models have a price nowhere else, whatever they are called.
        """
        if outcome in NOT_BILLED:
            return Cost(Decimal(0))
        known = reported is not None and math.isfinite(reported) and reported >= 0
        if known and simulated:
            return Cost(Decimal(str(reported)), "reported")
        reason = ""
        for source in self._sources[: 1 if simulated else None]:
            tariff = source.find(model) if model is not None else None
            if tariff is None:
                continue
            try:
                return Cost(tariff.price(usage or Usage()), source.name)
            except Unpriced as unpriced:
                reason = reason or _why_unpriced(model, unpriced, outcome)
        if known:
            return Cost(Decimal(str(reported)), "reported")
        if simulated:
            # A price of the user's would not help: no usage was told that it could be applied to.
            reason = reason or f"no cost was told for calls that ended as {outcome}"
        return Cost(None, None, reason or _why_unknown(model))


def _spellings(model: str) -> Iterator[str]:
    """``a/b/c``, ``b/c``, ``c``."""
    while model:
        yield model
        _, _, model = model.partition("/")


def _why_unpriced(model: str | None, unpriced: Unpriced, outcome: str) -> str:
    """The reason, and what to add to the table where that would help."""
    if unpriced.key in SERVICE_TIERS:
        return f'{unpriced} for model {model!r}: add [tool.pytest_swarm.prices."{model}".{unpriced.key}]'
    if unpriced.key:
        return f'{unpriced} for model {model!r}: add [tool.pytest_swarm.prices."{model}"] with {unpriced.key}'
    return f"{unpriced} for model {model!r} (outcome {outcome})"


def _why_unknown(model: str | None) -> str:
    if model is None:
        return "the call names no model"
    return f'no price for model {model!r}: add [tool.pytest_swarm.prices."{model}"]'
