import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.judging.statistics import (
    binomial_cdf,
    mean,
    median,
    percentile,
    percentile_bounds,
    rate_bounds,
    samples_needed,
    stdev,
)

numbers = st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=60)
percents = st.one_of(st.floats(0, 100), st.sampled_from([0, 0.1, 25, 50, 90, 95, 99, 99.9, 100]))
shares = st.floats(0.0005, 0.9995)
confidences = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])


@given(numbers, percents)
def test_a_percentile_is_numpys(values, p):
    values.sort()
    assert percentile(values, p) == pytest.approx(float(np.percentile(values, p)), rel=1e-14, abs=1e-300)


@given(numbers, percents)
def test_a_percentile_lies_between_the_values(values, p):
    values.sort()
    assert values[0] <= percentile(values, p) <= values[-1]


def test_percentiles_are_exact_at_the_ends_and_at_values():
    assert percentile([3.0], 99) == 3.0
    assert percentile([0.1, 0.7], 0) == 0.1
    assert percentile([0.1, 0.7], 100) == 0.7
    assert percentile([0.1, 0.3, 0.7], 50) == 0.3
    assert percentile([1.0, 2.0, 3.0, 4.0], 25) == 1.75
    assert percentile([0.1] * 7, 33.3) == 0.1


@pytest.mark.parametrize("p", [-0.1, 100.1, math.nan])
def test_a_percentile_outside_0_to_100_is_refused(p):
    with pytest.raises(ValueError, match="between 0 and 100"):
        percentile([1.0], p)


def test_no_values_have_no_figures():
    with pytest.raises(ValueError, match="no percentile"):
        percentile([], 50)
    with pytest.raises(ValueError, match="no mean"):
        mean([])
    with pytest.raises(ValueError, match="two values"):
        stdev([1.0])


def test_mean_median_and_deviation():
    assert mean([0.1] * 10) == 0.1
    assert median([9.0, 1.0, 2.0]) == 2.0
    assert median([9.0, 1.0, 2.0, 4.0]) == 3.0
    assert stdev([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]) == pytest.approx(math.sqrt(32 / 7), rel=1e-15)
    assert stdev([1e9 + 1, 1e9 + 2, 1e9 + 3]) == 1.0


@given(st.integers(1, 2000), shares, st.data())
def test_the_binomial_distribution_is_scipys(n, share, data):
    k = data.draw(st.integers(-1, n + 1))
    assert binomial_cdf(k, n, share) == pytest.approx(scipy.stats.binom.cdf(k, n, share), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("share", [1e-6, 0.001, 0.5, 0.99, 1 - 1e-6])
@pytest.mark.parametrize("off", [-6, -1, 0, 1, 6])
def test_the_binomial_distribution_holds_for_a_million_trials(share, off):
    n = 1_000_000
    k = max(0, min(n - 1, round(n * share + off * math.sqrt(n * share * (1 - share)))))
    assert binomial_cdf(k, n, share) == pytest.approx(scipy.stats.binom.cdf(k, n, share), rel=1e-7, abs=1e-12)


def test_the_binomial_distribution_at_its_ends():
    assert [binomial_cdf(k, 5, 0.0) for k in (-1, 0, 4)] == [0.0, 1.0, 1.0]
    assert [binomial_cdf(k, 5, 1.0) for k in (0, 4, 5)] == [0.0, 0.0, 1.0]


@given(st.integers(1, 1500), st.floats(0, 100), confidences)
def test_percentile_bounds_are_the_first_ranks_that_hold(n, p, confidence):
    lower, upper = percentile_bounds(n, p, confidence)
    share = p / 100
    covered = scipy.stats.binom.cdf(np.arange(n), n, share)  # at rank k: P(Binom <= k - 1)
    above = scipy.stats.binom.sf(np.arange(n), n, share)  # at rank k: P(Binom >= k)
    if upper is None:
        assert covered[-1] < confidence + 1e-9
    else:
        assert covered[upper - 1] >= confidence - 1e-9
        assert upper == 1 or covered[upper - 2] < confidence + 1e-9
    if lower is None:
        assert above[0] < confidence + 1e-9
    else:
        assert above[lower - 1] >= confidence - 1e-9
        assert lower == n or above[lower] < confidence + 1e-9


def test_percentile_bounds_worked_out_by_hand():
    # 1 - 0.5 ** 5 = 0.969: the largest of five values is above the median with that confidence, the smallest below.
    assert percentile_bounds(5, 50, 0.95) == (1, 5)
    assert percentile_bounds(4, 50, 0.95) == (None, None)
    # A tie is a claim: 1 - 0.5 ** 2 is exactly 0.75.
    assert percentile_bounds(2, 50, 0.75) == (1, 2)
    assert percentile_bounds(100, 99, 0.95) == (97, None)
    assert percentile_bounds(299, 99, 0.95)[1] == 299
    assert percentile_bounds(298, 99, 0.95)[1] is None
    assert percentile_bounds(0, 50, 0.95) == (None, None)
    # The largest value cannot bound the maximum from above, but every value does from below; the same upside down.
    assert percentile_bounds(10, 100, 0.95) == (10, None)
    assert percentile_bounds(10, 0, 0.95) == (None, 1)


def test_percentile_bounds_of_a_million_samples():
    lower, upper = percentile_bounds(1_000_000, 99, 0.95)
    assert upper == scipy.stats.binom.ppf(0.95, 1_000_000, 0.99) + 1
    assert lower == 1_000_000 - scipy.stats.binom.ppf(0.95, 1_000_000, 0.01)


@pytest.mark.parametrize(
    ("p", "confidence", "needed"),
    [
        (50, 0.99, 7),
        (90, 0.99, 44),
        (95, 0.99, 90),
        (99, 0.99, 459),
        (99.9, 0.99, 4603),
        (90, 0.95, 29),
        (95, 0.95, 59),
        (99, 0.95, 299),
        (50, 0.5, 1),
    ],
)
def test_samples_needed(p, confidence, needed):
    assert samples_needed(p, confidence) == needed
    assert percentile_bounds(needed, p, confidence)[1] == needed


@given(st.floats(1, 99.5), confidences, st.integers(0, 5))
def test_samples_needed_is_the_first_number_that_proves(p, confidence, over):
    n = samples_needed(p, confidence, over)
    assert scipy.stats.binom.cdf(over, n, 1 - p / 100) <= 1 - confidence + 1e-9
    assert n == over + 1 or scipy.stats.binom.cdf(over, n - 1, 1 - p / 100) > 1 - confidence - 1e-9


@pytest.mark.parametrize(("p", "confidence"), [(100, 0.95), (0, 0.95), (99, 1.0), (99, 0.0)])
def test_what_no_number_of_samples_proves_is_refused(p, confidence):
    with pytest.raises(ValueError, match="no number of samples"):
        samples_needed(p, confidence)


@given(st.integers(1, 3000), confidences, st.data())
def test_rate_bounds_are_clopper_and_pearsons(n, confidence, data):
    hits = data.draw(st.integers(0, n))
    lower, upper = rate_bounds(hits, n, confidence)
    right_lower = 0.0 if hits == 0 else scipy.stats.beta.ppf(1 - confidence, hits, n - hits + 1)
    right_upper = 1.0 if hits == n else scipy.stats.beta.ppf(confidence, hits + 1, n - hits)
    assert lower == pytest.approx(right_lower, abs=1e-9)
    assert upper == pytest.approx(right_upper, abs=1e-9)


def test_rate_bounds_worked_out_by_hand():
    assert rate_bounds(0, 0, 0.95) == (0.0, 1.0)
    # 0.05 ** (1 / 100) = 0.97049: with 100 of 100 the rate is above that.
    assert rate_bounds(100, 100, 0.95) == (pytest.approx(0.05**0.01, abs=1e-12), 1.0)
    assert rate_bounds(0, 100, 0.95) == (0.0, pytest.approx(1 - 0.05**0.01, abs=1e-12))
    assert rate_bounds(999_990, 1_000_000, 0.99)[1] == pytest.approx(scipy.stats.beta.ppf(0.99, 999_991, 10), abs=1e-9)
