"""The plan a marker makes, between the command line and the ini file."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm import available
from pytest_swarm.errors import NotAvailable
from pytest_swarm.swarm.plan import Layer, Plan, Timeouts, plan_from
from pytest_swarm.values import Limit, Stage


@dataclass(frozen=True)
class Around:
    """What stands around the marker."""

    command_line: Layer = field(default_factory=Layer)
    ini: Layer = field(default_factory=Layer)


NOTHING = Around()
LATER: dict[str, Any] = {"workers": 2}
"""A right value for every argument that is not available yet."""


def on_the_command_line(**values: Any) -> Around:
    return Around(command_line=Layer(**values))


def in_the_ini_file(**values: Any) -> Around:
    return Around(ini=Layer(**values))


@pytest.fixture
def everything_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(available, "ARGUMENTS", available.ARGUMENTS | LATER.keys())
    monkeypatch.setattr(available, "require", lambda *args: None)


def test_a_bare_marker_means_ten_tasks_at_once() -> None:
    assert plan_from((), {}, NOTHING) == Plan(tasks=10, concurrency=10)


@pytest.mark.parametrize(
    ("args", "kwargs", "tasks", "concurrency"),
    [
        ((100,), {}, 100, 100),
        ((100, 50), {}, 100, 50),
        ((), {"tasks": 100, "concurrency": 50}, 100, 50),
        ((100,), {"concurrency": "50"}, 100, 50),
        ((), {"concurrency": 50}, 50, 50),
        ((None, 50), {}, 50, 50),
        ((), {"tasks": None, "concurrency": None}, 10, 10),
    ],
)
def test_tasks_and_concurrency_default_to_each_other(
    args: tuple[Any, ...], kwargs: dict[str, Any], tasks: int, concurrency: int
) -> None:
    plan = plan_from(args, kwargs, NOTHING)
    assert (plan.tasks, plan.concurrency) == (tasks, concurrency)


@pytest.mark.parametrize(
    ("kwargs", "around", "tasks", "concurrency"),
    [
        ({"tasks": 20, "concurrency": 5}, on_the_command_line(concurrency=50), 20, 50),
        ({"tasks": 20}, on_the_command_line(concurrency=50), 20, 50),
        ({"concurrency": 5}, on_the_command_line(concurrency=50), 50, 50),
        ({}, on_the_command_line(concurrency=50), 50, 50),
        ({"tasks": 20, "concurrency": 5}, on_the_command_line(tasks=50), 50, 5),
        ({"tasks": 20}, on_the_command_line(tasks=50), 50, 50),
        ({"concurrency": 5}, on_the_command_line(tasks=50), 50, 5),
        ({"tasks": 20}, in_the_ini_file(tasks=50, concurrency=5), 20, 5),
        ({"concurrency": 20}, in_the_ini_file(tasks=50, concurrency=5), 50, 20),
        ({}, in_the_ini_file(concurrency=5), 5, 5),
        ({}, Around(Layer(concurrency=50), Layer(tasks=7)), 7, 50),
    ],
)
def test_the_command_line_beats_the_marker_which_beats_the_ini_file(
    kwargs: dict[str, Any], around: Around, tasks: int, concurrency: int
) -> None:
    plan = plan_from((), kwargs, around)
    assert (plan.tasks, plan.concurrency) == (tasks, concurrency)


@pytest.mark.parametrize(("name", "value"), [("repeat", 3), ("seed", 4), ("model", "kimi-k2.5-swarm")])
def test_every_layered_argument_follows_the_same_order(name: str, value: Any) -> None:
    other, third = {"model": ("gpt-6-agent", "gpt-5")}.get(name, (8, 9))
    everywhere = Around(Layer(**{name: value}), Layer(**{name: third}))
    assert getattr(plan_from((), {name: other}, everywhere), name) == value
    assert getattr(plan_from((), {name: other}, in_the_ini_file(**{name: third})), name) == other
    assert getattr(plan_from((), {}, in_the_ini_file(**{name: third})), name) == third
    assert getattr(plan_from((), {}, NOTHING), name) == getattr(Plan(), name)


def test_a_seed_of_zero_on_the_command_line_beats_the_marker() -> None:
    assert plan_from((), {"seed": 5}, on_the_command_line(seed=0)).seed == 0


def test_the_sla_markers_arguments_are_no_part_of_the_plan() -> None:
    assert plan_from((), {}, on_the_command_line(confidence=0.95, abort=True)) == Plan()


def test_more_in_flight_than_tasks_is_kept_and_noted() -> None:
    plan = plan_from((20,), {}, on_the_command_line(concurrency=50))
    assert plan.concurrency == 50
    assert plan.in_flight == 20
    assert plan.notes == ("20 in flight: tasks=20",)


def test_as_many_in_flight_as_tasks_needs_no_note() -> None:
    assert plan_from((20, 20), {}, NOTHING).notes == ()


def test_warmup_tasks_come_in_addition() -> None:
    plan = plan_from((20,), {"warmup": 5}, NOTHING)
    assert (plan.tasks, plan.warmup, plan.in_flight) == (20, 5, 20)


@pytest.mark.parametrize(
    ("written", "timeouts"),
    [
        (3, Timeouts(total=3.0)),
        ("250ms", Timeouts(total=0.25)),
        ({}, Timeouts()),
        ({"connect": 1, "first_token": "2s", "idle": "1m", "total": None}, Timeouts(1.0, 2.0, 60.0, None)),
    ],
)
def test_timeouts(written: object, timeouts: Timeouts) -> None:
    assert plan_from((), {"timeout": written}, NOTHING).timeout == timeouts


def test_task_timeout_and_retries() -> None:
    plan = plan_from((), {"task_timeout": "2m", "retries": 2}, NOTHING)
    assert (plan.task_timeout, plan.retries) == (120.0, 2)


@pytest.mark.parametrize("name", sorted(LATER))
def test_a_right_value_of_an_argument_that_comes_later_is_refused(name: str) -> None:
    with pytest.raises(NotAvailable) as error:
        plan_from((10,), {name: LATER[name]}, NOTHING)
    assert str(error.value) == f"swarm({name}=...) is not available yet in this version"


def test_defaults_can_be_given() -> None:
    given = {"rate": None, "arrival": "poisson", "reschedule": 0, "limit": None, "max_cost": None}
    assert plan_from((), given, NOTHING) == Plan()


def test_every_argument_is_typed(everything_available: None) -> None:
    plan = plan_from(
        (100, 256),
        {
            "rate": "2400/min",
            "arrival": "constant",
            "duration": "30s",
            "warmup": 3,
            "repeat": 2,
            "seed": 1,
            "model": "gpt-6-agent",
            "timeout": 4,
            "task_timeout": 5,
            "retries": 1,
            "limit": ["40/s burst 50", "200k tokens/min"],
            "backlog": 6,
            "reschedule": 7,
            "max_cost": "$2",
            "workers": 2,
        },
        NOTHING,
    )
    assert plan == Plan(
        tasks=100,
        concurrency=256,
        rate=40.0,
        arrival="constant",
        duration=30.0,
        warmup=3,
        repeat=2,
        seed=1,
        model="gpt-6-agent",
        timeout=Timeouts(total=4.0),
        task_timeout=5.0,
        retries=1,
        limit=(Limit("requests", 40, "s", 50), Limit("tokens", 200_000, "min")),
        backlog=6,
        reschedule=7,
        max_cost=2.0,
        workers=2,
    )
    assert plan.in_flight == 100
    assert plan.notes == ("100 in flight: tasks=100",)


def test_a_concurrency_that_adapts_alone_means_tasks_up_to_its_highest(everything_available: None) -> None:
    plan = plan_from((), {"concurrency": "8..256"}, NOTHING)
    assert (plan.tasks, plan.in_flight) == (256, 256)
    assert plan_from((100, "8..256"), {}, NOTHING).notes == ("at most 100 in flight: tasks=100",)


def test_at_a_rate_nothing_but_an_explicit_concurrency_caps_what_is_in_flight(everything_available: None) -> None:
    free = plan_from((100,), {"rate": "40/s"}, NOTHING)
    assert (free.tasks, free.concurrency, free.in_flight) == (100, None, 100)
    capped = plan_from((), {"rate": "40/s", "duration": "30s", "concurrency": 50}, NOTHING)
    assert (capped.tasks, capped.in_flight, capped.notes) == (None, 50, ())
    endless = plan_from((), {"rate": "40/s", "duration": "30s"}, NOTHING)
    assert (endless.tasks, endless.concurrency, endless.in_flight) == (None, None, None)


def test_a_duration_alone_ends_a_run_of_ten_at_once(everything_available: None) -> None:
    plan = plan_from((), {"duration": "30s"}, NOTHING)
    assert (plan.tasks, plan.concurrency, plan.in_flight) == (None, 10, 10)


def test_stages_need_neither_tasks_nor_concurrency(everything_available: None) -> None:
    plan = plan_from((), {"stages": [("30s", 50)]}, NOTHING)
    assert plan.stages == (Stage(30.0, 50, "concurrency"),)
    assert (plan.tasks, plan.concurrency, plan.in_flight, plan.seconds) == (None, None, 50, 30.0)
    assert plan_from((), {"stages": [("30s", 50), (10, 5)], "concurrency": 20}, NOTHING).in_flight == 20


def test_a_plan_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Plan().tasks = 3  # type: ignore[misc]  # what is tested


def test_plain_data_has_the_markers_names() -> None:
    assert plan_from((20, 5), {"timeout": {"idle": "3s"}, "model": "gpt-6-agent"}, NOTHING).to_dict() == {
        "tasks": 20,
        "concurrency": 5,
        "rate": None,
        "arrival": "poisson",
        "stages": None,
        "duration": None,
        "warmup": 0,
        "repeat": 1,
        "seed": 0,
        "model": "gpt-6-agent",
        "timeout": {"connect": None, "first_token": None, "idle": 3.0, "total": None},
        "task_timeout": None,
        "retries": 0,
        "limit": None,
        "backlog": None,
        "reschedule": 0,
        "max_cost": None,
        "workers": None,
    }


SECONDS = st.floats(min_value=0.001, max_value=1e6)
COUNTS = st.integers(min_value=1, max_value=10**6)
BOUNDS = st.fixed_dictionaries({}, optional=dict.fromkeys(("connect", "first_token", "idle", "total"), SECONDS))
ARRIVAL = st.sampled_from(["poisson", "constant", "bursty", "gamma:0.5"])
PACES = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {"rate": st.floats(0.001, 1e6).map(lambda rate: f"{rate!r}/s"), "duration": SECONDS, "arrival": ARRIVAL}
    ),
    st.fixed_dictionaries({"stages": st.lists(st.tuples(SECONDS, COUNTS), min_size=1, max_size=3)}),
    st.fixed_dictionaries({"stages": st.just([("30s", "40/s"), ("1m", "2400/min")]), "arrival": ARRIVAL}),
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "tasks": COUNTS,
        "concurrency": COUNTS,
        "reschedule": st.integers(0, 9),
        "warmup": st.integers(0, 100),
        "repeat": st.integers(1, 9),
        "seed": st.integers(0, 2**64),
        "timeout": SECONDS | BOUNDS,
        "limit": st.sampled_from(["40/s", "7 requests/min burst 3", ["40/s", "200k tokens/min"]]),
        "max_cost": SECONDS,
    },
)


@given(arguments=ARGUMENTS, pace=PACES)
def test_the_marker_takes_back_what_a_plan_says_of_itself(arguments: dict[str, Any], pace: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(available, "require", lambda *args: None)
        adapts = {} if pace else {"concurrency": "8..256"}
        plan = plan_from((), adapts | arguments | pace, NOTHING)
        assert plan_from((), plan.to_dict(), NOTHING) == plan


def test_every_argument_has_a_field_and_every_available_one_is_an_argument() -> None:
    names = {item.name for item in fields(Plan)} - {"trace"}
    assert names == available.ARGUMENTS | LATER.keys()
