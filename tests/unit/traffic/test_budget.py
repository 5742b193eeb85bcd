"""The account of a cost ceiling, in one process and in several."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.errors import BudgetExceeded, SettingError
from pytest_swarm.judging.rates import parse_tariff
from pytest_swarm.traffic.budget import BaseBudget, Budget, dollars
from pytest_swarm.traffic.ceilings import Ceilings
from pytest_swarm.traffic.shared_budget import SharedBudget
from pytest_swarm.traffic.worst_case import WorstCase


def worst(amount: object, *guesses: str) -> WorstCase:
    return WorstCase(Decimal(str(amount)), 100, 50, guesses)


@pytest.fixture(params=[Budget, SharedBudget.create], ids=["own", "shared"])
def budget(request: pytest.FixtureRequest) -> Iterator[BaseBudget]:
    made = request.param(2.0, "--swarm-max-cost")
    yield made
    if isinstance(made, SharedBudget):
        made.remove()


def told(budget: BaseBudget) -> dict[str, object]:
    """What there is to say that is not nothing."""
    return {key: value for key, value in budget.standing().to_dict().items() if value}


def test_what_fits_is_reserved_and_settled_with_what_it_cost(budget: BaseBudget) -> None:
    budget.reserve(worst(1.5))
    assert told(budget) == {
        "set_by": "--swarm-max-cost",
        "ceiling": 2.0,
        "reserved": 1.5,
        "estimated": 1.5,
        "requests": 1,
    }
    budget.settle(worst(1.5), Decimal("0.25"))
    assert told(budget) == {
        "set_by": "--swarm-max-cost",
        "ceiling": 2.0,
        "spent": 0.25,
        "estimated": 1.5,
        "requests": 1,
    }


def test_the_ceiling_itself_may_be_reached(budget: BaseBudget) -> None:
    budget.reserve(worst(2))
    budget.settle(worst(2), Decimal(2))
    budget.reserve(worst(0))
    with pytest.raises(BudgetExceeded):
        budget.reserve(worst("0.000001"))


def test_what_does_not_fit_beside_what_is_spent_and_reserved_is_refused(budget: BaseBudget) -> None:
    budget.reserve(worst(0.5))
    budget.settle(worst(0.5), Decimal("0.4"))
    budget.reserve(worst(1))
    with pytest.raises(BudgetExceeded) as refused:
        budget.reserve(worst(0.61))
    assert str(refused.value) == (
        "the cost ceiling of $2 (--swarm-max-cost) was reached: $0.4 spent, $1 reserved for 1 under way, and the next "
        "request costs $0.61 at worst (100 input and 50 output tokens)"
    )
    standing = budget.standing()
    assert (standing.account.refused, standing.account.requests) == (1, 2)
    budget.settle(worst(1), Decimal("0.1"))
    budget.reserve(worst(1.5))


def test_a_request_above_the_ceiling_is_told_so(budget: BaseBudget) -> None:
    with pytest.raises(BudgetExceeded) as refused:
        budget.reserve(worst(2.5, "no max_tokens"))
    assert str(refused.value) == (
        "the cost ceiling of $2 (--swarm-max-cost) is below what one request may cost: $2.5 at worst (100 input and 50 "
        "output tokens, a guess: no max_tokens)"
    )


def test_a_cost_that_nobody_knows_counts_at_its_worst(budget: BaseBudget) -> None:
    budget.reserve(worst(0.75))
    budget.settle(worst(0.75), None)
    standing = budget.standing().to_dict()
    assert (standing["spent"], standing["unknown"], standing["unknown_cost"]) == (0.75, 1, 0.75)


def test_an_overspend_is_counted_with_what_led_to_it(budget: BaseBudget) -> None:
    budget.reserve(worst(1.5, "no max_tokens"))
    budget.settle(worst(1.5, "no max_tokens"), Decimal("2.25"))
    standing = budget.standing().to_dict()
    assert (standing["overspent"], standing["guessed"], standing["dearer"]) == (0.25, 1, 1)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("2", "$2"),
        ("1.980", "$1.98"),
        ("0", "$0"),
        ("0.0004067", "$0.000407"),
        ("0.00000123", "$0.0000012"),
        ("100", "$100"),
    ],
)
def test_money_is_written_without_zeros_at_its_end(amount: str, text: str) -> None:
    assert dollars(Decimal(amount)) == text


money = st.integers(0, 60).map(lambda cents: Decimal(cents) / 100)


@given(st.lists(st.tuples(money, st.one_of(st.none(), st.floats(0, 1)), st.integers(0, 5)), max_size=30))
def test_no_order_of_requests_and_replies_passes_the_ceiling(steps: list[tuple[Decimal, float | None, int]]) -> None:
    budget = Budget(1.0, "here")
    under_way: list[tuple[WorstCase, Decimal | None]] = []
    truly = Decimal(0)
    for amount, share, finishing in steps:
        one = worst(amount)
        try:
            budget.reserve(one)
        except BudgetExceeded:
            account = budget.standing().account
            assert account.spent + account.reserved + amount > 1
        else:
            under_way.append((one, None if share is None else amount * Decimal(share)))
        if finishing < len(under_way):
            ended, cost = under_way.pop(finishing)
            truly += ended.amount if cost is None else cost
            budget.settle(ended, cost)
        account = budget.standing().account
        assert account.spent + account.reserved <= 1
        assert account.spent == truly
        assert account.under_way == len(under_way)
    for ended, cost in under_way:
        budget.settle(ended, cost)
    assert budget.standing().account.reserved == 0
    assert budget.standing().overspent == 0


def test_threads_share_one_account(budget: BaseBudget) -> None:
    let_through = []

    def send() -> None:
        for _ in range(25):
            try:
                budget.reserve(worst(0.125))
            except BudgetExceeded:
                continue
            let_through.append(1)
            budget.settle(worst(0.125), Decimal("0.125"))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(let_through) == 16
    assert budget.standing().account.spent == 2


# --- several processes ------------------------------------------------------------------------------------------------

PROCESS = """
import os, sys
from decimal import Decimal
from pathlib import Path
from pytest_swarm.errors import BudgetExceeded
from pytest_swarm.traffic.shared_budget import SharedBudget
from pytest_swarm.traffic.worst_case import WorstCase

budget = SharedBudget(Path(sys.argv[1]), 1.0, "here")
worst = WorstCase(Decimal("0.01"), 1, 1)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(60):
    try:
        budget.reserve(worst)
    except BudgetExceeded:
        break
    budget.settle(worst, Decimal("0.01"))
if sys.argv[2] == "dies":
    budget.reserve(WorstCase(Decimal(0), 1, 1))
    os.kill(os.getpid(), 9)
"""


def processes(path: Path, ends: list[str]) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(path), end], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for end in ends
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        process.communicate(timeout=60)
        assert process.returncode in (0, -9)


def test_processes_share_one_account_and_a_dead_one_keeps_what_it_reserved() -> None:
    budget = SharedBudget.create(1.0, "here")
    try:
        processes(budget.path, ["ends", "ends", "dies"])
        account = budget.standing().account
        assert (account.spent, account.requests, account.under_way) == (1, 101, 1)
    finally:
        budget.remove()
    assert not budget.path.exists()


def test_an_account_that_is_not_there_cannot_be_shared(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"^--swarm-max-cost: workers on another machine cannot share the account;"):
        SharedBudget(tmp_path / "nowhere", 1.0, "--swarm-max-cost")


def test_the_account_is_for_its_user_alone() -> None:
    budget = SharedBudget.create(1.0, "here")
    mode = budget.path.stat().st_mode & 0o777
    budget.remove()
    assert mode == 0o600


# --- several ceilings -------------------------------------------------------------------------------------------------

TARIFF = parse_tariff({"input": 0, "output": 1_000_000}, "here")
"""A dollar for each output token."""


def ceilings(*budgets: BaseBudget) -> Ceilings:
    return Ceilings(budgets, lambda model: [TARIFF] if model == "known" else [])


def test_every_ceiling_must_let_a_request_through() -> None:
    wide, narrow = Budget(10, "wide"), Budget(3, "narrow")
    both = ceilings(wide, narrow)
    held = both.reserve("known", b'{"max_tokens": 2}')
    with pytest.raises(BudgetExceeded, match=r"the cost ceiling of \$3 \(narrow\) was reached"):
        both.reserve("known", b'{"max_tokens": 2}')
    for budget in (wide, narrow):
        account = budget.standing().account
        assert (account.reserved, account.requests, account.under_way, account.refused) == (2, 1, 1, 1)
        assert account.estimated == 2
    both.settle(held, "ok", Decimal(1))
    assert (wide.standing().account.spent, narrow.standing().account.spent) == (1, 1)


@pytest.mark.parametrize(
    ("outcome", "cost", "spent"),
    [
        ("ok", 1, 1),
        ("refusal", 1, 1),
        ("empty", 1, 1),
        ("server_error", 0, 0),
        ("ok", None, 2),
        ("truncated", 1, 2),
        ("cancelled", 1, 2),
    ],
)
def test_what_broke_off_counts_at_its_worst_whatever_it_told(outcome: str, cost: int | None, spent: int) -> None:
    budget = Budget(10, "here")
    one = ceilings(budget)
    held = one.reserve("known", b'{"max_tokens": 2}')
    one.settle(held, outcome, None if cost is None else Decimal(cost))
    assert budget.standing().account.spent == spent


def test_what_has_no_known_price_is_refused_with_the_remedy() -> None:
    one = ceilings(Budget(10, "--swarm-max-cost"))
    assert one.why_unpriced("known") is None
    with pytest.raises(BudgetExceeded) as refused:
        one.reserve("house", b"{}")
    assert str(refused.value) == (
        "the price of model 'house' is not known, so that --swarm-max-cost cannot hold it to a cost ceiling: add "
        '[tool.pytest_swarm.prices."house"] with input and output, US dollars per million tokens'
    )
    with pytest.raises(BudgetExceeded, match="the request names no model"):
        one.reserve(None, b"{}")
