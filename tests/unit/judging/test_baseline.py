"""Verdicts against a former run: how often a slowdown is found and noise is not, and what each verdict says."""

from array import array
from collections import Counter

import numpy as np
import pytest

from pytest_swarm.judging import statistics
from pytest_swarm.judging.baseline import Baseline, Former, NoBaseline
from pytest_swarm.judging.change import changes
from pytest_swarm.judging.metrics import SwarmMetrics
from pytest_swarm.judging.regression import detectable, of_rate, of_samples
from pytest_swarm.judging.sla import parse
from pytest_swarm.judging.verdict import judge
from tests.unit.judging.judging_samples import call, run_of, swarm_of, task

TASKS = 500
TRIALS = 200
SPREAD = 0.45
"""Standard deviation of the logarithm: a p95 of 2.1 times the p50."""


def found_in(statistic, factor, slowdown, *, trials=TRIALS, tail=None):
    """In what share of trials a level on the statistic fails, by kind of evidence."""
    random = np.random.default_rng(20)
    found = Counter()
    for _ in range(trials):
        before = sorted(random.lognormal(0, SPREAD, TASKS))
        values = random.lognormal(0, SPREAD, TASKS) * slowdown
        if tail is not None:
            values[: TASKS // 20] *= tail
        now = sorted(values)
        figure = [
            statistics.mean(sample) if statistic == "mean" else statistics.percentile(sample, float(statistic[1:]))
            for sample in (now, before)
        ]
        beyond = figure[0] > factor * figure[1]
        evidence = of_samples(statistic, now, before, beyond=beyond, factor=factor, upwards=True, level=0.05)
        found[evidence.found] += 1
    return (found["figure"] + found["whole"]) / trials, found


@pytest.mark.parametrize("statistic", ["mean", "p50", "p95", "p99"])
def test_a_slowdown_of_15_percent_is_failed_in_nine_of_ten_trials_of_500_tasks(statistic):
    # With `baseline` alone, what fails here fails too.
    share, _ = found_in(statistic, 1.1, 1.15)
    assert share >= 0.9


@pytest.mark.parametrize("statistic", ["mean", "p50", "p95", "p99"])
def test_noise_is_failed_in_at_most_one_of_twenty_trials(statistic):
    # With a factor above 1, even fewer.
    share, _ = found_in(statistic, 1.0, 1.0, trials=600)
    assert share <= 0.05


def test_a_slower_tail_is_found_where_the_rest_stands_still():
    share, found = found_in("p99", 1.1, 1.0, tail=4.0, trials=60)
    assert share >= 0.9
    assert found["figure"] == found.total() - found[""]
    assert found_in("p50", 1.1, 1.0, tail=4.0, trials=60)[0] <= 0.1


def test_what_is_added_to_everything_fails_a_tail_that_is_beyond_its_limit():
    random = np.random.default_rng(3)
    found = Counter()
    for _ in range(60):
        before, now = (sorted(random.lognormal(0, 0.9, TASKS) + queue) for queue in (0.0, 0.8))
        beyond = statistics.percentile(now, 95) > 1.1 * statistics.percentile(before, 95)
        evidence = of_samples("p95", now, before, beyond=beyond, factor=1.1, upwards=True, level=0.05)
        found[evidence.found] += 1
        if not beyond:
            assert evidence.shift is None
    # 0.8 s more are 18 % of the p95, whose own values tell that in one of four trials.
    assert found["whole"] > found["figure"]
    assert found["whole"] + found["figure"] >= 40


def test_a_percentile_that_stands_still_is_not_failed_for_the_rest():
    random = np.random.default_rng(2)
    failed = 0
    for _ in range(60):
        # Everything is 15 % slower but what ends at a timeout of 3 s, as it did before.
        before, now = (
            sorted(np.where(np.arange(TASKS) < 25, 3.0, np.minimum(random.lognormal(0, 0.3, TASKS) * slowdown, 2.9)))
            for slowdown in (1.0, 1.15)
        )
        failed += bool(of_samples("p99", now, before, beyond=False, factor=1.1, upwards=True, level=0.05).found)
    assert failed <= 3


def test_a_level_below_the_baseline_is_judged_against_itself():
    random = np.random.default_rng(4)
    before, now = (sorted(random.lognormal(0, 0.2, TASKS)) for _ in range(2))
    evidence = of_samples("p50", now, before, beyond=True, factor=0.8, upwards=True, level=0.05)
    assert evidence.found == "figure"
    more = of_samples("p50", now, before, beyond=True, factor=1.2, upwards=False, level=0.05)
    assert more.found == "figure"


def test_a_rate_is_failed_when_chance_would_hardly_do_it():
    arguments = {"beyond": True, "factor": 1.0, "upwards": False, "level": 0.05}
    assert of_rate((450, 500), (490, 500), **arguments).found == "figure"
    assert of_rate((489, 500), (490, 500), **arguments).found == ""
    assert not of_rate((2, 2), (2, 2), **arguments).enough


def test_the_shift_that_samples_show_in_nine_of_ten_cases_is_told():
    random = np.random.default_rng(4)
    before, now = (sorted(random.lognormal(0, SPREAD, TASKS)) for _ in range(2))
    shown = detectable(now, before, 0.05)
    assert 1.08 < shown < 1.13
    share, _ = found_in("p50", 1.0, shown)
    assert share >= 0.85
    assert detectable([1.0], before, 0.05) is None
    assert detectable([0.0, 1.0], before, 0.05) is None


# --- levels of a whole result ---


def swarm(seconds, *, failed=0, runs=1, **changed):
    """A swarm of tasks that took so long, `failed` more that did not pass; each has one call of that latency."""
    made = []
    for index in range(runs):
        tasks = [task(at, 0.0, float(took)) for at, took in enumerate(seconds)]
        tasks += [task(len(seconds) + at, 0.0, 1.0, "failed") for at in range(failed)]
        made.append(run_of(tasks, [call(at, latency=float(took), cost=0.01) for at, took in enumerate(seconds)], index))
    result = swarm_of(*made)
    result.plan = {"tasks": len(seconds), "seed": 0}
    for name, value in changed.items():
        setattr(result, name, value)
    return result


def former(result, **changed):
    return Former("main.json", "2026-11-01T00:00:00Z", "pass", result, changed)


def judged(now, before, *lines, **changed):
    baseline = Baseline(former(before, **changed))
    return judge(now, [parse(line) for line in lines], baseline=baseline)


def spread_out(n, factor=1.0, seed=1):
    return np.random.default_rng(seed).lognormal(0, 0.3, n) * factor


def test_a_line_that_holds_is_passed_with_its_ratio():
    judgement = judged(swarm(spread_out(200, 0.5)), swarm(spread_out(200)), "p50 <= baseline * 1.10")
    (line,) = judgement.lines
    assert (judgement.verdict, line.verdict, line.reason) == ("pass", "pass", "")
    before = SwarmMetrics(swarm(spread_out(200))).observe("latency.p50").value
    assert line.threshold == pytest.approx(1.1 * before)
    assert line.note.startswith("0.50 times the baseline of ")


def test_a_regression_is_failed_with_its_ratio_and_probability():
    judgement = judged(swarm(spread_out(200, 1.5)), swarm(spread_out(200)), "p50 <= baseline * 1.10")
    (line,) = judgement.lines
    assert (judgement.verdict, line.verdict) == ("fail", "fail")
    assert line.reason.startswith("latency.p50 <= baseline * 1.10: it is ")
    assert line.reason.endswith("(p < 0.001)")
    assert "1.50 times the baseline of" in line.reason


def test_a_regression_of_everything_fails_a_percentile_that_cannot_tell_it_alone():
    before = spread_out(200)
    now = np.sort(spread_out(200, 1.2, seed=2))
    now[-10:] = np.sort(before)[-10:] * 1.11
    judgement = judged(swarm(now), swarm(before), "p99 <= baseline * 1.15")
    assert judgement.verdict == "fail"
    assert "all of latency is 1." in judgement.reasons[0]
    assert "p99 alone is 1.11 times the baseline" in judgement.reasons[0]


def test_a_time_that_is_added_to_everything_is_told_as_such():
    before = np.random.default_rng(1).lognormal(0, 0.9, 300)
    judgement = judged(swarm(before + 0.9), swarm(before), "p95 <= baseline * 1.10")
    assert judgement.verdict == "fail"
    assert "all of latency is 0.9s above the baseline's (p < 0.001); p95 alone is 1.2" in judgement.reasons[0]


def test_what_chance_may_do_is_passed_and_said():
    before = spread_out(200)
    now = np.sort(before)
    now[-3:] *= 1.5
    judgement = judged(swarm(now), swarm(before), "p99 <= baseline * 1.10")
    (line,) = judgement.lines
    assert line.verdict == "pass"
    assert line.observed > line.threshold
    assert "which chance alone may do (p = " in line.note
    assert "so many values show a shift of the whole by 1" in line.note


@pytest.mark.parametrize("factor", [0.9, 5.0])
def test_too_few_tasks_are_no_comparison(factor):
    judgement = judged(swarm([factor, factor, factor]), swarm([1.0, 1.1, 1.2]), "p50 <= baseline")
    assert judgement.verdict == "invalid"
    assert (
        "3 values and 3 of the baseline are too few to tell a change from chance; run more tasks"
        in judgement.reasons[0]
    )


def test_a_figure_beyond_its_limit_is_not_passed_where_not_even_a_doubling_would_show():
    before = np.random.default_rng(1).lognormal(0, 1.0, 12)
    judgement = judged(swarm([*sorted(before)[:11], 30.0]), swarm(before), "p99 <= baseline")
    assert judgement.verdict == "invalid"
    assert "12 values and 12 of the baseline are too few" in judgement.reasons[0]


def test_rates_are_compared_exactly():
    good, bad = swarm(spread_out(200)), swarm(spread_out(200), failed=20)
    (line,) = judged(bad, good, "success_rate >= baseline").lines
    assert line.verdict == "fail"
    (line,) = judged(swarm(spread_out(200), failed=1), good, "success_rate >= baseline").lines
    assert (line.verdict, line.threshold) == ("pass", 1.0)
    assert "chance alone may do (p = 0.5)" in line.note
    (line,) = judged(swarm([1.0]), swarm([1.0]), "success_rate >= baseline").lines
    assert line.verdict == "invalid"
    assert "1 trials and 1 of the baseline" in line.reason


def test_what_is_one_figure_is_compared_as_it_is():
    now, before = swarm(spread_out(200)), swarm(spread_out(100))
    (line,) = judged(now, before, "cost <= baseline * 1.5").lines
    assert line.verdict == "fail"
    assert line.reason == "cost <= baseline * 1.5: it is $2, 2.00 times the baseline of $1"
    (line,) = judged(now, before, "cost_per_100 <= baseline").lines
    assert line.verdict == "pass"
    assert line.note.endswith("one figure each, so that chance cannot be told")
    assert judged(now, before, "p50 == baseline").lines[0].verdict == "fail"


@pytest.mark.parametrize("metric", ["latency.stdev", "latency.count", "latency.sum"])
def test_a_statistic_without_a_test_is_compared_as_it_is(metric):
    (line,) = judged(swarm(spread_out(200, 1.01)), swarm(spread_out(100)), f"{metric} <= baseline * 0.5").lines
    assert line.verdict == "fail"
    assert "one figure each" in line.note


def test_figures_of_four_runs_and_more_have_a_test():
    before = swarm(spread_out(50), runs=5)
    slower = swarm(spread_out(50, 2.0), runs=5)
    (line,) = judged(slower, before, "throughput >= baseline * 0.9").lines
    assert line.verdict == "fail"
    assert "(p = " in line.reason
    assert "throughput" not in judged(before, before, "throughput >= baseline").lines[0].reason


def test_a_metric_that_the_baseline_does_not_have_is_invalid():
    judgement = judged(swarm(spread_out(50)), swarm(spread_out(50)), "my.score.mean >= baseline")
    assert judgement.verdict == "invalid"
    now = swarm(spread_out(50))
    now.runs[0].numbers["score"] = array("d", [0.9, 0.8])
    (line,) = judged(now, swarm(spread_out(50)), "my.score.mean >= baseline").lines
    assert line.reason.startswith("my.score.mean >= baseline: main.json has no my.score.mean to compare with")
    # The report tells the figure, and not the values: that is compared as it is.
    (line,) = judged(now, swarm(spread_out(50)), "my.score.mean >= baseline", **{"my.score.mean": 0.8}).lines
    assert (line.verdict, line.threshold) == ("pass", 0.8)
    assert "one figure each" in line.note


def test_a_baseline_of_nothing_has_no_ratio():
    (line,) = judged(swarm(spread_out(50)), swarm(spread_out(50)), "errors.rate_limited <= baseline").lines
    assert (line.verdict, line.threshold) == ("pass", 0.0)
    assert line.note.startswith("the baseline is 0")


# --- how everything has moved ---


def test_every_metric_that_both_know_is_compared():
    now, before = swarm(spread_out(200, 1.4, seed=3)), swarm(spread_out(200), failed=40)
    found = changes(now, SwarmMetrics(now), Baseline(former(before)), 0.05)
    assert found["metrics"]["latency.p50"]["test"] == "tail"
    assert found["metrics"]["latency.p50"]["significant"] is True
    assert found["metrics"]["latency.p50"]["change"] == pytest.approx(0.4, abs=0.1)
    assert found["metrics"]["latency.mean"]["test"] == "welch"
    assert found["metrics"]["success_rate"]["test"] == "fisher"
    assert found["metrics"]["success_rate"]["p"] < 0.001
    assert found["metrics"]["cost"] == {
        "baseline": pytest.approx(2),
        "now": pytest.approx(2),
        "change": 0,
        "p": None,
        "test": None,
        "significant": None,
    }
    assert found["metrics"]["errors.rate_limited"]["change"] is None
    assert "ttft.p50" not in found["metrics"]
    whole = found["distributions"]["latency"]
    assert whole["ratio"] == pytest.approx(1.4, rel=0.08)
    assert (whole["significant"], whole["values"], whole["baseline_values"]) == (True, 200, 200)
    assert "ttft" not in found["distributions"]


def test_throughputs_of_many_runs_are_compared_by_rank():
    now, before = swarm(spread_out(20), runs=4), swarm(spread_out(20, 2.0), runs=5)
    found = changes(now, SwarmMetrics(now), Baseline(former(before)), 0.05)["metrics"]["throughput"]
    assert found["test"] == "mann_whitney"
    assert found["p"] < 0.05


def test_what_was_not_the_same_is_told():
    now = swarm(spread_out(50), model="b", gateway_kind="replay", clock="virtual", base_url=None)
    now.plan = {"tasks": 50, "seed": 1, "concurrency": 10}
    before = swarm(spread_out(100))
    found = changes(now, SwarmMetrics(now), Baseline(former(before)), 0.05)
    assert found["differences"] == [
        "model (m there, b here)",
        "gateway (live there, replay here)",
        "address (http://localhost there, none here)",
        "clock (real there, virtual here)",
        "tasks (100 there, 50 here)",
        "concurrency (none there, 10 here)",
        "seed (0 there, 1 here)",
    ]


def test_a_test_that_the_baseline_does_not_have_has_nothing_to_compare():
    now = swarm(spread_out(50))
    found = changes(now, SwarmMetrics(now), NoBaseline("main.json has no such test", "main.json"), 0.05)
    assert (found["file"], found["missing"], found["metrics"]) == ("main.json", "main.json has no such test", {})
