from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging_samples import call, plain_run, run_of, swarm_of, task
from scipy import stats

from pytest_swarm.judging.metrics import SwarmMetrics
from pytest_swarm.judging.proof import MOST, Claim, claim_of
from pytest_swarm.judging.sla import parse
from pytest_swarm.judging.statistics import rate_bounds, samples_needed
from pytest_swarm.judging.verdict import judge

TRIALS = 2_000


def latencies(*values):
    tasks = [task(i, 0, value) for i, value in enumerate(values)]
    return swarm_of(run_of(tasks, [call(i) for i in range(len(tasks))]))


def judged(result, line, confidence=0.95):
    return judge(result, [replace(parse(line), confidence=confidence)]).lines[0]


def test_a_percentile_that_enough_tasks_meet_is_proven():
    line = judged(latencies(*[1.0] * 299), "p99 < 2s")
    assert (line.verdict, line.reason, line.note, line.confidence) == ("pass", "", "", 0.95)


def test_a_percentile_that_too_few_tasks_meet_is_invalid_and_says_how_many_would_do():
    line = judged(latencies(*[1.0] * 100), "p99 < 2s")
    assert line.verdict == "invalid"
    assert line.reason == (
        "latency.p99 < 2s: it is 1s, which 100 tasks do not prove at 95 %; some 299 tasks would, if they are no worse"
    )


def test_what_was_not_met_fails_whatever_the_confidence():
    assert judged(latencies(*[3.0] * 10), "p99 < 2s", 0.99).verdict == "fail"


def test_a_rate_counts_the_tasks_that_did_not_pass():
    result = swarm_of(plain_run(["passed"] * 97 + ["failed"] * 3))
    assert judged(result, "success_rate >= 90%").verdict == "pass"
    line = judged(result, "success_rate >= 95%")
    assert line.verdict == "invalid"
    assert "it is 97%, which 100 tasks do not prove at 95 %; some " in line.reason


def test_a_level_that_no_number_of_tasks_proves_says_so():
    line = judged(latencies(*[1.0] * 1000), "latency.max < 2s")
    assert line.verdict == "pass", "a maximum has no bound: what was observed decides"
    everything = judged(swarm_of(plain_run(["passed"] * 1000)), "success_rate >= 100%")
    assert everything.verdict == "invalid"
    assert everything.reason.endswith("so close to the level, no number of tasks would")


@pytest.mark.parametrize("line", ["throughput >= 0.001/s", "latency.mean < 2s", "success_rate == 100%", "tasks >= 5"])
def test_a_metric_without_bounds_is_judged_by_what_was_observed(line):
    assert judged(latencies(*[1.0] * 5), line).verdict == "pass"


def test_lower_bounds_of_percentiles_are_claims_about_the_other_side():
    metrics = SwarmMetrics(latencies(1.0, 1.0, 3.0, 3.0))
    assert claim_of(parse("p25 >= 2s"), metrics) == Claim(2, 4, 0.25)
    assert claim_of(parse("p75 < 2s"), metrics) == Claim(2, 4, 0.25)


@given(st.integers(0, 60), st.integers(1, 400), st.sampled_from([0.01, 0.05, 0.1, 0.5]), st.sampled_from([0.9, 0.95]))
def test_a_claim_is_proven_exactly_when_its_bound_meets_the_limit(bad, more, limit, confidence):
    n = bad + more
    upper = rate_bounds(bad, n, confidence)[1]
    expected = stats.beta.ppf(confidence, bad + 1, n - bad)
    assert upper == pytest.approx(expected, rel=1e-9)
    if abs(upper - limit) > 1e-9:
        assert Claim(bad, n, limit).proven(confidence) is bool(expected <= limit)


@given(st.floats(1, 99.9), st.sampled_from([0.9, 0.95, 0.99]))
def test_without_bad_samples_the_number_needed_is_that_of_the_percentile(p, confidence):
    assert Claim(0, 1, 1 - p / 100).samples_needed(confidence) == samples_needed(p, confidence)


@given(st.integers(0, 30), st.integers(50, 400), st.sampled_from([0.05, 0.2]))
def test_as_many_samples_as_are_said_to_be_needed_are_a_proof(bad, n, limit):
    needed = Claim(bad, n, limit).samples_needed(0.95)
    if needed is None:
        assert bad / n > limit * 0.99
    else:
        assert needed >= n
        assert Claim(round(bad / n * needed), needed, limit).proven(0.95)


def test_at_its_limit_no_number_of_samples_is_a_proof():
    assert Claim(10, 100, 0.1).samples_needed(0.95) is None
    assert Claim(0, 10, 0.0).samples_needed(0.95) is None
    assert MOST >= 1_000_000


@pytest.mark.parametrize(("p", "n"), [(50, 100), (95, 500), (99, 1500)])
def test_a_system_at_its_limit_is_seldom_passed_and_one_inside_nearly_always(p, n):
    latencies = np.random.default_rng(20).lognormal(0.0, 0.6, (TRIALS, n))

    def passed(threshold):
        over = (latencies >= threshold).sum(axis=1)
        proven = {bad: Claim(bad, n, 1 - p / 100).proven(0.95) for bad in set(over.tolist())}
        return sum(proven[bad] for bad in over.tolist()) / TRIALS

    truth = stats.lognorm(0.6)
    assert passed(truth.ppf(p / 100)) <= 0.06
    assert passed(truth.ppf(1 - (1 - p / 100) / 4)) >= 0.95
