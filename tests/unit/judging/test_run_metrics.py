import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging_samples import call, plain_run, run_of, task

from pytest_swarm.errors import SettingError
from pytest_swarm.judging.catalogue import COUNTED_OUTCOMES, DISTRIBUTIONS, SCALARS, TABLE_STATISTICS
from pytest_swarm.judging.metrics import RunMetrics
from pytest_swarm.judging.sla import parse_per_task
from pytest_swarm.records import CALL_OUTCOMES, TASK_STATUSES

RUN = run_of(
    tasks=[
        task(0, 0.5, 2.0, due=0.0),
        task(1, 0.5, 3.5, due=0.5),
        task(2, 2.0, 3.0, "failed"),
        task(3, 3.0, 4.5, due=2.0),
        task(4, 3.5, 4.0, "skipped"),
        task(5, 3.5, 9.0, "cancelled"),
        task(99, 0.0, 100.0, warmup=True),
    ],
    calls=[
        call(
            0,
            latency=1.2,
            attempt_latency=1.0,
            ttft=0.2,
            ttfo=0.4,
            tpot=0.02,
            queued=0.1,
            gaps=(0.1, 0.3),
            name="plan",
            input_tokens=100,
            output_tokens=10,
            cached_tokens=50,
            reasoning_tokens=4,
            cost=0.25,
            attempts=2,
        ),
        call(
            0,
            latency=0.2,
            attempt_latency=0.2,
            name="write",
            input_tokens=300,
            output_tokens=30,
            cached_tokens=0,
            reasoning_tokens=0,
            cost=0.5,
        ),
        call(
            1,
            "incomplete",
            latency=2.0,
            attempt_latency=2.0,
            ttft=0.6,
            ttfo=0.6,
            tpot=0.04,
            gaps=(0.2,),
            name="plan",
            input_tokens=200,
            output_tokens=20,
            cost=0.125,
        ),
        call(2, "rate_limited", attempts=3, status=429, cost=0.0, ttft=9.0, latency=9.0, name="plan"),
        call(3, "idle_timeout", cost=0.125, latency=9.0, input_tokens=1000, output_tokens=1),
        call(5, "cancelled", cost=0.0, latency=9.0),
        call(3, "other", cost=1000.0, latency=9.0, attempts=7),
        call(99, warmup=True, cost=1000.0, latency=99.0, ttft=99.0, gaps=(99.0,), input_tokens=9, output_tokens=9),
    ],
)


def value(metric, run=RUN, **more):
    return RunMetrics(run, **more).observe(metric).value


def reason(metric, run, **more):
    seen = RunMetrics(run, **more).observe(metric)
    assert seen.value is None
    return seen.reason


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        # Passed tasks 0, 1 and 3 took 1.5, 3.0 and 1.5 s, and 2.0, 3.0 and 2.5 s from when they were due.
        ("latency.p50", 1.5),
        ("latency.max", 3.0),
        ("latency.min", 1.5),
        ("latency.mean", 2.0),
        ("latency.sum", 6.0),
        ("latency.count", 3),
        ("latency.stdev", math.sqrt(0.75)),
        ("user_latency.p50", 2.5),
        ("user_latency.max", 3.0),
        # Calls that ended ok or incomplete: 1.2, 0.2 and 2.0 s.
        ("call_latency.p50", 1.2),
        ("call_latency.count", 3),
        ("call_latency[plan].mean", 1.6),
        ("attempt_latency.max", 2.0),
        ("attempt_latency.p50", 1.0),
        ("ttft.mean", 0.4),
        ("ttft[plan].p100", 0.6),
        ("ttft[write].count", 0),
        ("ttfo.min", 0.4),
        ("tpot.mean", 0.03),
        ("itl.p50", 0.2),
        ("itl[plan].count", 3),
        ("queued.max", 0.1),
        ("queued.count", 3),
        # Tokens of passed tasks: task 0 made two calls; what task 3's failed call told counts as well.
        ("input_tokens.p50", 400),
        ("input_tokens.max", 1000),
        ("output_tokens.sum", 61),
        ("cached_tokens.max", 50),
        ("cached_tokens.count", 1),
        ("reasoning_tokens.mean", 4),
        # Four tasks count: 4 s from 0.5 to 4.5.
        ("tasks", 4),
        ("success_rate", 0.75),
        ("error_rate", 0.25),
        ("throughput", 0.75),
        ("output_token_rate", 60 / 4.0),
        # Six calls, eleven attempts less the ones of no model call; the cancelled one says nothing about success.
        ("calls", 6),
        ("attempts", 9),
        ("retries", 3),
        ("call_success_rate", 3 / 5),
        ("call_success_rate[plan]", 2 / 3),
        ("errors.rate_limited", 1),
        ("errors.incomplete", 1),
        ("errors.cancelled", 1),
        ("errors.server_error", 0),
        ("cache_hit_rate", 50 / 400),
        ("cost", 1.0),
        ("cost_per_task", 0.25),
        ("cost_per_100", 25.0),
    ],
)
def test_a_figure_worked_out_by_hand(metric, expected):
    assert value(metric) == pytest.approx(expected, rel=1e-12)


def test_a_text_that_is_no_metric_is_refused():
    with pytest.raises(SettingError, match="did you mean 'latency'"):
        RunMetrics(RUN).observe("latncy.p99")


def test_the_table_has_always_the_same_keys_and_no_number_that_json_lacks():
    fixed = {f"{name}.{statistic}" for name in DISTRIBUTIONS for statistic in TABLE_STATISTICS}
    fixed |= set(SCALARS) | {f"errors.{outcome}" for outcome in COUNTED_OUTCOMES}
    empty, full = RunMetrics(run_of([])).table(), RunMetrics(RUN).table()
    assert list(empty) == list(full)
    assert set(full) == fixed
    assert empty["latency.p99"] is None
    assert empty["calls"] == 0
    assert full["latency.p50"] == 1.5
    own = RunMetrics(run_of([], numbers={"score": array("d", [3.0, 1.0])}, checks={"grounded": [1, 4]})).table()
    assert list(own)[len(fixed) :] == [f"my.score.{statistic}" for statistic in TABLE_STATISTICS] + ["check.grounded"]
    assert (own["my.score.max"], own["my.score.mean"], own["check.grounded"]) == (3.0, 2.0, 0.25)


@given(
    st.lists(st.tuples(st.sampled_from(TASK_STATUSES), st.floats(0, 9), st.floats(0, 9), st.booleans()), max_size=12),
    st.lists(
        st.tuples(
            st.sampled_from(CALL_OUTCOMES), st.none() | st.floats(0, 9), st.none() | st.integers(0, 9), st.booleans()
        ),
        max_size=12,
    ),
)
def test_whatever_happened_a_figure_is_finite_or_has_a_reason(tasks, calls):
    run = run_of(
        [task(i, start, start + took, status, warmup=warm) for i, (status, start, took, warm) in enumerate(tasks)],
        [
            call(i, outcome, latency=seconds, ttft=seconds, input_tokens=tokens, output_tokens=tokens, warmup=warm)
            for i, (outcome, seconds, tokens, warm) in enumerate(calls)
        ],
    )
    metrics = RunMetrics(run, [parse_per_task("latency < 3s")])
    for name in metrics.table():
        seen = metrics.observe(name)
        assert (seen.value is None) == bool(seen.reason)
        assert seen.value is None or math.isfinite(seen.value)


# --- steady throughput ---


def test_steady_throughput_leaves_start_and_drain_out():
    # One lane, a task a second: the first of ten ends at 1, the last starts at 9; tasks that end at 2..9 are inside.
    assert value("steady_throughput", plain_run(["passed"] * 10)) == 1.0
    # Tasks 3 and 4 (ends 4 and 5) failed.
    assert value("steady_throughput", plain_run(["passed"] * 3 + ["failed"] * 2 + ["passed"] * 5)) == 6 / 8
    # Of eleven the first tenth is two tasks: 2..10, with 8 ends inside.
    assert value("steady_throughput", plain_run(["passed"] * 11)) == 1.0


def test_steady_throughput_does_not_depend_on_the_drain():
    run = plain_run(["passed"] * 20)
    run.tasks.append(task(20, 19.0, 500.0), [])
    # Twenty-one: the first tenth is three tasks, ended at 3; the last start is at 19.
    assert value("steady_throughput", run) == 1.0
    assert value("throughput", run) == 21 / 500


def test_without_a_steady_state_there_is_no_steady_throughput():
    assert "needs 10 tasks or more, and there are 9" in reason("steady_throughput", plain_run(["passed"] * 9))
    burst = run_of([task(i, 0.0, 1.0 + i) for i in range(20)])
    assert "all tasks had started before the first tenth had ended" in reason("steady_throughput", burst)


# --- goodput ---


GOOD = run_of(
    [task(0, 0, 1), task(1, 0, 3), task(2, 0, 2, "failed"), task(3, 0, 2), task(4, 0, 4), task(5, 0, 1, "skipped")],
    [
        call(0, ttft=0.1, json_status="valid"),
        call(0, ttft=0.9, json_status="schema_invalid"),
        call(1, ttft=0.2, json_status="valid"),
        call(2, ttft=0.2, json_status="valid"),
        call(3, json_status="invalid"),
        call(4, ttft=0.3),
    ],
)


@pytest.mark.parametrize(
    ("bounds", "good"),
    [
        (["latency < 3s"], 2),
        (["latency <= 3s"], 3),
        (["ttft < 500ms"], 2),
        (["json valid"], 2),
        (["schema valid"], 1),
        (["latency < 3s", "json valid"], 1),
        (["latency < 3s", "ttft < 500ms", "json valid"], 0),
    ],
)
def test_goodput_counts_passed_tasks_that_met_every_bound(bounds, good):
    per_task = [parse_per_task(bound) for bound in bounds]
    assert value("goodput_rate", GOOD, per_task=per_task) == good / 5
    assert value("goodput", GOOD, per_task=per_task) == good / 4.0


def test_goodput_that_cannot_be_told():
    plain = run_of([task(0, 0, 1)], [call(0)])
    assert "nothing says what a good task is" in reason("goodput", plain)
    assert "no call was streamed, so 'ttft < 1s'" in reason("goodput", plain, per_task=[parse_per_task("ttft < 1s")])
    assert "add json_output(...)" in reason("goodput_rate", plain, per_task=[parse_per_task("json valid")])
    latency = [parse_per_task("latency < 1s")]
    assert "no task was finished" in reason("goodput_rate", run_of([]), per_task=latency)


@pytest.mark.parametrize("bound", ["json valid", "ttft < 1s", "latency < 1s"])
def test_where_nothing_passed_nothing_was_good(bound):
    assert value("goodput_rate", plain_run(["failed"] * 2), per_task=[parse_per_task(bound)]) == 0.0


# --- JSON ---


def test_json_rates_are_over_every_checked_2xx_reply_but_tool_calls():
    run = run_of(
        [task(0, 0, 1)],
        [
            call(json_status="valid", name="plan"),
            call(json_status="valid"),
            call(json_status="schema_invalid", name="plan"),
            call(json_status="invalid"),
            call(outcome="incomplete", json_status="truncated"),
            call(outcome="refusal", json_status="empty", name="plan"),
            call(json_status="empty", finish_reason="tool_calls"),
            call(outcome="server_error", status=500, json_status="invalid"),
            call(json_status=None),
            call(json_status="invalid", warmup=True),
        ],
    )
    assert value("json_valid_rate", run) == 3 / 6
    assert value("schema_valid_rate", run) == 2 / 6
    assert value("json_valid_rate[plan]", run) == 2 / 3
    assert value("schema_valid_rate[plan]", run) == 1 / 3


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        ([], "no data: no model call was made"),
        ([call(outcome="server_error", status=500)], "no data: no call got a reply with a 2xx status"),
        (
            [call(json_status="empty", finish_reason="tool_calls")],
            "no data: all replies to be checked as JSON were tool calls",
        ),
        ([call()], "no data: no reply was checked as JSON; add json_output(...) to the test"),
    ],
)
def test_json_rates_without_replies_say_why(calls, why):
    assert reason("json_valid_rate", run_of([task(0, 0, 1)], calls)) == why
    assert reason("schema_valid_rate", run_of([task(0, 0, 1)], calls)) == why


# --- no data is never a pass ---


@pytest.mark.parametrize(
    ("statuses", "why"),
    [
        ([], "no data: no task was finished"),
        (["failed"] * 20, "no data: all 20 tasks failed"),
        (["timeout"], "no data: the only task timed out"),
        (["skipped"] * 2, "no data: all 2 tasks were skipped"),
        (["skipped"], "no data: the only task was skipped"),
        (["cancelled"] * 3, "no data: all 3 tasks were cancelled"),
        (["json_invalid"] * 2, "no data: all 2 tasks got invalid JSON"),
        (["failed", "timeout", "failed"], "no data: none of 3 tasks passed (2 failed, 1 timeout)"),
        (["skipped", "cancelled"], "no data: none of 2 tasks passed (1 skipped, 1 cancelled)"),
    ],
)
def test_without_a_passed_task_there_is_no_latency(statuses, why):
    run = plain_run(statuses)
    assert reason("latency.p99", run) == why
    assert reason("input_tokens.mean", run) == why
    assert value("latency.count", run) == 0


@pytest.mark.parametrize("metric", ["success_rate", "error_rate", "throughput", "output_token_rate", "cost_per_task"])
def test_without_a_task_that_counts_there_is_no_rate(metric):
    run = run_of([task(i, 0, 1, "skipped") for i in range(2)], [call(cost=0.1, output_tokens=1)])
    assert reason(metric, run) == "no data: all 2 tasks were skipped"


def test_where_all_tasks_failed_the_rates_are_known():
    run = plain_run(["failed"] * 4)
    assert (value("success_rate", run), value("error_rate", run), value("throughput", run)) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("metric", "calls", "why"),
    [
        ("ttft.p95", [], "no data: no model call was made"),
        ("call_success_rate", [], "no data: no model call was made"),
        ("cache_hit_rate", [], "no data: no model call was made"),
        ("cost", [], "no data: no model call was made"),
        ("output_token_rate", [], "no data: no model call was made"),
        ("input_tokens.mean", [], "no data: no task made a model call, so there are no input_tokens"),
        ("input_tokens.mean", [call()], "no data: no task knows its input_tokens, since replies did not tell them"),
        ("ttft.p95", [call(latency=1)], "no data: no call was streamed, so there is no ttft"),
        ("itl.p95", [call(latency=1)], "no data: no call was streamed, so there is no itl"),
        ("itl.p95", [call(ttft=1)], "no data: no streamed reply had what itl is made of"),
        (
            "call_latency.p95",
            [call()],
            "no data: no call knows its call_latency; were the calls recorded without their timing?",
        ),
        (
            "ttft.p95",
            [call(outcome="rate_limited"), call(outcome="rate_limited"), call(outcome="empty")],
            "no data: no call ended ok or incomplete (2 rate_limited, 1 empty)",
        ),
        ("ttft[plan].p95", [call(ttft=1)], "no data: no call was named 'plan', no call has a name"),
        (
            "ttft[plan].p95",
            [call(ttft=1, name="plans"), call(ttft=1, name="act"), call(ttft=1)],
            "no data: no call was named 'plan'; names are act, plans; did you mean 'plans'?",
        ),
        ("call_success_rate[plan]", [call()], "no data: no call was named 'plan', no call has a name"),
        (
            "call_success_rate",
            [call(outcome="cancelled")],
            "no data: all calls were cancelled or stopped by the budget",
        ),
        ("cache_hit_rate", [call(input_tokens=5)], "no data: no reply told its cached tokens"),
        (
            "output_token_rate",
            [call(output_tokens=5), call()],
            "no data: 1 of 2 replies did not tell their output tokens",
        ),
        ("my.score.mean", [], "no data: nothing was recorded as 'score'; did you mean 'scores'?"),
        ("my.scores.stdev", [], "a standard deviation needs two values, and there is one"),
        ("my.holes.mean", [], "the figure is not a finite number"),
        ("my.huge.mean", [], "the figure is not a finite number"),
        ("check.ground", [], "no data: nothing was checked as 'ground'; did you mean 'grounded'?"),
        ("check.grounded", [], "no data: nothing was checked as 'grounded'; did you mean 'grounded'?"),
    ],
)
def test_a_figure_without_data_says_why(metric, calls, why):
    numbers = {"scores": array("d", [1.0]), "holes": array("d", [math.inf, 1.0]), "huge": array("d", [1.7e308] * 2)}
    run = run_of([task(0, 0, 1)], calls, numbers=numbers, checks={"grounded": [0, 0]})
    assert reason(metric, run) == why


def test_tasks_that_took_no_time_have_no_throughput():
    assert reason("throughput", run_of([task(0, 1.0, 1.0)])) == "no data: the tasks took no time"


# --- cost ---


@pytest.mark.parametrize("outcome", CALL_OUTCOMES)
@pytest.mark.parametrize("sent", [0.0, None])
def test_a_cost_is_unknown_when_the_call_may_have_been_billed(outcome, sent):
    run = run_of([task(0, 0, 1)], [call(cost=0.5), call(outcome=outcome, sent=sent, cost=None)])
    free = outcome in {
        *("rate_limited", "quota_exhausted", "client_error", "server_error"),
        *("connect_error", "tls_error", "pool_timeout", "connect_timeout", "budget", "other"),
    }
    replied = outcome in {"ok", "incomplete", "content_filter", "refusal"}
    known = free or (sent is None and not replied)
    assert value("cost", run) == (0.5 if known else None)


def test_a_refusal_after_a_retry_may_have_been_billed_before():
    run = run_of([task(0, 0, 1)], [call(outcome="rate_limited", attempts=2)])
    assert reason("cost", run) == "cost unknown (1 call)"
    assert value("cost", run_of([task(0, 0, 1)], [call(outcome="rate_limited", attempts=2, cost=0.0)])) == 0.0


def test_an_unknown_cost_says_every_reason_and_how_many_calls_it_holds_for():
    added = "no price for model 'x/y': add [tool.pytest_swarm.prices.\"x/y\"]"
    silent = "the reply told no usage for model 'm' (outcome idle_timeout)"
    run = run_of(
        [task(0, 0, 1)],
        [
            call(cost=1.0),
            call(cost_reason=silent, outcome="idle_timeout"),
            call(cost_reason=added),
            call(cost_reason=added),
        ],
    )
    assert reason("cost_per_100", run) == reason("cost", run) == f"{added} (2 calls); {silent} (1 call)"
