"""Lines that the testing process has distorted are not told; what is missed or met all the same is."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging_samples import plain_run, swarm_of

from pytest_swarm.columns import Audit
from pytest_swarm.judging.distortion import allowance
from pytest_swarm.judging.sla import parse
from pytest_swarm.judging.verdict import judge


def audit(lag=0.0, *, late=None, undelivered=None, threads=False, blocked_at=None):
    """Of a process that is late by `lag` at every moment, and starts tasks `late`."""
    lates = array("d", [] if late is None else [late])
    return Audit(array("d", [lag] * 10), lates, undelivered, 1.0, threads, blocked_at)


def line_of(expression, *audits, seconds=1.0, due_before=0.0):
    """A line about runs of ten tasks that take `seconds` each."""
    runs = [plain_run(["passed"] * 10, index, seconds, audit=one) for index, one in enumerate(audits)]
    for run in runs:
        run.tasks.due = array("d", (start - due_before for start in run.tasks.start))
    (line,) = judge(swarm_of(*runs), [parse(expression)]).lines
    return line


def verdict_of(*args, **more):
    return line_of(*args, **more).verdict


def test_a_process_that_was_in_time_changes_nothing():
    assert verdict_of("p99 < 2s", audit(0.001)) == "pass"
    assert verdict_of("p99 < 500ms", audit(0.001)) == "fail"


def test_the_virtual_clock_has_no_audit_and_nothing_to_doubt():
    assert verdict_of("p99 < 2s", None) == "pass"


def test_a_level_that_was_met_is_not_told_by_a_process_that_was_late_by_more_than_a_tenth_of_it():
    assert verdict_of("p99 < 2s", audit(0.19)) == "pass"
    assert verdict_of("p99 < 2s", audit(0.21)) == "invalid"


def test_a_level_missed_by_less_than_the_lag_is_not_told_and_one_missed_by_more_is_missed():
    assert verdict_of("p99 < 900ms", audit(0.3)) == "invalid"
    assert verdict_of("p99 < 500ms", audit(0.3)) == "fail"


def test_a_miss_that_the_lag_explains_counts_where_the_lag_is_small():
    assert verdict_of("p99 < 980ms", audit(0.09)) == "fail"


def test_the_reason_tells_the_lag_what_is_allowed_and_what_to_do():
    line = line_of("p99 < 2s", audit(0.4, blocked_at="test_it.py:12 in test_it"))
    assert line.reason == (
        "latency.p99 < 2s: the event loop of the test was 400ms late itself at its p99, more than the 200ms that a"
        " level of 2s allows; it was blocked at test_it.py:12 in test_it: await there, or move the work away with"
        " asyncio.to_thread"
    )
    unknown = line_of("p99 < 2s", audit(1.5)).reason
    assert unknown.endswith(
        "was 1.5s late itself at its p99, more than the 200ms that a level of 2s allows; plan a lower rate or fewer"
        " tasks in flight, or run it on a faster machine"
    )
    threads = line_of("p99 < 2s", audit(0.4, threads=True)).reason
    assert "the process of the test was 400ms late itself" in threads
    assert "; make the body async, plan a lower rate" in threads


def test_each_statistic_is_held_against_its_own():
    one_in_twenty = Audit(array("d", [0.0] * 95 + [0.5] * 5), array("d"), None, 1.0, False, None)
    unharmed, harmed = ("p50", "latency.mean", "p90"), ("p99", "latency.max")
    assert {verdict_of(f"{name} < 2s", one_in_twenty) for name in unharmed} == {"pass"}
    assert {verdict_of(f"{name} < 2s", one_in_twenty) for name in harmed} == {"invalid"}
    assert verdict_of("latency.stdev < 2s", one_in_twenty) == "pass"


def test_over_runs_the_median_counts_as_it_does_for_the_figure():
    assert verdict_of("p99 < 2s", audit(0.9), audit(0.0), audit(0.0)) == "pass"
    assert verdict_of("p99 < 2s", audit(0.9), audit(0.9), audit(0.0)) == "invalid"


def test_late_starts_count_in_the_latency_of_users_only():
    late = audit(0.0, late=0.5)
    assert verdict_of("p99 < 2s", late) == "pass"
    line = line_of("user_latency.p99 < 2s", late, due_before=0.5)
    assert line.verdict == "invalid"
    assert "tasks started 500ms late at their p99; plan a lower rate" in line.reason
    assert verdict_of("user_latency.p99 < 900ms", late, due_before=0.5) == "fail"


def test_a_rate_that_was_not_delivered_proves_no_latency():
    behind = audit(0.0, late=0.8, undelivered=0.25)
    line = line_of("p99 < 2s", behind)
    assert line.verdict == "invalid"
    assert "25% of the planned rate was not delivered: starts fell 800ms behind" in line.reason
    # Under less load it was missed already.
    assert verdict_of("p99 < 500ms", behind) == "fail"
    # A few milliseconds of a plan that short are no load that was missing.
    assert verdict_of("p99 < 2s", audit(0.0, late=0.01, undelivered=0.25)) == "pass"
    assert verdict_of("p99 < 2s", audit(0.0, late=0.8, undelivered=0.05)) == "pass"


def test_a_throughput_that_was_reached_is_reached_and_one_that_the_process_held_down_is_not_told():
    behind, slow = audit(0.0, late=0.8, undelivered=0.25), audit(0.4)
    assert [verdict_of("throughput > 0.9/s", one) for one in (behind, slow)] == ["pass", "pass"]
    assert [verdict_of("throughput > 1.2/s", one) for one in (behind, slow)] == ["invalid", "invalid"]
    assert "was late itself for 40% of the mean latency" in line_of("throughput > 1.2/s", slow).reason
    # 40 % of the time back would not make it.
    assert verdict_of("throughput > 2/s", slow) == "fail"
    assert verdict_of("throughput > 2/s", audit(5.0)) == "invalid"


@pytest.mark.parametrize("expression", ["success_rate >= 90%", "errors.timeout == 0", "tasks >= 10"])
def test_what_is_no_time_is_told_whatever_the_process_did(expression):
    assert verdict_of(expression, audit(9.0, late=9.0, undelivered=0.9)) == "pass"


@given(st.floats(0.001, 1000.0), st.floats(0.001, 1000.0))
def test_more_is_allowed_for_more_and_never_most_of_it(one, other):
    low, high = sorted((one, other))
    assert allowance(low) <= allowance(high)
    assert 0.1 * low <= allowance(low) <= 0.5 * low
