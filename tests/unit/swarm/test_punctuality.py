"""How well starts keep to the times at which they were due."""

from __future__ import annotations

import pytest

from pytest_swarm.swarm.punctuality import Punctuality


def of(*starts: tuple[float, float]) -> Punctuality:
    punctuality = Punctuality()
    for due, start in starts:
        punctuality.started(due, start)
    return punctuality


def test_a_rate_at_which_everything_is_equally_late_is_delivered() -> None:
    punctuality = of((0, 1), (1, 2), (2, 3))
    assert list(punctuality.late) == [1, 1, 1]
    assert punctuality.undelivered == 0


def test_starts_that_fall_behind_are_a_lower_rate() -> None:
    # Two planned seconds took four.
    assert of((0, 0), (1, 2), (2, 4)).undelivered == pytest.approx(0.5)


def test_starts_that_catch_up_are_none() -> None:
    assert of((0, 0.5), (1, 1.2), (2, 2.1)).undelivered == 0


@pytest.mark.parametrize("starts", [(), ((0, 1),), ((0, 0), (0, 5)), ((0, 3), (1, 3))])
def test_one_time_has_no_rate(starts: tuple[tuple[float, float], ...]) -> None:
    assert of(*starts).undelivered is None
