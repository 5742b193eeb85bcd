"""What measured costs come to in a month and a year, and what a change of models brings. All money is decimal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

from pytest_swarm.columns import CallColumns
from pytest_swarm.errors import SettingError
from pytest_swarm.judging.calls import cost_of
from pytest_swarm.judging.observation import NoData, Observation, observed
from pytest_swarm.judging.rates import Tariff, Unpriced
from pytest_swarm.records import CALL_OUTCOMES, Usage

if TYPE_CHECKING:
    from pytest_swarm.judging.metrics import RunMetrics, SwarmMetrics

__all__ = ["MONTHS", "Amount", "Bill", "Saving", "cost_without_cache", "monthly"]

MONTHS: Final = 12

Amount = int | float | str | Decimal
"""A number as a user writes it. A float counts as it prints: ``0.35`` is exactly 35 hundredths."""

_MILLION: Final = Decimal(1_000_000)
_OTHER: Final = CALL_OUTCOMES.index("other")
_EQUAL: Final = 1e-6
"""Two costs of one call that differ by less, relatively, are the same: gateways round what they report."""


def monthly(cost_per_task: Amount, tasks: int) -> Decimal:
    """US dollars of so many tasks a month, at what one task was measured to cost."""
    return _decimal(cost_per_task, "cost_per_task") * tasks


@dataclass(frozen=True, slots=True)
class Saving:
    """What is saved by a monthly bill of `after` in place of `before`, less what the change itself costs a month.

    US dollars; negative where nothing is saved.
    """

    before: Decimal
    after: Decimal
    losses: Decimal = Decimal(0)

    @property
    def monthly(self) -> Decimal:
        """US dollars a month, losses taken off."""
        return self.before - self.after - self.losses

    @property
    def yearly(self) -> Decimal:
        """US dollars in twelve such months."""
        return self.monthly * MONTHS

    @property
    def share(self) -> Decimal | None:
        """The monthly saving as a share of the bill before; None where that was nothing."""
        return self.monthly / self.before if self.before else None


class Bill:
    """What the tokens of a month cost: ``Bill(1_500_000_000, 8, cache_saves=0.35)``.

    Args:
        tokens: tokens a month.
        per_million: price of a million of them, US dollars.
        cache_saves: the share of the bill that caching takes off, 0 to 1.

    Raises:
        SettingError: a number is below 0, a share above 1, or something is no number.
    """

    def __init__(self, tokens: int, per_million: Amount, *, cache_saves: Amount = 0) -> None:
        self.tokens = _decimal(tokens, "Bill(tokens=...)")
        self.per_million = _decimal(per_million, "Bill(per_million=...)")
        self.cache_saves = _decimal(cache_saves, "Bill(cache_saves=...)")
        if self.cache_saves > 1:
            raise SettingError(f"Bill(cache_saves=...): {cache_saves!r} is above 1; write the share, such as 0.35")

    @property
    def without_cache(self) -> Decimal:
        """US dollars a month at the full price."""
        return self.tokens * self.per_million / _MILLION

    @property
    def monthly(self) -> Decimal:
        """US dollars a month with what caching saves taken off."""
        return self.without_cache * (1 - self.cache_saves)

    def saving_over(self, before: Bill, *, losses: Amount = 0) -> Saving:
        """What this bill saves in place of `before`; `losses` is what the change costs a month, US dollars."""
        return Saving(before.monthly, self.monthly, _decimal(losses, "saving_over(losses=...)"))


def cost_without_cache(metrics: SwarmMetrics, tariff_of: Callable[[str], Tariff | None]) -> Observation:
    """US dollars per task as `cost_per_task`, had there been no prompt cache.

    Tokens that were read from a cache or written to one are priced as fresh input. That can be told of calls whose
    replies say that nothing was cached, and of those whose cost is what their model's rates (`tariff_of`) make of their
    tokens; one other call makes it unknown.
    """
    cost = metrics.observe("cost_per_task")
    if cost.value is None:
        return cost

    def per_task() -> float:
        total = sum((_run_without_cache(run, tariff_of) for run in metrics.runs), Decimal(0))
        return float(total / sum(run.tasks.counted for run in metrics.runs))

    return observed(per_task)


def _run_without_cache(run: RunMetrics, tariff_of: Callable[[str], Tariff | None]) -> Decimal:
    columns = run.run.calls
    measured = (
        at for at in range(len(columns)) if not columns.warmup[at] and columns.outcome[at] != _OTHER
    )  # the same calls as in `cost`
    return sum((_call_without_cache(columns, at, tariff_of) for at in measured), Decimal(0))


def _call_without_cache(columns: CallColumns, at: int, tariff_of: Callable[[str], Tariff | None]) -> Decimal:
    cost = Decimal(repr(cost_of(columns, at)))
    usage = Usage(
        input_tokens=_whole(columns.input_tokens[at]),
        output_tokens=_whole(columns.output_tokens[at]),
        cached_tokens=_whole(columns.cached_tokens[at]),
        cache_write_tokens=_whole(columns.cache_write_tokens[at]),
        reasoning_tokens=_whole(columns.reasoning_tokens[at]),
    )
    nothing_cached = usage.cached_tokens == 0 and not usage.cache_write_tokens
    nothing_done = not cost and usage.input_tokens is None
    if nothing_cached or nothing_done:
        return cost
    model = columns.names.texts[columns.model[at]]
    tariff = None if model is None else tariff_of(model)
    if tariff is None:
        raise NoData(f"nobody knows what fresh input of model {model!r} costs")
    try:
        told = tariff.price(usage)
        fresh = tariff.price(replace(usage, cached_tokens=0, cache_write_tokens=0))
    except Unpriced as unpriced:
        raise NoData(f"{unpriced} for model {model!r}") from None
    if not math.isclose(told, cost, rel_tol=_EQUAL):
        raise NoData(f"calls of model {model!r} did not cost what its rates make of their tokens")
    return fresh


def _whole(tokens: float) -> int | None:
    return None if math.isnan(tokens) else int(tokens)


def _decimal(value: Amount, what: str) -> Decimal:
    try:
        number = Decimal("NaN") if isinstance(value, bool) else Decimal(str(value))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or number < 0:
        raise SettingError(f"{what}: {value!r} is not a number of 0 or more")
    return number
