from array import array

import pytest
from judging_samples import call, plain_run, run_of, swarm_of, task

from pytest_swarm.judging.metrics import RunMetrics, SwarmMetrics
from pytest_swarm.judging.sla import parse_metric, parse_per_task


def three_runs():
    """Latencies of 1, 2 and 4 s; success rates of 1, 1/2 and 3/4; throughputs of 1, 1/4 and 3/16."""
    return SwarmMetrics(
        swarm_of(
            plain_run(["passed"] * 4, 0, 1.0),
            plain_run(["passed", "failed"], 1, 2.0),
            plain_run(["passed"] * 3 + ["failed"], 2, 4.0),
        )
    )


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("latency.p99", 2.0),
        ("latency.max", 2.0),
        ("call_latency.mean", 2.0),
        ("success_rate", 0.75),
        ("error_rate", 0.25),
        ("throughput", 0.25),
        ("call_success_rate", 1.0),
        ("tasks", 10),
        ("calls", 10),
        ("attempts", 10),
        ("retries", 0),
        ("errors.rate_limited", 0),
        ("latency.count", 8),
        ("latency.sum", 4 * 1.0 + 2.0 + 3 * 4.0),
    ],
)
def test_distributions_and_rates_are_medians_and_counts_are_sums(metric, expected):
    assert three_runs().observe(metric).value == expected


def test_the_median_of_an_even_number_of_runs_is_between_two():
    metrics = SwarmMetrics(swarm_of(plain_run(["passed"], 0, 1.0), plain_run(["passed"], 1, 2.0)))
    assert metrics.observe("latency.p50").value == 1.5


def test_cost_is_over_all_runs():
    first = run_of([task(0, 0, 1), task(1, 0, 1, "failed")], [call(0, cost=1.0), call(1, cost=0.5)])
    second = run_of([task(0, 0, 1), task(1, 0, 1), task(2, 0, 1, "skipped")], [call(0, cost=0.25)], 1)
    metrics = SwarmMetrics(swarm_of(first, second))
    assert metrics.observe("cost").value == 1.75
    assert metrics.observe("cost_per_task").value == 1.75 / 4
    assert metrics.observe("cost_per_100").value == 175 / 4


def test_a_run_without_data_leaves_the_swarm_without():
    metrics = SwarmMetrics(swarm_of(plain_run(["passed"] * 2, 0), plain_run(["failed"] * 2, 1)))
    seen = metrics.observe("latency.p99")
    assert (seen.value, seen.reason) == (None, "run 1: no data: all 2 tasks failed")
    assert metrics.observe("success_rate").value == 0.5
    assert metrics.worst_run(parse_metric("latency.p99")) is None
    assert [seen.value for seen in metrics.per_run(parse_metric("latency.p99"))] == [1.0, None]


def test_a_run_that_was_stopped_before_its_first_task_ended_is_left_out():
    stopped = run_of([], index=1, interrupted="stopped")
    metrics = SwarmMetrics(swarm_of(plain_run(["passed"] * 2, 0), stopped))
    assert metrics.observe("latency.p99").value == 1.0
    only = SwarmMetrics(swarm_of(stopped))
    assert only.observe("latency.p99").reason == "no data: no task was finished"


def test_without_a_run_there_is_no_data():
    metrics = SwarmMetrics(swarm_of())
    assert metrics.observe("latency.p99").reason == "no data: nothing was run"
    assert metrics.observe("calls").reason == "no data: nothing was run"
    assert metrics.bounds(parse_metric("success_rate")) == (None, None)
    assert set(metrics.table().values()) == {None}


def test_no_task_that_counts_in_any_run_has_no_cost_per_task():
    runs = [run_of([task(0, 0, 1, "skipped")], [call(cost=1.0)], index) for index in range(2)]
    assert SwarmMetrics(swarm_of(*runs)).observe("cost_per_task").reason == "no data: the only task was skipped"


def test_one_run_is_its_own_swarm():
    run = plain_run(["passed"] * 12)
    assert SwarmMetrics(swarm_of(run)).table() == RunMetrics(run).table()


def test_own_numbers_and_checks_of_every_run_are_in_the_table():
    first = plain_run(["passed"], 0, numbers={"a": array("d", [1.0])})
    second = plain_run(["passed"], 1, checks={"b": [1, 2]})
    table = SwarmMetrics(swarm_of(first, second)).table()
    assert (table["my.a.p50"], table["check.b"]) == (None, None)


def test_per_task_bounds_reach_every_run():
    result = swarm_of(plain_run(["passed"] * 2, 0, 1.0), plain_run(["passed"] * 2, 1, 5.0))
    metrics = SwarmMetrics(result, [parse_per_task("latency < 3s")])
    assert metrics.observe("goodput_rate").value == 0.5


@pytest.mark.parametrize(
    ("metric", "run"),
    [("latency.p99", 2), ("success_rate", 1), ("error_rate", 1), ("throughput", 2), ("retries", 0)],
)
def test_the_worst_run_is_named(metric, run):
    assert three_runs().worst_run(parse_metric(metric)) == run


def test_bounds_are_made_of_the_pooled_samples():
    runs = [run_of([task(i, 0, 1 + i + 50 * half) for i in range(50)], index=half) for half in range(2)]
    metrics = SwarmMetrics(swarm_of(*runs))
    # Latencies are 1 to 100 s. P(Binom(100, 0.5) <= 57) = 0.933 and P(... <= 58) = 0.956: rank 59, and 42 from below.
    assert metrics.bounds(parse_metric("latency.p50")) == (42.0, 59.0)
    assert metrics.bounds(parse_metric("latency.p50"), 0.93) == (43.0, 58.0)
    assert metrics.bounds(parse_metric("latency.p99")) == (97.0, None)
    assert metrics.size(parse_metric("latency.p99")) == 100
    # 0.05 ** (1 / 100): none of a hundred failed.
    assert metrics.bounds(parse_metric("success_rate")) == (pytest.approx(0.05**0.01), 1.0)
    assert metrics.bounds(parse_metric("error_rate")) == (0.0, pytest.approx(1 - 0.05**0.01))


@pytest.mark.parametrize("metric", ["latency.mean", "latency.max", "throughput", "cost", "tasks", "cache_hit_rate"])
def test_other_figures_have_no_bounds(metric):
    assert three_runs().bounds(parse_metric(metric)) == (None, None)


@pytest.mark.parametrize("metric", ["ttft.p99", "json_valid_rate", "check.x", "my.x.p50"])
def test_without_data_there_are_no_bounds(metric):
    assert three_runs().bounds(parse_metric(metric)) == (None, None)


def test_a_bound_is_never_infinite():
    run = plain_run(["passed"], numbers={"x": array("d", [float("inf")] * 9)})
    assert SwarmMetrics(swarm_of(run)).bounds(parse_metric("my.x.p50")) == (None, None)
