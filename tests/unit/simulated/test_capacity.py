from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.sources.simulated.cache import PromptCache
from pytest_swarm.sources.simulated.capacity import ElasticPool, FixedPool, Pool, Ticket, Worker, make_pool
from pytest_swarm.sources.simulated.profile import Cache, Capacity
from pytest_swarm.sources.simulated.timeline import EventTimeline


def new_cache() -> PromptCache:
    return PromptCache(Cache())


class Work:
    """Jobs of one length on a pool: who began when."""

    def __init__(self, pool: Pool, timeline: EventTimeline, seconds: float) -> None:
        self.pool, self.timeline, self.seconds = pool, timeline, seconds
        self.begun: list[tuple[object, float]] = []
        self.workers: list[int] = []
        self.busy = self.busiest = 0

    def add(self, name: object, *, first: bool = False) -> Ticket:
        def granted(worker: Worker) -> None:
            self.begun.append((name, self.timeline.time()))
            self.workers.append(worker.number)
            self.busy += 1
            self.busiest = max(self.busiest, self.busy)
            self.timeline.call_at(self.timeline.time() + self.seconds, done, worker)

        def done(worker: Worker) -> None:
            self.busy -= 1
            self.pool.release(worker)

        return self.pool.acquire(granted, first=first)


def elastic(
    timeline: EventTimeline, low: int = 2, high: int = 16, spawn: float = 1.0, idle: float = 5.0
) -> ElasticPool:
    return ElasticPool(Capacity("elastic", 0, low, high, spawn, idle), new_cache, timeline)


def test_a_fixed_pool_serves_in_order_of_arrival() -> None:
    timeline = EventTimeline()
    work = Work(FixedPool(2, new_cache), timeline, 1.0)
    for number in range(6):
        work.add(number)
    timeline.run()
    assert work.begun == [(0, 0.0), (1, 0.0), (2, 1.0), (3, 1.0), (4, 2.0), (5, 2.0)]
    assert work.pool.size() == 2


def test_who_leaves_the_queue_is_passed_over_and_who_comes_first_goes_first() -> None:
    timeline = EventTimeline()
    work = Work(FixedPool(1, new_cache), timeline, 1.0)
    tickets = [work.add(number) for number in range(4)]
    work.add("urgent", first=True)
    tickets[1].cancelled = True
    timeline.run()
    assert [name for name, _ in work.begun] == [0, "urgent", 2, 3]


@given(st.integers(1, 8), st.integers(1, 60))
def test_no_more_work_at_once_than_there_are_workers(workers: int, jobs: int) -> None:
    timeline = EventTimeline()
    work = Work(FixedPool(workers, new_cache), timeline, 1.0)
    for number in range(jobs):
        work.add(number)
    timeline.run()
    assert work.busiest == min(workers, jobs)
    assert timeline.time() == pytest.approx(-(-jobs // workers))


def test_an_elastic_pool_at_most_doubles_per_spawn_time_up_to_its_maximum() -> None:
    timeline = EventTimeline()
    pool = elastic(timeline)
    work = Work(pool, timeline, 100.0)
    for number in range(50):
        work.add(number)
    timeline.run(until=10.0)
    assert dict(pool.curve()) == {0.0: 2, 1.0: 4, 2.0: 8, 3.0: 16}
    assert work.busiest == 16


def test_no_worker_is_spawned_for_nobody() -> None:
    timeline = EventTimeline()
    pool = elastic(timeline, low=4)
    work = Work(pool, timeline, 3.0)
    for number in range(6):
        work.add(number)
    timeline.run(until=2.0)
    assert pool.size() == 6
    assert work.begun[-2:] == [(4, 1.0), (5, 1.0)]


def test_idle_workers_end_at_their_time_down_to_the_minimum() -> None:
    timeline = EventTimeline()
    pool = elastic(timeline, spawn=0.5, idle=5.0)
    work = Work(pool, timeline, 1.0)
    for number in range(8):
        work.add(number)
    timeline.run()
    grown = pool.size()
    assert grown > 2
    timeline.run(until=100.0)
    assert pool.size() == 2
    curve = pool.curve()
    assert curve[-1][0] < 10.0
    assert all(before <= after for (before, _), (after, _) in pairwise(curve))
    assert all(abs(after - before) == 1 for (_, before), (_, after) in pairwise(curve))


def test_a_new_worker_has_a_number_of_its_own() -> None:
    timeline = EventTimeline()
    pool = elastic(timeline, low=1, idle=1.0)
    work = Work(pool, timeline, 1.0)
    for start in (0.0, 50.0):
        timeline.run(until=start)
        for number in range(3):
            work.add(number)
        timeline.run()
    assert len(set(work.workers)) == len(range(max(work.workers) + 1))
    assert pool.curve()[0] == (0.0, 1)


def test_the_latest_busy_worker_is_taken_first_so_that_the_others_can_end() -> None:
    timeline = EventTimeline()
    work = Work(elastic(timeline, low=3), timeline, 1.0)
    for when in (0.0, 2.0, 4.0):
        timeline.call_at(when, work.add, when)
    timeline.run()
    assert len(set(work.workers)) == 1


def test_a_spawned_worker_that_finds_nobody_waits_idle() -> None:
    timeline = EventTimeline()
    pool = elastic(timeline, low=1, spawn=1.0)
    work = Work(pool, timeline, 0.5)
    work.add("a")
    work.add("b")
    timeline.run()
    assert work.begun == [("a", 0.0), ("b", 0.5)]
    assert pool.size() == 2


def test_the_policy_decides_the_pool() -> None:
    timeline = EventTimeline()
    assert isinstance(make_pool(Capacity("fixed", 3), new_cache, timeline), FixedPool)
    assert isinstance(make_pool(Capacity("elastic", 0, 1, 2), new_cache, timeline), ElasticPool)
