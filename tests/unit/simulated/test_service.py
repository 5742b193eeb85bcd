from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.sources.simulated.service import STRATA, QuantileFunction, Strata


@st.composite
def quantile_functions(draw: st.DrawFn) -> QuantileFunction:
    inner = draw(st.lists(st.floats(0.01, 0.99), unique=True, max_size=8))
    shares = [0.0, *sorted(inner), 1.0]
    seconds = sorted(draw(st.lists(st.floats(0.001, 1000), min_size=len(shares), max_size=len(shares))))
    return QuantileFunction(shares, seconds)


@given(quantile_functions(), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_takes_no_less_time(quantile: QuantileFunction, a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert quantile(low) <= quantile(high) * (1 + 1e-12)


@given(quantile_functions())
def test_the_mean_is_that_of_many_even_draws(quantile: QuantileFunction) -> None:
    draws = [quantile((i + 0.5) / 20_000) for i in range(20_000)]
    assert quantile.mean() == pytest.approx(sum(draws) / len(draws), rel=0.02)


def test_the_given_points_are_met_and_between_them_the_logarithm_is_linear() -> None:
    quantile = QuantileFunction([0, 0.5, 1], [1, 4, 16])
    assert [quantile(share) for share in (0, 0.25, 0.5, 0.75, 1)] == pytest.approx([1, 2, 4, 8, 16])


@given(st.integers(0, 5))
def test_every_block_of_draws_has_one_in_each_percent(blocks: int) -> None:
    strata = Strata(Random(7))
    for _ in range(blocks + 1):
        block = [strata.draw() for _ in range(STRATA)]
        assert sorted(int(draw * STRATA) for draw in block) == list(range(STRATA))


def test_the_order_of_draws_depends_on_the_seed_alone() -> None:
    def first(seed: str) -> list[float]:
        strata = Strata(Random(seed))
        return [strata.draw() for _ in range(10)]

    assert first("a") == first("a") != first("b")
    assert first("a") != sorted(first("a"))
