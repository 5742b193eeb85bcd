from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging_samples import call, run_of, swarm_of, task

from pytest_swarm.judging.curtailment import Curtailment
from pytest_swarm.judging.sla import parse
from pytest_swarm.judging.verdict import judge

LINES = [
    "success_rate >= 80%",
    "error_rate < 10%",
    "p50 < 2s",
    "p95 <= 3s",
    "latency.max < 4s",
    "user_latency.p90 < 3s",
    "calls <= 12",
    "cost < $1",
    "errors.server_error <= 2",
]


def watching(*lines, tasks):
    return Curtailment([replace(parse(line), abort=True) for line in lines], tasks)


def test_a_rate_is_given_up_with_the_first_failure_too_many():
    watched = watching("success_rate >= 90%", tasks=100)
    told = [watched.task_ended(task(i, 0, 1, "failed")) for i in range(11)]
    assert told[:10] == [None] * 10
    assert told[10] == (
        "decided after 11 of 100 tasks: success_rate >= 90% can no longer be met; 89 tasks were not finished"
    )


def test_skipped_tasks_warm_up_and_tasks_that_run_again_decide_nothing():
    watched = watching("success_rate >= 100%", tasks=10)
    for row in (task(0, 0, 1, "skipped"), replace(task(1, 0, 1, "failed"), warmup=True)):
        assert watched.task_ended(row) is None
    assert watched.task_ended(replace(task(2, 0, 1, "failed"), rescheduled=True)) is None
    assert watched.task_ended(task(2, 0, 1, "failed")) is not None


def test_what_the_rest_would_have_cost_is_told():
    watched = watching("latency.max < 2s", tasks=4)
    assert watched.call_ended(call(0, cost=0.5)) is None
    told = watched.task_ended(task(0, 0, 3))
    assert told.endswith("latency.max < 2s can no longer be met; 3 tasks were not finished, which saves some $1.5")


def test_a_cost_that_somebody_does_not_know_is_not_decided_early():
    watched = watching("cost < $1", tasks=4)
    assert watched.call_ended(call(0, cost=None)) is None
    assert watched.call_ended(call(1, cost=5.0)) is None


@pytest.mark.parametrize(
    "line", ["throughput > 1/s", "latency.mean < 1s", "p50 > 1s", "success_rate < 50%", "ttft.p50 < 1s"]
)
def test_levels_that_may_still_be_met_to_the_end_are_left_alone(line):
    watched = watching(line, tasks=2)
    assert watched.task_ended(task(0, 0, 100, "failed")) is None
    assert watched.task_ended(task(1, 0, 100)) is None


def test_without_abort_nothing_is_watched():
    watched = Curtailment([parse("success_rate >= 100%")], 10)
    assert watched.task_ended(task(0, 0, 1, "failed")) is None


outcomes = st.tuples(
    st.sampled_from(["passed", "passed", "passed", "failed", "skipped", "timeout"]),
    st.floats(0.1, 5),
    st.floats(0, 0.2),
    st.sampled_from(["ok", "ok", "ok", "server_error"]),
)


@given(st.lists(outcomes, min_size=1, max_size=25), st.sampled_from(LINES))
def test_a_level_that_was_given_up_fails_in_the_part_that_ran_and_in_the_whole(drawn, line):
    tasks = [task(i, 0, length, status) for i, (status, length, _, _) in enumerate(drawn)]
    calls = [call(i, cost=cost, outcome=outcome) for i, (_, _, cost, outcome) in enumerate(drawn)]
    watched = watching(line, tasks=len(drawn))

    def verdict(many):
        run = run_of(tasks[:many], calls[:many])
        lines = judge(swarm_of(run), [parse(line)]).lines
        return lines[0].verdict if lines else "skipped"

    for many, (row, made) in enumerate(zip(tasks, calls, strict=True), 1):
        if watched.call_ended(made) or watched.task_ended(row):
            assert verdict(many) == "fail"
            assert verdict(len(drawn)) == "fail"
            return
    if "cost" not in line:
        assert verdict(len(drawn)) != "fail", "when the last task has ended, every level that failed is given up"
