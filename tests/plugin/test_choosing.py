"""Choosing a model: costs projected to a month, and which model meets which workload, in the summary and the report."""

from __future__ import annotations

from typing import Any

import pytest

PYPROJECT = """
[tool.pytest_swarm.workloads]
realtime-chat = ["ttft.p95 < 5s", "p50 < 1s"]
prototype = {sla = ["cost_per_100 <= $0.06", "not measurable: team size"], note = "what a first bill allows"}
"""

CODE = """
POLICY = "Read the policy before you answer, and quote it. " * 150
@pytest.mark.parametrize("model", ["gpt-6-agent", "kimi-k2.5-swarm"])
@pytest.mark.swarm(tasks=60, concurrency=30)
@pytest.mark.sla("success_rate >= 50%")
async def test_it(gateway, agent, model):
    await gateway.chat(f"{POLICY} Question {agent.index}.", model=model, stream=True)
"""


def test_models_are_projected_and_chosen_between_whoever_ran_them(
    suite: Any, report: Any, pytester: pytest.Pytester
) -> None:
    pytester.makepyprojecttoml(PYPROJECT)
    told = []
    for options in ([], ["-n2"]):
        result = suite(CODE, "--swarm-project=1_000_000/month", *options, gateway=None)
        result.assert_outcomes(passed=2)
        result.stdout.fnmatch_lines(
            [
                "*LLM swarm: projected to 1,000,000 tasks/month*",
                "*SIMULATED: figures of simulated gateways, not of models",
                "*without a cache*",
                "*kimi-k2.5-swarm saves $* per month*",
                "*LLM swarm: which model for which workload*",
                "*SIMULATED: figures of simulated gateways, not of models",
                "  realtime-chat *",
                "*team size *not measurable *not measurable",
            ]
        )
        told.append({key: report()[key] for key in ("projection", "workloads")})
    first, by_workers = told
    [chosen] = first["workloads"]
    assert {
        workload["workload"]: {model: fit["verdict"] for model, fit in workload["models"].items()}
        for workload in chosen["workloads"]
    } == {
        "realtime-chat": {"gpt-6-agent": "meets", "kimi-k2.5-swarm": "fails"},
        "prototype": {"gpt-6-agent": "fails", "kimi-k2.5-swarm": "meets"},
    }
    assert {model["model"]: model for model in first["projection"]["tests"][0]["models"]} == {
        model["model"]: model for model in by_workers["projection"]["tests"][0]["models"]
    }
    assert first["workloads"][0]["workloads"][0]["models"] == by_workers["workloads"][0]["workloads"][0]["models"]
    for model in first["projection"]["tests"][0]["models"]:
        assert 0 < model["cache_hit_rate"] < 1
        assert model["monthly"] == pytest.approx(model["cost_per_task"] * 1_000_000)
        assert model["monthly"] < model["without_cache"]["monthly"] < 2 * model["monthly"]


def test_a_wrong_workload_stops_the_session_with_one_sentence(suite: Any, pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml('[tool.pytest_swarm.workloads]\nchat = {slas = ["p99 < 3s"]}\n')
    result = suite("def test_it(): pass\n", gateway=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    answer = "[tool.pytest_swarm.workloads] chat: unknown key 'slas'; allowed are sla, note; did you mean 'sla'?"
    assert f"ERROR: swarm: pyproject.toml: {answer}" in result.stderr.str()
