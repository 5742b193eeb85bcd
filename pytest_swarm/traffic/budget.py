"""A cost ceiling that holds: what a request may cost is reserved before it is sent, and settled with what it did cost.

`Budget` keeps the account of one ceiling. A request whose worst case does not fit beside what is spent and reserved is
refused. What was sent, and whose cost nobody knows in the end, counts at its worst case. More than the ceiling can be
spent only where a worst case was a guess, or where a gateway does not keep to `max_tokens`: both are counted and told.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from pytest_swarm.errors import BudgetExceeded
from pytest_swarm.traffic.worst_case import WorstCase

__all__ = ["Account", "BaseBudget", "Budget", "Standing", "dollars"]

_NOTHING: Final = Decimal(0)


@dataclass(slots=True)
class Account:
    """The sums behind one ceiling; money is US dollars. A request is one HTTP exchange: a retry is another one."""

    spent: Decimal = _NOTHING
    """By requests that are over."""
    reserved: Decimal = _NOTHING
    """For requests that are under way, at their worst case."""
    under_way: int = 0
    estimated: Decimal = _NOTHING
    """The worst cases of all requests that were sent."""
    requests: int = 0
    """All that were sent."""
    refused: int = 0
    """Not sent, because they did not fit."""
    guessed: int = 0
    """Sent, with a worst case that was a guess."""
    unknown: int = 0
    """Over, at a cost that nobody knows."""
    unknown_cost: Decimal = _NOTHING
    """The part of `spent` that these count for."""
    dearer: int = 0
    """Over, at a cost above their worst case."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How an account stands against its ceiling."""

    name: str
    """Where the ceiling was set."""
    ceiling: Decimal
    account: Account

    @property
    def overspent(self) -> Decimal:
        """How much more than the ceiling was spent; 0 when it held."""
        return max(_NOTHING, self.account.spent - self.ceiling)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a report."""
        account = self.account
        return {
            "set_by": self.name,
            "ceiling": float(self.ceiling),
            "spent": float(account.spent),
            "reserved": float(account.reserved),
            "estimated": float(account.estimated),
            "requests": account.requests,
            "refused": account.refused,
            "guessed": account.guessed,
            "unknown": account.unknown,
            "unknown_cost": float(account.unknown_cost),
            "dearer": account.dearer,
            "overspent": float(self.overspent),
        }


class BaseBudget(ABC):
    """One ceiling. Safe to use from several threads."""

    def __init__(self, ceiling: float, name: str) -> None:
        """`ceiling` is in US dollars; `name` says where it was set, ``--swarm-max-cost`` for example."""
        self.ceiling: Final = Decimal(str(ceiling))
        self.name: Final = name

    @abstractmethod
    def _open(self) -> AbstractContextManager[Account]:
        """The account, for nobody else while the block runs; what the block changes is kept."""

    def reserve(self, worst: WorstCase) -> None:
        """Set aside what a request may cost.

        Raises:
            BudgetExceeded: it does not fit. The request must not be sent.
        """
        with self._open() as account:
            if account.spent + account.reserved + worst.amount <= self.ceiling:
                account.reserved += worst.amount
                account.under_way += 1
                account.estimated += worst.amount
                account.requests += 1
                account.guessed += bool(worst.guesses)
                return
            account.refused += 1
            before = replace(account)
        raise BudgetExceeded(_refusal(self, before, worst))

    def settle(self, worst: WorstCase, cost: Decimal | None) -> None:
        """A request is over: book its `cost`, or its worst case where that is not known."""
        with self._open() as account:
            account.reserved -= worst.amount
            account.under_way -= 1
            account.spent += worst.amount if cost is None else cost
            if cost is None:
                account.unknown += 1
                account.unknown_cost += worst.amount
            elif cost > worst.amount:
                account.dearer += 1

    def withdraw(self, worst: WorstCase) -> None:
        """A request that was let through here was refused elsewhere: it was never sent."""
        with self._open() as account:
            account.reserved -= worst.amount
            account.under_way -= 1
            account.estimated -= worst.amount
            account.requests -= 1
            account.guessed -= bool(worst.guesses)
            account.refused += 1

    def standing(self) -> Standing:
        """How it stands now."""
        with self._open() as account:
            return Standing(self.name, self.ceiling, replace(account))


class Budget(BaseBudget):
    """A ceiling for requests of one process."""

    def __init__(self, ceiling: float, name: str) -> None:
        super().__init__(ceiling, name)
        self._account = Account()
        self._lock = threading.Lock()

    @contextmanager
    def _open(self) -> Iterator[Account]:
        with self._lock:
            yield self._account


def dollars(amount: Decimal) -> str:
    """`$2`, `$1.98`, `$0.0004067`: six decimals, or two digits of what is smaller."""
    text = f"{amount:.6f}" if abs(amount) >= Decimal("0.00001") or not amount else f"{amount:.2g}"
    plain = f"{Decimal(text):f}"
    return f"${plain.rstrip('0').rstrip('.') if '.' in plain else plain}"


def _refusal(budget: BaseBudget, account: Account, worst: WorstCase) -> str:
    named = f"the cost ceiling of {dollars(budget.ceiling)} ({budget.name})"
    guess = ", a guess: no max_tokens" if "no max_tokens" in worst.guesses else ""
    tokens = f"{worst.input_tokens:,} input and {worst.output_tokens:,} output tokens{guess}"
    next_one = f"{dollars(worst.amount)} at worst ({tokens})"
    if worst.amount > budget.ceiling:
        return f"{named} is below what one request may cost: {next_one}"
    held = f", {dollars(account.reserved)} reserved for {account.under_way} under way" if account.under_way else ""
    return f"{named} was reached: {dollars(account.spent)} spent{held}, and the next request costs {next_one}"
