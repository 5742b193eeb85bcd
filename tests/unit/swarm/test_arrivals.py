"""Schedules of arrivals: seeded, ascending, with the rate that was asked for."""

from __future__ import annotations

import math
import statistics
from array import array
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.swarm.arrivals import Ramp, constant_rate, due_times, gamma_shape, ramps_of
from pytest_swarm.values import Stage

PROCESSES = st.sampled_from(["constant", "poisson", "bursty", "gamma:0.5", "gamma:4"])
RATES = st.floats(0.1, 200)
STAGES = st.lists(st.tuples(st.floats(0.5, 20), RATES), min_size=1, max_size=4).map(
    lambda pairs: [Stage(seconds, rate, "rate") for seconds, rate in pairs]
)


@given(PROCESSES, STAGES, st.text(max_size=5))
def test_ascend_within_the_stages_and_are_the_same_bytes_for_the_same_seed(
    process: str, stages: list[Stage], seed: str
) -> None:
    due = list(due_times(ramps_of(stages), process, seed))
    assert all(before <= after for before, after in pairwise(due))
    assert all(0 <= at < sum(stage.seconds for stage in stages) + 1e-6 for at in due)
    again = due_times(ramps_of(stages), process, seed)
    assert array("d", due).tobytes() == array("d", again).tobytes()


@given(STAGES)
def test_evenly_as_many_as_the_integral_of_the_rate(stages: list[Stage]) -> None:
    ramps = ramps_of(stages)
    expected = math.fsum(ramp.arrivals for ramp in ramps)
    assert abs(len(list(due_times(ramps, "constant", ""))) - expected) < 1 + 1e-6


@given(st.floats(0.1, 20), RATES, RATES, st.floats(0, 1))
def test_a_ramp_reaches_an_amount_when_its_integral_is_that_amount(
    seconds: float, start: float, end: float, share: float
) -> None:
    ramp = Ramp(seconds, start, end)
    at = ramp.reaches(ramp.arrivals * share)
    integral = start * at + (end - start) / seconds * at**2 / 2
    assert integral == pytest.approx(ramp.arrivals * share, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("rate", "seconds", "many"), [(40.0, 30.0, 1200), (0.1, 30.0, 3), (1 / 3, 9.0, 3), (0.1, 0.5, 1)]
)
def test_an_even_rate_for_a_time_is_their_product_and_starts_at_once(rate: float, seconds: float, many: int) -> None:
    due = list(due_times(constant_rate(rate, seconds), "constant", ""))
    assert due == pytest.approx([number / rate for number in range(many)])


@pytest.mark.parametrize(("process", "variation"), [("poisson", 1.0), ("bursty", 2.0), ("gamma:4", 0.5)])
def test_the_mean_is_the_rate_and_gaps_vary_as_the_process_says(process: str, variation: float) -> None:
    due = list(islice(due_times(constant_rate(50.0), process, "seed"), 20_000))
    gaps = [after - before for before, after in pairwise(due)]
    mean = statistics.fmean(gaps)
    assert 1 / mean == pytest.approx(50, rel=0.05)
    assert statistics.stdev(gaps) / mean == pytest.approx(variation, rel=0.08)


def test_the_rate_ramps_from_nothing_to_the_first_stage_and_from_stage_to_stage() -> None:
    stages = [Stage(10, 100.0, "rate"), Stage(10, 100.0, "rate"), Stage(10, 20.0, "rate")]
    due = list(due_times(ramps_of(stages), "poisson", "a"))
    quarters = [sum(begin <= at < begin + 5 for at in due) for begin in range(0, 30, 5)]
    for seen, expected in zip(quarters, (125, 375, 500, 500, 400, 200), strict=True):
        assert abs(seen - expected) < 4 * math.sqrt(expected)


def test_another_seed_is_another_schedule() -> None:
    first, second = (list(islice(due_times(constant_rate(5.0), "poisson", seed), 5)) for seed in ("1", "2"))
    assert first != second


@pytest.mark.parametrize(
    ("word", "shape"), [("bursty", 0.25), ("gamma:0.5", 0.5), ("gamma:2", 2.0), ("gamma:.5", 0.5), ("gamma:0", None)]
)
def test_shapes(word: str, shape: float | None) -> None:
    assert gamma_shape(word) == shape


@pytest.mark.parametrize("word", ["poisson", "gamma", "gamma:", "gamma:-1", "gamma:nan", "gamma:1e3"])
def test_other_words_have_no_shape(word: str) -> None:
    assert gamma_shape(word) is None
