"""Projected costs and fitted workloads, as the JSON report has them."""

import pytest
import report_samples as samples

from pytest_swarm.reports.choice import choose
from pytest_swarm.reports.projected import project


def projected(*records, tasks=1_000_000):
    return project(records, tasks)["tests"]


def test_nothing_is_projected_unless_asked_for():
    assert project(samples.PROJECTED, None) is None
    assert project([], 1000) == {"tasks_per_month": 1000, "tests": []}


def test_a_million_tasks_with_and_without_the_cache():
    [found] = projected(*samples.PROJECTED[:2])
    gpt, kimi = found["models"]
    assert gpt == {
        "model": "gpt-6-agent",
        "cost_per_task": 0.00082,
        "cache_hit_rate": 0.35,
        "monthly": 820.0,
        "yearly": 9840.0,
        "without_cache": {"cost_per_task": 0.00091, "monthly": 910.0, "yearly": 10920.0, "reason": ""},
    }
    assert (kimi["monthly"], kimi["yearly"]) == (410.0, 4920.0)
    assert found["savings"] == [
        {
            "model": "kimi-k2.5-swarm",
            "instead_of": "gpt-6-agent",
            "monthly": 410.0,
            "yearly": 4920.0,
            "share": 0.5,
            "without_cache": {"monthly": 500.0, "yearly": 6000.0, "share": pytest.approx(500 / 910)},
        }
    ]


def test_the_cheapest_model_is_told_from_every_other():
    [found] = projected(samples.priced("a", 0.3), samples.priced("b", 0.1), samples.priced("c", 0.2), tasks=10)
    assert [(one["model"], one["instead_of"], one["monthly"]) for one in found["savings"]] == [
        ("b", "c", 1.0),
        ("b", "a", 2.0),
    ]


def test_an_unknown_cost_is_unknown_and_saves_nothing():
    [found] = projected(samples.priced("a", None, reason="no price"), samples.priced("b", 0.1, 0.2))
    unknown = {"cost_per_task": None, "monthly": None, "yearly": None}
    assert found["models"][0] == {
        "model": "a",
        "cache_hit_rate": 0.0,
        **unknown,
        "without_cache": {**unknown, "reason": "no price"},
    }
    assert found["savings"] == []


def test_a_saving_without_a_cache_is_unknown_where_one_of_both_costs_is():
    [found] = projected(samples.priced("a", 0.2, reason="no rates"), samples.priced("b", 0.1, 0.1))
    [saving] = found["savings"]
    assert saving["without_cache"] == {"monthly": None, "yearly": None, "share": None}


def test_models_that_cost_nothing_have_no_share_to_save():
    [found] = projected(samples.priced("a", 0.0), samples.priced("b", 0.0))
    assert (found["savings"][0]["monthly"], found["savings"][0]["share"]) == (0.0, None)


def test_what_was_not_worked_out_says_so():
    [found] = projected(samples.record(metrics=samples.metrics(cost_per_task=0.1)))
    assert found["models"][0]["without_cache"]["reason"] == "it was not worked out"


def test_tests_without_the_model_as_a_parameter_are_each_projected_alone():
    routed = samples.record(nodeid="t.py::test_a", spent={"by_model": {"a": 1.0, "b": 2.0}, "unpriced_calls": 0})
    unnamed = samples.record(nodeid="t.py::test_b", model=None, spent={"by_model": {}, "unpriced_calls": 0})
    found = projected(routed, routed, unnamed, samples.SKIPPED)
    assert [(one["test"], [model["model"] for model in one["models"]]) for one in found] == [
        ("t.py::test_a", ["a + b"]),
        ("t.py::test_a", ["a + b"]),
        ("t.py::test_b", ["(unnamed)"]),
    ]


def test_simulated_projections_and_workloads_are_marked():
    simulated = {"simulated": "simulated gateway, virtual time"}
    [found] = projected({**samples.PROJECTED[0], **simulated}, samples.PROJECTED[1])
    assert found["simulated"] is True
    [choice] = choose([{**samples.FITTED[0], **simulated}, samples.FITTED[1]])
    assert choice["simulated"] is True


def test_every_workload_has_its_models():
    compared, alone = choose(samples.FITTED)
    assert (compared["test"], compared["simulated"]) == ("tests/test_summary.py::test_summarise", False)
    assert [
        (one["workload"], {model: fit["verdict"] for model, fit in one["models"].items()})
        for one in compared["workloads"]
    ] == [
        ("realtime-chat", {"gpt-6-agent": "meets", "kimi-k2.5-swarm": "fails"}),
        ("prototype", {"gpt-6-agent": "fails", "kimi-k2.5-swarm": "meets"}),
        ("regulated", {"gpt-6-agent": "unknown", "kimi-k2.5-swarm": "unknown"}),
    ]
    chat = compared["workloads"][0]["models"]["gpt-6-agent"]
    assert chat["margin"] == 0.2475
    assert [one["criterion"] for one in chat["criteria"]] == ["ttft.p95 < 1s", "latency.p99 < 12s"]
    assert list(alone["workloads"][0]["models"]) == ["gpt-6-agent"]


def test_without_workloads_there_is_no_choice():
    assert choose(samples.COMPARED) == []
