"""What is told of the release of load: after a run, and of a plan before it."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_swarm.columns import LimitStep, RunResult
from pytest_swarm.records import Task
from pytest_swarm.reports.load import load_items, load_of, plan_items, settled_items
from pytest_swarm.reports.planned import planned_lines
from pytest_swarm.swarm.plan import Plan
from pytest_swarm.swarm.preview import preview
from pytest_swarm.values import Stage


def run(limits: list[LimitStep] | None = None, starts: list[float] | None = None, **counts: int) -> dict[str, Any]:
    """The part of a run's record that is read."""
    found = RunResult(0, limits=limits or [], **counts)
    for index, start in enumerate(starts or []):
        found.tasks.append(Task(index, 0, False, "passed", start, start, start + 1), [])
    return {"load": load_of(found)}


def test_a_run_in_which_all_started_when_due_and_once_needs_no_line() -> None:
    assert load_items([run()]) == settled_items([run()]) == settled_items([]) == []


def test_counts_are_summed_over_runs_and_the_longest_backlog_is_told() -> None:
    runs = [run(backlogged=2, backlog_max=2), run(backlogged=1, backlog_max=1, shed=1, rescheduled=1)]
    assert load_items(runs) == [
        "3 tasks waited, 2 at most at a time",
        "1 task shed: due and never started",
        "1 failed task run again",
    ]


STEPS = [
    LimitStep(0.0, 8, None, None),
    LimitStep(10.0, 16, 8.0, 1.0),
    LimitStep(20.0, 16, 15.0, 1.1),
    LimitStep(30.0, 8, None, None),
]


@pytest.mark.parametrize(
    ("starts", "settled", "told"),
    [
        ([1, 2, 3, 12, 22, 31], {"limit": 16, "throughput": 15.0, "latency": 1.1}, "15/s at a mean of 1.10s"),
        ([1, 31, 32, 33], {"limit": 8, "throughput": 8.0, "latency": 1.0}, "8/s at a mean of 1.00s"),
    ],
)
def test_an_adaptive_concurrency_settled_where_the_second_half_started(
    starts: list[float], settled: dict[str, float], told: str
) -> None:
    found = run(STEPS, starts)
    assert found["load"]["settled"] == settled
    assert settled_items([found]) == ["8 16 8", f"settled at {settled['limit']}", told]


def test_where_nothing_was_judged_only_the_start_is_told() -> None:
    found = run(STEPS[:1])
    assert found["load"]["settled"] == {"limit": 8, "throughput": None, "latency": None}
    assert settled_items([found]) == ["8", "settled at 8"]


def test_many_steps_are_cut() -> None:
    steps = [LimitStep(float(number), number + 1, None, None) for number in range(20)]
    assert settled_items([run(steps)])[0] == "1 2 3 4 5 6 7 8 ..."


@pytest.mark.parametrize(
    ("plan", "reached", "items"),
    [
        (Plan(tasks=5, concurrency=9), 5, ["5 tasks", "5 in flight: tasks=5 (5 reached)"]),
        (Plan(tasks=5, concurrency=(2, 4)), None, ["5 tasks", "2..4 in flight"]),
        (
            Plan(tasks=None, concurrency=3, rate=2.0, duration=5.0, arrival="bursty", backlog=1000, reschedule=1),
            3,
            [
                "2/s",
                "bursty",
                "for 5s",
                "3 in flight (3 reached)",
                "1,000 may wait",
                "failed tasks run again 1 time at most",
            ],
        ),
        (
            Plan(tasks=None, concurrency=None, stages=(Stage(5, 4, "concurrency"),), repeat=2, warmup=1),
            4,
            ["5s to 4", "4 in flight reached", "1 to warm up", "2 runs"],
        ),
        (Plan(tasks=5, concurrency=None, rate=2.0), None, ["5 tasks", "2/s", "any number in flight"]),
    ],
)
def test_a_plan_is_told_before_and_after(plan: Plan, reached: int | None, items: list[str]) -> None:
    assert plan_items(plan.to_dict(), reached) == items


def lines(plan: Plan, width: int = 80) -> list[str]:
    planned = {"nodeid": "test_a.py::test_b", "source": ["simulated gateway"], "note": "", "preview": preview(plan)}
    found = [line.text for line in planned_lines(planned, width)]
    assert max(map(len, found)) <= width
    return [" ".join(line.split()) for line in found]


def test_a_preview_counts_what_falls_due_in_each_stage() -> None:
    plan = Plan(
        tasks=None,
        concurrency=None,
        arrival="constant",
        warmup=5,
        stages=(Stage(10, 4.0, "rate"), Stage(10, 4.0, "rate")),
    )
    assert lines(plan)[-4:] == [
        "release 55 tasks no start after 20s",
        "first due at 0.000, 2.236, 3.162, 3.873, 4.472 s last at 19.750 s",
        "stages 0s to 10s 0/s to 4/s 20 tasks",
        "10s to 20s 4/s to 4/s 40 tasks",
    ]


def test_a_schedule_without_an_arrival_is_said_to_be_empty() -> None:
    plan = Plan(tasks=None, concurrency=None, rate=0.001, duration=1.0)
    assert preview(plan)["last"] is None
    assert lines(plan)[3:] == ["release 0 tasks no start after 1s"]


def test_a_closed_loop_has_no_due_times() -> None:
    assert lines(Plan(tasks=None, concurrency=4, duration=9.0))[3:] == [
        "release no start after 9s the next when one has ended"
    ]
