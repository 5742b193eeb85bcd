"""Which task starts when, told by hand: closed loops, stages, open loops with a backlog."""

from __future__ import annotations

import math
from itertools import count, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_swarm.columns import RunResult
from pytest_swarm.records import Arrival
from pytest_swarm.swarm.caps import FixedCap, SteppedCap, steps_of
from pytest_swarm.swarm.plan import Plan
from pytest_swarm.swarm.release import ClosedLoop, OpenLoop, Release, arrivals_of, phases
from pytest_swarm.values import Stage


def open_loop(
    *due: float, cap: float = math.inf, backlog: int | None = None, end: float = math.inf
) -> tuple[OpenLoop, RunResult]:
    run = RunResult(0)
    releases = iter([Release(index, False, at) for index, at in enumerate(due)])
    return OpenLoop(releases, FixedCap(cap), run, backlog=backlog, end=end), run


def taken(loop: OpenLoop | ClosedLoop, now: float, running: int) -> list[int]:
    """Indices of what starts now."""
    loop.advance(now, running)
    found = []
    while (release := loop.take(now, running + len(found))) is not None:
        found.append(release.index)
    return found


def test_a_closed_loop_gives_what_a_lane_is_free_for() -> None:
    loop = ClosedLoop(((index, False) for index in range(3)), FixedCap(2))
    assert taken(loop, 5.0, 0) == [0, 1]
    assert loop.next_time() is None
    release = loop.take(6.5, 1)
    assert release == Release(2, False, 6.5)
    assert loop.take(7.0, 0) is None


def test_nothing_starts_in_a_closed_loop_when_its_time_is_over() -> None:
    loop = ClosedLoop(((index, False) for index in count()), FixedCap(2), end=10.0)
    assert taken(loop, 9.9, 1) == [0]
    assert taken(loop, 10.0, 0) == []


def test_stages_open_and_close_lanes() -> None:
    cap = SteppedCap(
        steps_of([Stage(4, 2, "concurrency"), Stage(1, 2, "concurrency"), Stage(2, 1, "concurrency")]), 100
    )
    loop = ClosedLoop(((index, False) for index in count()), cap, end=107)
    assert taken(loop, 100, 0) == [0]
    assert loop.next_time() == 102
    assert taken(loop, 101.9, 1) == []
    assert taken(loop, 102, 1) == [1]
    assert loop.next_time() == 107
    assert taken(loop, 106, 1) == [2]
    assert loop.take(107, 1) is None


def test_stages_end_with_their_tasks() -> None:
    cap = SteppedCap(steps_of([Stage(4, 4, "concurrency")]), 0)
    loop = ClosedLoop(iter([(0, False)]), cap)
    assert taken(loop, 2, 0) == [0]
    assert loop.next_time() is None


TARGETS = st.lists(st.tuples(st.floats(0.1, 60), st.integers(1, 50)), min_size=1, max_size=4)


@example([(1.0, 14), (40.09033158844657, 1), (1.0, 2)])
@given(TARGETS)
def test_steps_ascend_one_lane_at_a_time_and_reach_every_target(pairs: list[tuple[float, int]]) -> None:
    stages = [Stage(seconds, target, "concurrency") for seconds, target in pairs]
    steps = steps_of(stages)
    assert steps[0] == (0.0, 1)
    assert all(before[0] <= after[0] for before, after in pairwise(steps))
    assert all(abs(before[1] - after[1]) == 1 for before, after in pairwise(steps))
    end = 0.0
    for stage in stages:
        end += stage.seconds
        # The next stage may open its first lane at the same time.
        assert stage.target in [lanes for at, lanes in steps if at <= end + 1e-9][-2:]


def test_never_more_than_the_ceiling_above_the_stages() -> None:
    cap = SteppedCap(steps_of([Stage(1, 9, "concurrency")]), 0, highest=4)
    cap.advance(1)
    assert cap.limit == 4


def test_an_open_loop_starts_what_is_due_and_nothing_before() -> None:
    loop, run = open_loop(1.0, 2.0, 2.0)
    assert taken(loop, 0.5, 0) == []
    assert loop.next_time() == 1.0
    assert taken(loop, 1.0, 0) == [0]
    assert taken(loop, 2.5, 1) == [1, 2]
    assert loop.next_time() is None
    assert (run.backlogged, run.backlog_max, list(loop.left(9))) == (0, 0, [])


def test_above_the_cap_tasks_wait_in_their_order_and_keep_their_due_time() -> None:
    loop, run = open_loop(1.0, 2.0, 3.0, 4.0, cap=1)
    assert taken(loop, 1.0, 0) == [0]
    assert taken(loop, 3.0, 1) == []
    release = loop.take(3.5, 0)
    assert release is not None
    assert (release.index, release.due) == (1, 2.0)
    # One that becomes due stands behind those that wait, even where a lane is free.
    assert taken(loop, 4.0, 0) == [2]
    assert (run.backlogged, run.backlog_max) == (3, 2)


def test_what_the_backlog_has_no_room_for_is_shed_once() -> None:
    loop, run = open_loop(1.0, 1.1, 1.2, 1.3, 1.4, cap=1, backlog=2)
    assert taken(loop, 1.5, 0) == [0]
    shed = list(loop.left(1.5))
    assert [release.index for release, _ in shed] == [3, 4]
    assert {reason for _, reason in shed} == {"shed: 2 tasks were waiting already, as the backlog allows"}
    assert list(loop.left(1.6)) == []
    assert (run.backlogged, run.backlog_max) == (2, 2)


def test_without_a_backlog_only_a_free_lane_takes_a_task() -> None:
    loop, run = open_loop(1.0, 1.1, 2.0, cap=1, backlog=0)
    assert taken(loop, 1.0, 0) == [0]
    assert taken(loop, 1.1, 1) == []
    assert [release.index for release, _ in loop.left(1.1)] == [1]
    assert taken(loop, 2.0, 0) == [2]
    assert run.backlogged == 0


def test_what_still_waits_when_the_time_is_over_is_shed() -> None:
    loop, _ = open_loop(1.0, 2.0, 9.9999, cap=1, end=10.0)
    assert taken(loop, 1.0, 0) == [0]
    assert taken(loop, 9.9999, 1) == []
    assert list(loop.left(9.9999)) == []
    assert loop.take(10.0, 0) is None
    assert [(release.index, reason) for release, reason in loop.left(10.0)] == [
        (1, "shed: it was still waiting when the time of the plan was over"),
        (2, "shed: it was still waiting when the time of the plan was over"),
    ]


def test_a_task_whose_timer_is_late_starts_although_the_time_is_over() -> None:
    loop, _ = open_loop(9.9999, cap=1, end=10.0)
    assert taken(loop, 10.0002, 0) == [0]


def test_warm_up_is_counted_in_no_wait() -> None:
    run = RunResult(0)
    loop = OpenLoop(iter([Release(0, True, 0.0), Release(1, True, 0.0), Release(0, False, 0.0)]), FixedCap(1), run)
    assert loop.take(0.0, 0) is None
    loop.advance(0.0, 0)
    assert (run.backlogged, run.backlog_max) == (1, 2)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (Plan(tasks=3, concurrency=None, rate=2.0, arrival="constant"), [0.0, 0.5, 1.0]),
        (Plan(tasks=3, concurrency=None, rate=2.0, arrival="constant", duration=1.0), [0.0, 0.5]),
        (Plan(tasks=2, concurrency=None, rate=2.0, arrival="constant", warmup=1), [0.0, 0.5, 1.0]),
        (Plan(tasks=None, concurrency=None, trace=(Arrival(0.5), Arrival(2.0)), duration=2.0), [0.5]),
        (Plan(tasks=1, concurrency=None, trace=(Arrival(0.5), Arrival(2.0))), [0.5]),
        (Plan(tasks=None, concurrency=None, stages=(Stage(2, 2.0, "rate"),), arrival="constant"), [0.0, math.sqrt(2)]),
    ],
)
def test_arrivals_end_with_the_tasks_or_the_time(plan: Plan, expected: list[float]) -> None:
    assert [arrival.offset for arrival in arrivals_of(plan, 0)] == pytest.approx(expected)


def test_runs_of_a_repeat_have_schedules_of_their_own_and_other_plans_have_the_same() -> None:
    plan = Plan(tasks=5, concurrency=None, rate=2.0, seed=3)
    assert list(arrivals_of(plan, 0)) == list(arrivals_of(plan, 0))
    assert list(arrivals_of(plan, 0)) != list(arrivals_of(plan, 1))


def released(plan: Plan, seconds: int = 100) -> list[list[Release]]:
    """What each phase gives when every task ends at once."""
    found = []
    for begin in phases(plan, RunResult(0)):
        loop, inside = begin(0.0), []
        for now in range(seconds):
            loop.advance(float(now), 0)
            while len(inside) < 100 and (release := loop.take(float(now), 0)) is not None:
                inside.append(release)
        found.append(inside)
    return found


def test_a_closed_loop_of_fixed_size_warms_up_in_a_phase_of_its_own() -> None:
    first, second = released(Plan(tasks=3, concurrency=2, warmup=2))
    assert [(one.index, one.warmup) for one in first] == [(0, True), (1, True)]
    assert [(one.index, one.warmup) for one in second] == [(0, False), (1, False), (2, False)]


@pytest.mark.parametrize(
    "plan",
    [
        Plan(tasks=2, concurrency=None, rate=1.0, warmup=1),
        Plan(tasks=2, concurrency=None, stages=(Stage(9, 3, "concurrency"),), warmup=1),
        Plan(tasks=2, concurrency=(1, 4), warmup=1),
        Plan(tasks=2, concurrency=None, trace=(Arrival(0), Arrival(1), Arrival(2), Arrival(3)), warmup=1),
    ],
)
def test_elsewhere_the_first_tasks_warm_up(plan: Plan) -> None:
    (only,) = released(plan)
    assert [(one.index, one.warmup) for one in only] == [(0, True), (0, False), (1, False)]


def test_the_row_of_a_trace_is_with_its_task() -> None:
    rows = (Arrival(0.0, 5, 6), Arrival(1.0, 7, 8))
    (only,) = released(Plan(tasks=None, concurrency=None, trace=rows))
    assert [one.arrival for one in only] == list(rows)
    (other,) = released(Plan(tasks=2, concurrency=None, rate=1.0))
    assert [one.arrival for one in other] == [None, None]
