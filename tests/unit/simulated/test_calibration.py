"""The built-in systems reproduce what was published about them; `benchmarks/calibration.py` checks it in full."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.calibration import ARTICLE, TOLERANCE, USUAL_TOLERANCE, ClosedLoop, measure
from pytest_swarm.sources.simulated.profile import Capacity
from pytest_swarm.sources.simulated.systems import builtin_systems

TASKS = 5_000
NOISE = {"latency.p95": 0.024, "latency.p99": 0.013}
"""Standard deviation of one run of so many tasks, as a share; the other figures hardly stray."""


@pytest.mark.parametrize("name", ARTICLE)
def test_a_system_reproduces_the_published_figures(name: str) -> None:
    measured = measure(builtin_systems()[name], TASKS, seeds=3)
    deviation = {figure: abs(measured[figure] / published - 1) for figure, published in ARTICLE[name].items()}
    allowed = {figure: TOLERANCE.get(figure, USUAL_TOLERANCE) + 2 * NOISE.get(figure, 0.0) for figure in deviation}
    assert {figure: off for figure, off in deviation.items() if off > allowed[figure]} == {}


def test_eight_workers_pass_a_quarter_of_what_thirty_two_do() -> None:
    system = builtin_systems()["gpt-6-agent"]
    fewer = replace(system, capacity=Capacity("fixed", 8))
    full, quarter = (ClosedLoop(one, "1", TASKS).run()["steady_throughput"] for one in (system, fewer))
    assert quarter / full == pytest.approx(1 / 4, rel=0.05)


def test_a_hundred_tasks_have_as_many_failures_as_the_profile_says() -> None:
    for name, system in builtin_systems().items():
        figures = ClosedLoop(system, "7", 100, in_flight=50).run()
        assert figures["success_rate"] == pytest.approx(ARTICLE[name]["success_rate"])
        assert figures["latency.p99"] < 12.0
