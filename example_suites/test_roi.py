"""The return of changing models, worked out from published inputs, and from what is measured here.

The inputs: a million tasks a month; 1.5 billion output tokens at $8 per million against 1.05 billion at $4; caching
takes 35 % off the one bill and 30 % off the other; slower answers lose $1,200 a month. The measured part is simulated
unless `--swarm-base-url` names a gateway, and the summary says so.
"""

from decimal import Decimal

import pytest

from pytest_swarm.judging.projection import Bill, Saving, monthly

TASKS = 1_000_000
BEFORE = Bill(1_500_000_000, 8, cache_saves=0.35)
AFTER = Bill(1_050_000_000, 4, cache_saves=0.30)
PER_100 = {"gpt-6-agent": "0.082", "kimi-k2.5-swarm": "0.041"}
"""US dollars per 100 tasks, as published beside the bills."""


def test_the_bills_of_a_month():
    assert (BEFORE.without_cache, AFTER.without_cache) == (12_000, 4_200)
    assert (BEFORE.monthly, AFTER.monthly) == (7_800, 2_940)


def test_what_remains_when_slow_answers_are_paid_for():
    saving = AFTER.saving_over(BEFORE, losses=1_200)
    assert (saving.monthly, saving.yearly) == (3_660, 43_920)


def test_the_prices_per_task_save_410_dollars_a_month():
    """A saving of $1,367 is published beside these prices; it does not follow from them."""
    dear, cheap = (monthly(Decimal(price) / 100, TASKS) for price in PER_100.values())
    assert (dear, cheap, Saving(dear, cheap).monthly) == (820, 410, 410)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("gpt-6-agent", marks=pytest.mark.sla("cost_per_100 < $0.09")),
        pytest.param("kimi-k2.5-swarm", marks=pytest.mark.sla("cost_per_100 < $0.045")),
    ],
)
@pytest.mark.swarm(tasks=100, concurrency=50, seed=6)
@pytest.mark.sla("success_rate >= 85%")
async def test_the_prices_per_task_as_measured(gateway, agent, model):
    """With `--swarm-project 1_000_000/month` the summary tells what these come to."""
    await gateway.chat(f"Summarise ticket {agent.index} in one sentence.", model=model)
