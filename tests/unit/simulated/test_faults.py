from __future__ import annotations

from collections import Counter

import pytest

from pytest_swarm.sources.simulated.faults import Fate, FateDraws
from pytest_swarm.sources.simulated.profile import Faults


def fates(faults: Faults, count: int = 1000) -> Counter[Fate]:
    draws = FateDraws(faults, "1")
    return Counter(draws.draw().fate for _ in range(count))


def test_of_every_hundred_requests_as_many_are_doomed_as_the_rate_says() -> None:
    draws = FateDraws(Faults(doomed_rate=0.04), "1")
    for _ in range(5):
        assert sum(draws.draw().fate is Fate.DOOMED for _ in range(100)) == 4


def test_all_fates_share_one_draw() -> None:
    faults = Faults(doomed_rate=0.1, hang_rate=0.1, stall_rate=0.2, cut_rate=0.1, stream_error_rate=0.1)
    assert fates(faults) == {
        Fate.DOOMED: 100,
        Fate.HANG: 100,
        Fate.STALL: 200,
        Fate.CUT: 100,
        Fate.STREAM_ERROR: 100,
        Fate.ANSWERED: 400,
    }


def test_pauses_double_and_stray_by_half() -> None:
    draws = FateDraws(Faults(transient_rate=0.5, max_retries=3, backoff_seconds=0.25), "1")
    journeys = [draws.draw() for _ in range(500)]
    for position, mean in enumerate((0.25, 0.5, 1.0)):
        pauses = [journey.pauses[position] for journey in journeys if len(journey.pauses) > position]
        assert all(0.5 * mean <= pause <= 1.5 * mean for pause in pauses)
        assert sum(pauses) / len(pauses) == pytest.approx(mean, rel=0.2)


def test_a_request_that_meets_more_faults_than_it_has_retries_fails() -> None:
    draws = FateDraws(Faults(transient_rate=1.0, max_retries=3), "1")
    journey = draws.draw()
    assert journey.fate is Fate.DOOMED
    assert len(journey.pauses) == 3


def test_rescheduling_pauses_for_nothing() -> None:
    draws = FateDraws(Faults(transient_rate=0.3, recovery="reschedule"), "1")
    assert {pause for _ in range(100) for pause in draws.draw().pauses} == {0.0}


def test_the_seed_decides() -> None:
    def first(seed: str) -> list[Fate]:
        draws = FateDraws(Faults(doomed_rate=0.5), seed)
        return [draws.draw().fate for _ in range(50)]

    assert first("a") == first("a") != first("b")
