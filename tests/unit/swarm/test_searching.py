"""The plan of a probe, and what a search may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_swarm import available
from pytest_swarm.errors import SettingError
from pytest_swarm.swarm.plan import Layer
from pytest_swarm.swarm.searching import MAX_TASKS, SearchPlan, search_from, tasks_of


class Around:
    """What stands beside the markers."""

    def __init__(self, **command_line: Any) -> None:
        self.command_line = Layer(**command_line)
        self.ini = Layer()


@pytest.fixture
def everything_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(available, "require", lambda *args: None)


def asked(metric: str, low: object, high: object, around: Around | None = None, **swarm: Any) -> SearchPlan:
    search, levels = search_from((metric, low, high), {"sla": ["p95 < 5s"]}, (), swarm, around or Around())
    assert levels == ("p95 < 5s",)
    assert search.max_tasks == MAX_TASKS
    return search


def test_a_probe_has_five_tasks_for_each_in_flight_and_no_fewer_than_the_marker_says() -> None:
    search = asked("concurrency", 8, 64, tasks=100, warmup=3, repeat=2)
    assert search.whole
    for load, tasks in ((8, 100), (20, 100), (64, 320)):
        plan = search.at(load)
        assert (plan.concurrency, plan.tasks, plan.rate) == (load, tasks, None)
        assert tasks_of(plan) == (tasks + 3) * 2
    assert asked("concurrency", 8, 64).at(8).tasks == 40
    assert search.shown(1024) == "1,024"


def test_the_command_line_does_not_change_the_load_of_a_probe(everything_available: None) -> None:
    plan = asked("concurrency", 8, 64, Around(concurrency=500, rate=7.0), tasks=100).at(16)
    assert (plan.concurrency, plan.rate) == (16, None)


def test_a_probe_that_a_duration_ends_has_no_number_of_tasks(everything_available: None) -> None:
    plan = asked("concurrency", 8, 64, duration="10s").at(16)
    assert (plan.tasks, plan.duration, tasks_of(plan)) == (None, 10.0, 0)


def test_a_rate_is_tried_for_ten_seconds(everything_available: None) -> None:
    search = asked("rate", "90/min", "20/s")
    assert (search.low, search.high, search.whole) == (1.5, 20.0, False)
    for load, tasks in ((1.5, 15), (20.0, 200)):
        plan = search.at(load)
        assert (plan.rate, plan.tasks, plan.concurrency) == (load, tasks, None)
    assert asked("rate", "1/s", "2/s", tasks=50, concurrency=30).at(2.0).tasks == 50
    assert asked("rate", "1/s", "2/s", concurrency=30).at(2.0).concurrency == 30
    assert asked("rate", "1/s", "2/s", duration="60s").at(2.0).tasks is None
    assert search.shown(2.625) == "2.625/s"


@pytest.mark.parametrize(
    ("metric", "low", "high", "swarm", "wrong"),
    [
        ("concurrency", 1, 2, {"rate": "1/s"}, "rate"),
        ("concurrency", 1, 2, {"stages": [("1s", 5)]}, "stages"),
        ("concurrency", 1, 2, {"arrival": "constant"}, "arrival"),
        ("concurrency", 1, 2, {"concurrency": "8..256"}, "concurrency"),
        ("rate", "1/s", "2/s", {"rate": "1/s"}, "rate"),
        ("rate", "1/s", "2/s", {"stages": [("1s", 5)]}, "stages"),
    ],
)
def test_what_is_searched_for_cannot_be_set(
    metric: str, low: object, high: object, swarm: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(SettingError) as error:
        asked(metric, low, high, **swarm)
    assert str(error.value) == f"swarm({wrong}=...) and swarm_search({metric!r}) exclude each other; drop one"
