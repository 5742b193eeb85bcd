"""How late a thread is, at evenly spaced moments."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.clock import real_now
from pytest_swarm.swarm.pulse import TICK, Pulse, pulse_of_loop, pulse_of_threads


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.in_flight = 0

    def pulse(self, tick: float = 1.0) -> Pulse:
        return Pulse(lambda: self.now, lambda: self.in_flight, tick)


def test_every_moment_that_was_missed_counts_with_its_own_delay() -> None:
    clock = Clock()
    pulse = clock.pulse()
    assert pulse.beat() == 1.0
    clock.now = 103.5
    assert pulse.beat() == 0.5
    assert list(pulse.lags) == [2.5, 1.5, 0.5]


def test_nothing_is_known_before_the_first_moment() -> None:
    clock = Clock()
    pulse = clock.pulse()
    clock.now = 100.9
    pulse.beat()
    assert (len(pulse.lags), pulse.in_flight_mean, pulse.beats) == (0, None, 1)


def test_the_tasks_in_flight_are_averaged_over_the_moments() -> None:
    clock = Clock()
    pulse = clock.pulse()
    for now, in_flight in ((101.0, 4), (102.0, 2), (104.0, 1)):
        clock.now, clock.in_flight = now, in_flight
        pulse.beat()
    assert pulse.in_flight_mean == (4 + 2 + 1 + 1) / 4


@given(st.lists(st.floats(0.001, 5.0), min_size=1, max_size=30), st.floats(0.01, 1.0))
def test_the_lag_of_a_moment_is_the_way_to_the_first_beat_after_it(pauses: list[float], tick: float) -> None:
    clock = Clock()
    pulse = clock.pulse(tick)
    beats = []
    for pause in pauses:
        clock.now += pause
        beats.append(clock.now)
        assert 0 < pulse.beat() <= tick * (1 + 1e-9)
    moments = [100.0 + (number + 1) * tick for number in range(len(pulse.lags))]
    expected = [next(beat for beat in beats if beat >= moment) - moment for moment in moments]
    assert list(pulse.lags) == pytest.approx(expected, abs=1e-9)
    assert beats[-1] - 100.0 < (len(moments) + 1) * tick * (1 + 1e-9)


def test_a_loop_that_is_blocked_is_late_and_one_that_waits_is_not() -> None:
    async def lags(work: float, wait: float) -> list[float]:
        pulse = Pulse(real_now, lambda: 1)
        with pulse_of_loop(pulse, asyncio.get_running_loop()):
            await asyncio.sleep(wait)
            time.sleep(work)
        return sorted(pulse.lags)

    blocked, waited = (asyncio.run(lags(*seconds)) for seconds in ((0.5, 0.0), (0.0, 0.5)))
    assert blocked[-1] > 0.4
    assert blocked[len(blocked) // 2] > 0.2
    # A moment of the waiting loop in the middle: a busy machine is late at some of them.
    assert waited[len(waited) // 2] < 0.1


def test_a_thread_beats_until_the_block_ends() -> None:
    pulse = Pulse(real_now, lambda: 3)
    with pulse_of_threads(pulse):
        time.sleep(10 * TICK)
    beaten = pulse.beats
    assert beaten > 1
    assert pulse.in_flight_mean == 3
    time.sleep(3 * TICK)
    assert pulse.beats == beaten
    assert "swarm-pulse" not in {thread.name for thread in threading.enumerate()}
