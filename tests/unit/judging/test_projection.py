"""What costs come to in a month, what a change saves, and what a task costs without a prompt cache."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging_samples import call, run_of, swarm_of, task

from pytest_swarm.errors import SettingError
from pytest_swarm.judging.metrics import SwarmMetrics
from pytest_swarm.judging.projection import Bill, Saving, cost_without_cache, monthly
from pytest_swarm.judging.rates import Rates, Tariff

RATES = Tariff(Rates(Decimal("2.5"), Decimal(10), Decimal("1.25"), Decimal("3.75")))
"""US dollars per million tokens: input, output, read from a cache, written to it."""

dollars = st.decimals(0, 10**6, places=6)


# --- a month and a year -----------------------------------------------------------------------------------------------


def test_a_million_tasks_at_a_price_per_hundred():
    assert monthly(Decimal("0.082") / 100, 1_000_000) == 820
    assert monthly(0.00041, 1_000_000) == 410


def test_two_prices_per_hundred_tasks_save_410_a_month_and_4920_a_year():
    saving = Saving(monthly(0.00082, 1_000_000), monthly(0.00041, 1_000_000))
    assert (saving.monthly, saving.yearly, saving.share) == (410, 4920, Decimal("0.5"))


def test_the_bills_with_and_without_caching():
    before, after = Bill(1_500_000_000, 8, cache_saves=0.35), Bill(1_050_000_000, 4, cache_saves="0.30")
    assert (before.without_cache, after.without_cache) == (Decimal(12_000), Decimal(4_200))
    assert (before.monthly, after.monthly) == (Decimal(7_800), Decimal(2_940))


def test_losses_are_taken_off_the_saving():
    before, after = Bill(1_500_000_000, 8, cache_saves=0.35), Bill(1_050_000_000, 4, cache_saves=0.30)
    saving = after.saving_over(before, losses=1_200)
    assert (saving.monthly, saving.yearly) == (Decimal(3_660), Decimal(43_920))
    assert after.saving_over(before).monthly == 4_860


def test_a_change_that_costs_more_than_it_saves_is_negative():
    saving = Bill(1_000_000, 4).saving_over(Bill(1_000_000, 8), losses=5)
    assert (saving.monthly, saving.yearly, saving.share) == (-1, -12, Decimal(-1) / 8)


def test_nothing_is_a_share_of_nothing():
    assert Saving(Decimal(0), Decimal(0)).share is None


@given(dollars, st.integers(1, 10**9))
def test_a_cost_times_the_tasks_is_exact(cost, tasks):
    assert monthly(cost, tasks) == cost * tasks
    assert monthly(float(cost), 1) == Decimal(repr(float(cost)))


@given(dollars, dollars, dollars)
def test_a_saving_and_the_new_bill_make_the_old_one(before, after, losses):
    saving = Saving(before, after, losses)
    assert saving.monthly + after + losses == before
    assert saving.yearly == 12 * saving.monthly


@given(st.integers(0, 10**12), dollars, st.decimals(0, 1, places=4))
def test_caching_takes_its_share_off_a_bill(tokens, price, share):
    bill = Bill(tokens, price, cache_saves=share)
    assert 0 <= bill.monthly <= bill.without_cache
    assert math.isclose(bill.monthly + bill.without_cache * share, bill.without_cache)


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"tokens": -1, "per_million": 8}, "Bill(tokens=...): -1 is not a number of 0 or more"),
        ({"tokens": True, "per_million": 8}, "Bill(tokens=...): True is not a number of 0 or more"),
        ({"tokens": 1, "per_million": "free"}, "Bill(per_million=...): 'free' is not a number of 0 or more"),
        ({"tokens": 1, "per_million": math.inf}, "Bill(per_million=...): inf is not a number of 0 or more"),
        (
            {"tokens": 1, "per_million": 8, "cache_saves": 35},
            "Bill(cache_saves=...): 35 is above 1; write the share, such as 0.35",
        ),
    ],
)
def test_a_wrong_bill_is_refused(arguments, answer):
    with pytest.raises(SettingError) as error:
        Bill(**arguments)
    assert str(error.value) == answer


def test_wrong_losses_are_refused():
    with pytest.raises(SettingError, match=r"^saving_over\(losses=\.\.\.\): nan is not a number of 0 or more$"):
        Bill(1, 1).saving_over(Bill(1, 1), losses=math.nan)


# --- without a cache --------------------------------------------------------------------------------------------------


def priced(index=0, *, input_tokens=10_000, output_tokens=500, cached_tokens=0, **more):
    """A call of the tariff: fresh input 2.5, output 10, cached 1.25, written 3.75 per million."""
    written = more.get("cache_write_tokens", 0)
    fresh = input_tokens - (cached_tokens or 0) - written
    cost = (fresh * 2.5 + (cached_tokens or 0) * 1.25 + written * 3.75 + output_tokens * 10) / 1e6
    tokens = {"input_tokens": input_tokens, "output_tokens": output_tokens, "cached_tokens": cached_tokens}
    return call(index, **{"cost": cost, "cost_source": "table", **tokens, **more})


def without_cache(*calls, tariff=RATES, runs=1):
    tasks = [task(index, 0, 1) for index in sorted({one.task for one in calls})]
    metrics = SwarmMetrics(swarm_of(*(run_of(tasks, list(calls), index) for index in range(runs))))
    return cost_without_cache(metrics, lambda model: tariff if model == "m" else None)


def test_cached_tokens_are_priced_as_fresh_input():
    # 10,000 * 2.5 + 500 * 10 = 30,000 per million, 8,192 of the input cached or not.
    assert without_cache(priced(cached_tokens=8192)).value == 0.03


def test_written_tokens_are_priced_as_fresh_input_too():
    assert without_cache(priced(cached_tokens=4000, cache_write_tokens=2000)).value == 0.03


def test_it_is_the_mean_over_tasks_and_runs():
    seen = without_cache(priced(0, cached_tokens=8192), priced(1, output_tokens=1500), runs=2)
    assert seen.value == pytest.approx((0.03 + 0.04) / 2)


def test_calls_without_cached_tokens_need_no_rates():
    assert without_cache(priced(cost=0.7), tariff=None).value == 0.7


def test_refused_calls_cost_nothing_either_way():
    refused = call(1, "rate_limited", cost=0.0)
    assert without_cache(priced(0, cached_tokens=8192), refused).value == 0.015


def test_the_larger_prompt_picks_its_tier():
    dear = Tariff(RATES.base, ((8_000, Rates(Decimal(5), Decimal(10), Decimal("2.5"))),))
    one = priced(cached_tokens=8_192, cost=(1_808 * 5 + 8_192 * 2.5 + 5_000) / 1e6)
    assert without_cache(one, tariff=dear).value == 0.055


def test_priced_by_rates_and_silent_about_the_cache_is_priced_as_fresh():
    assert without_cache(priced(cached_tokens=None)).value == 0.03


@pytest.mark.parametrize(
    ("one", "tariff", "reason"),
    [
        (priced(cached_tokens=9, cost=None, cost_reason="the reply told no usage"), RATES, "the reply told no usage"),
        (priced(cached_tokens=9), None, "nobody knows what fresh input of model 'm' costs"),
        (priced(cached_tokens=9, model=None), RATES, "nobody knows what fresh input of model None costs"),
        (
            priced(cached_tokens=9, cost=0.5),
            RATES,
            "calls of model 'm' did not cost what its rates make of their tokens",
        ),
        (priced(cached_tokens=9), Tariff(Rates(Decimal(1), Decimal(1))), "cache rate unknown for model 'm'"),
    ],
)
def test_what_cannot_be_worked_out_is_unknown_with_the_reason(one, tariff, reason):
    seen = without_cache(one, tariff=tariff)
    assert seen.value is None
    assert reason in seen.reason


def test_warm_up_and_other_requests_are_left_out():
    warm = priced(0, cached_tokens=100, warmup=True, cost=9.0)
    other = call(0, "other", cached_tokens=100, cost=None)
    assert without_cache(priced(0), warm, other).value == pytest.approx(0.03)


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 10_000))
def test_it_does_not_depend_on_what_was_cached(read, written, output):
    one = priced(cached_tokens=read, cache_write_tokens=written, output_tokens=output)
    assert without_cache(one).value == pytest.approx((10_000 * 2.5 + output * 10) / 1e6, rel=1e-9)
