"""All cost ceilings over the requests of one swarm, and the prices they are held by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Final

from pytest_swarm.errors import BudgetExceeded
from pytest_swarm.judging.prices import NOT_BILLED
from pytest_swarm.judging.rates import Tariff
from pytest_swarm.records import REPLY_OUTCOMES
from pytest_swarm.traffic.budget import BaseBudget
from pytest_swarm.traffic.worst_case import WorstCase, worst_case

__all__ = ["Ceilings"]

_CERTAIN: Final = NOT_BILLED | REPLY_OUTCOMES | {"empty"}
"""Outcomes whose usage is final. What broke off may have told some, and be billed for more."""


class Ceilings:
    """Lets a request through only when every ceiling has room for its worst case."""

    def __init__(self, budgets: Sequence[BaseBudget], tariffs: Callable[[str], Iterable[Tariff]]) -> None:
        """`tariffs` knows by which rates a model may come to be billed; none where its price is not known."""
        self._budgets = budgets
        self._tariffs = tariffs

    def why_unpriced(self, model: str | None) -> str | None:
        """Why requests for this model cannot be held to a ceiling, with the remedy; None when they can."""
        if model is not None and worst_case(b"", self._tariffs(model)) is not None:
            return None
        named = " and ".join(budget.name for budget in self._budgets)
        if model is None:
            return f"the request names no model, so that {named} cannot hold it to a cost ceiling: name one"
        return (
            f"the price of model {model!r} is not known, so that {named} cannot hold it to a cost ceiling: "
            f'add [tool.pytest_swarm.prices."{model}"] with input and output, US dollars per million tokens'
        )

    def reserve(self, model: str | None, body: bytes) -> WorstCase:
        """Set aside what the request with this body may cost, at every ceiling or at none.

        Raises:
            BudgetExceeded: it does not fit, or cannot be priced. The request must not be sent.
        """
        worst = None if model is None else worst_case(body, self._tariffs(model))
        if worst is None:
            raise BudgetExceeded(self.why_unpriced(model))
        held: list[BaseBudget] = []
        try:
            for budget in self._budgets:
                budget.reserve(worst)
                held.append(budget)
        except BudgetExceeded:
            for budget in held:
                budget.withdraw(worst)
            raise
        return worst

    def afford(self, model: str | None, body: bytes) -> bool:
        """Book a request whose reply nobody will read, at its worst case; False when it must not be sent."""
        try:
            worst = self.reserve(model, body)
        except BudgetExceeded:
            return False
        self.settle(worst, "other", None)
        return True

    def settle(self, worst: WorstCase, outcome: str, cost: Decimal | None) -> None:
        """A request is over: book its cost in US dollars where that is certain, and its worst case where it is not."""
        for budget in self._budgets:
            budget.settle(worst, cost if outcome in _CERTAIN else None)
