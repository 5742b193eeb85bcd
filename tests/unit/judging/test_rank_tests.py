"""Rank tests, Fisher's and Welch's test against scipy, and what they say of samples that tell nothing."""

import math

import numpy as np
import pytest
from scipy import stats

from pytest_swarm.judging.rank_tests import least_p, location_shift, mann_whitney, scale_ratio, tail_test
from pytest_swarm.judging.two_samples import Sides, fisher, student_tail, welch


def drawn(seed, n, m, shift=1.0):
    random = np.random.default_rng(seed)
    return sorted(random.lognormal(0, 0.5, n) * shift), sorted(random.lognormal(0, 0.5, m))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 4), (10, 12), (20, 20), (2, 200)])
def test_small_samples_without_ties_are_counted_out_exactly(n, m):
    now, before = drawn(n, n, m, 1.2)
    sides = mann_whitney(now, before)
    for side, alternative in ((sides.larger, "greater"), (sides.smaller, "less")):
        expected = stats.mannwhitneyu(now, before, alternative=alternative, method="exact").pvalue
        assert side == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n", "m", "step"), [(500, 480, 0), (30, 2000, 0), (60, 50, 0.25), (8, 9, 0.5)])
def test_larger_samples_and_ties_are_told_by_the_normal_distribution(n, m, step):
    now, before = drawn(7, n, m, 1.05)
    if step:
        now, before = (sorted(round(value / step) * step for value in sample) for sample in (now, before))
    sides = mann_whitney(now, before)
    for side, alternative in ((sides.larger, "greater"), (sides.smaller, "less")):
        expected = stats.mannwhitneyu(now, before, alternative=alternative, method="asymptotic").pvalue
        assert side == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("now", "before"), [([], [1.0]), ([1.0], []), ([2.0, 2.0], [2.0] * 5)])
def test_samples_without_a_difference_in_them_tell_nothing(now, before):
    assert mann_whitney(now, before) == Sides(1.0, 1.0)
    assert tail_test(now, before, 99, 0.025) == Sides(1.0, 1.0)


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ((3, 10), (1, 12)),
        ((480, 500), (440, 500)),
        ((0, 5), (5, 5)),
        ((7, 7), (9, 11)),
        ((99_000, 100_000), (990, 1000)),
    ],
)
def test_two_rates_are_compared_by_fishers_exact_test(now, before):
    table = [[now[0], now[1] - now[0]], [before[0], before[1] - before[0]]]
    sides = fisher(now, before)
    assert sides.larger == pytest.approx(stats.fisher_exact(table, "greater").pvalue, rel=1e-6)
    assert sides.smaller == pytest.approx(stats.fisher_exact(table, "less").pvalue, rel=1e-6)
    assert sides.both == min(1.0, 2 * min(sides))


@pytest.mark.parametrize(("now", "before"), [((0, 5), (0, 9)), ((5, 5), (9, 9)), ((0, 0), (3, 9))])
def test_rates_that_cannot_differ_tell_nothing(now, before):
    assert fisher(now, before) == Sides(1.0, 1.0)


@pytest.mark.parametrize(("n", "m", "shift"), [(2, 2, 1.5), (5, 40, 0.8), (500, 480, 1.1)])
def test_two_means_are_compared_by_welchs_test(n, m, shift):
    now, before = drawn(3, n, m, shift)
    sides = welch(now, before)
    for side, alternative in ((sides.larger, "greater"), (sides.smaller, "less")):
        expected = stats.ttest_ind(now, before, equal_var=False, alternative=alternative).pvalue
        assert side == pytest.approx(expected, rel=1e-8)


def test_means_of_constant_or_single_values():
    assert welch([2.0, 2.0], [1.0, 1.0]) == Sides(0.0, 1.0)
    assert welch([1.0, 1.0], [2.0, 2.0]) == Sides(1.0, 0.0)
    assert welch([1.0, 1.0], [1.0, 1.0]) == Sides(1.0, 1.0)
    assert welch([9.0], [1.0, 2.0]) == Sides(1.0, 1.0)


@pytest.mark.parametrize(("t", "freedom"), [(0.0, 5), (0.1, 1), (2.0, 7.3), (40.0, 3), (1.96, 1e6)])
def test_students_tail(t, freedom):
    assert student_tail(t, freedom) == pytest.approx(stats.t.sf(t, freedom), rel=1e-7)


def test_the_tail_beyond_a_percentile_is_hypergeometric():
    now, before = drawn(11, 400, 300, 1.3)
    cut = sorted([*now, *before])[700 - 35 - 1]
    above = [sum(value > cut for value in sample) for sample in (now, before)]
    table = [[above[0], 400 - above[0]], [above[1], 300 - above[1]]]
    assert tail_test(now, before, 95, 0.025).larger == pytest.approx(
        stats.fisher_exact(table, "greater").pvalue, rel=1e-6
    )


def test_a_tail_of_few_values_is_widened_until_it_can_tell_something():
    before = [float(value) for value in range(100)]
    now = [value + 0.5 for value in before[:94]] + [1000.0 + value for value in range(6)]
    # The p99 of both is two values; six that are all new have a probability of 1 in 70.
    assert tail_test(now, before, 99, 0.025).larger == pytest.approx(math.comb(100, 6) / math.comb(200, 6), rel=1e-9)
    assert tail_test(now, before, 100, 0.025).larger <= 0.025
    # At the other end it is the lowest six that count.
    assert tail_test([-1000.0 - value for value in range(6)][::-1] + before[6:], before, 0, 0.025).smaller <= 0.025


def test_the_least_p_value_is_that_of_samples_that_do_not_overlap():
    now, before = [4.0, 5.0, 6.0], [1.0, 2.0, 3.0]
    assert least_p(3, 3) == pytest.approx(1 / 20)
    assert mann_whitney(now, before).larger == pytest.approx(least_p(3, 3))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 4), (60, 70), (900, 800)])
def test_the_ratio_of_two_distributions_is_the_median_of_all_ratios(n, m):
    now, before = drawn(5, n, m, 1.15)
    every = np.exp(np.subtract.outer(np.log(now), np.log(before)))
    assert scale_ratio(now, before) == pytest.approx(np.exp(np.median(np.log(every))), rel=2e-5)


def test_large_samples_are_thinned_without_a_shift():
    now, before = drawn(5, 20_000, 30_000, 1.15)
    assert scale_ratio(now, before) == pytest.approx(
        np.exp(stats.norm.fit(np.log(now))[0] - np.log(before).mean()), rel=0.01
    )
    assert scale_ratio(now, now) == 1


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 4), (900, 800)])
def test_the_shift_of_two_distributions_is_the_median_of_all_differences(n, m):
    now, before = drawn(5, n, m, 1.15)
    assert location_shift(now, before) == pytest.approx(np.median(np.subtract.outer(now, before)), abs=1e-4)
    assert location_shift(before, before) == pytest.approx(0, abs=1e-6)
    assert location_shift([], before) is None


def test_values_of_zero_have_no_ratio():
    assert scale_ratio([0.0, 1.0], [1.0, 2.0]) is None
    assert scale_ratio([1.0], []) is None
