"""The plan: how the tasks of a swarm are released. It is the `swarm` marker after precedence, checked and typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Final, Protocol

from pytest_swarm import available
from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.values import (
    Concurrency,
    Limit,
    Stage,
    parse_choice,
    parse_concurrency,
    parse_count,
    parse_duration,
    parse_limits,
    parse_money,
    parse_rate,
    parse_stages,
    parse_text,
    plain,
    shown,
)

__all__ = ["ARRIVALS", "DEFAULT_TASKS", "Layer", "Layers", "Plan", "Timeouts", "plan_from"]

ARRIVALS: Final = ("poisson", "constant")
"""How starts are spread at a given rate: at random times, or evenly."""

DEFAULT_TASKS: Final = 10
"""Tasks of a bare marker, all in flight at once."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one place beside the markers, the command line or the ini file, says about their arguments.

    None where it says nothing. `confidence` and `abort` are arguments of the `sla` marker, the others of `swarm`.
    """

    tasks: int | None = None
    concurrency: Concurrency | None = None
    rate: float | None = None
    """Starts per second."""
    duration: float | None = None
    """Seconds."""
    repeat: int | None = None
    seed: int | None = None
    model: str | None = None
    workers: int | None = None
    confidence: float | None = None
    abort: bool | None = None


class Layers(Protocol):
    """The two places a marker stands between: command line > marker > ini > default."""

    @property
    def command_line(self) -> Layer:
        """What beats the marker."""

    @property
    def ini(self) -> Layer:
        """What holds where the marker is silent."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Bounds on one call, in seconds; None is no bound."""

    connect: float | None = None
    first_token: float | None = None
    idle: float | None = None
    """Longest silence between two pieces of a reply."""
    total: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How a swarm is released: the arguments of the `swarm` marker. Times are seconds, money is US dollars."""

    tasks: int | None = DEFAULT_TASKS
    """None where a duration or stages alone end the run."""
    concurrency: Concurrency | None = DEFAULT_TASKS
    """As it was asked for, which may be more than `tasks`; None at a rate or in stages that nothing caps."""
    rate: float | None = None
    arrival: str = "poisson"
    stages: tuple[Stage, ...] = ()
    duration: float | None = None
    warmup: int = 0
    """Tasks that run first and are measured by nothing; they come in addition to `tasks`."""
    repeat: int = 1
    seed: int = 0
    model: str | None = None
    timeout: Timeouts = field(default_factory=Timeouts)
    task_timeout: float | None = None
    retries: int = 0
    limit: tuple[Limit, ...] = ()
    backlog: int | None = None
    reschedule: int = 0
    max_cost: float | None = None
    workers: int | None = None

    @property
    def in_flight(self) -> int | None:
        """The most tasks that can be in flight at once; None when nothing caps them."""
        highest = self.concurrency[1] if isinstance(self.concurrency, tuple) else self.concurrency
        return min((cap for cap in (highest, self.tasks) if cap is not None), default=None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the summary should say about the plan."""
        highest = self.concurrency[1] if isinstance(self.concurrency, tuple) else self.concurrency
        if self.tasks is None or highest is None or highest <= self.tasks:
            return ()
        most = "at most " if isinstance(self.concurrency, tuple) else ""
        return (f"{most}{self.tasks} in flight: tasks={self.tasks}",)

    def to_dict(self) -> dict[str, Any]:
        """Plain data under the marker's names, in a form the marker takes back: `plan_from` of it is the same plan."""
        found: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        if isinstance(self.concurrency, tuple):
            found["concurrency"] = f"{self.concurrency[0]}..{self.concurrency[1]}"
        found["rate"] = None if self.rate is None else f"{plain(self.rate)}/s"
        found["stages"] = [stage.to_list() for stage in self.stages] or None
        found["limit"] = [str(limit) for limit in self.limit] or None
        bounds = {item.name: getattr(self.timeout, item.name) for item in fields(Timeouts)}
        found["timeout"] = bounds if any(bound is not None for bound in bounds.values()) else None
        return found


def _parse_timeouts(value: object, what: str) -> Timeouts:
    """Seconds for the whole call, or a dict with any of the bounds; a bound of None is no bound."""
    if not isinstance(value, Mapping):
        return Timeouts(total=parse_duration(value, what))
    names = [item.name for item in fields(Timeouts)]
    for name in value:
        if name not in names:
            hint = nearest(str(name), names)
            raise SettingError(f"{what}: {shown(name)} is no timeout; allowed are {', '.join(names)}{hint}")
    inner = what.removesuffix("...)")
    return Timeouts(
        **{
            name: parse_duration(bound, f"{inner}{{{name!r}: ...}})")
            for name, bound in value.items()
            if bound is not None
        }
    )


_natural = partial(parse_count, minimum=0)

_PARSERS: Final[Mapping[str, Callable[[object, str], Any]]] = {
    "tasks": parse_count,
    "concurrency": parse_concurrency,
    "rate": parse_rate,
    "arrival": partial(parse_choice, allowed=ARRIVALS),
    "stages": parse_stages,
    "duration": parse_duration,
    "warmup": _natural,
    "repeat": parse_count,
    "seed": _natural,
    "model": parse_text,
    "timeout": _parse_timeouts,
    "task_timeout": parse_duration,
    "retries": _natural,
    "limit": parse_limits,
    "backlog": _natural,
    "reschedule": _natural,
    "max_cost": parse_money,
    "workers": parse_count,
}
_BY_POSITION: Final = ("tasks", "concurrency")
_LAYERED: Final = tuple(item.name for item in fields(Layer) if item.name in _PARSERS)


def plan_from(args: Sequence[object], kwargs: Mapping[str, object], layers: Layers) -> Plan:
    """The plan of a `swarm` marker with the arguments `args` and `kwargs`.

    Raises:
        SettingError: an argument is unknown, cannot be used, or does not go with another one.
        NotAvailable: everything is right, and this version cannot do it yet.
    """
    marked = _parse(_bind(args, kwargs))
    given = _layer(layers.ini) | marked | _layer(layers.command_line)
    _check_together(given, lambda name: _place(name, marked, layers))
    plan = Plan(**_with_defaults(given))
    for name, value in marked.items():
        if value != getattr(_DEFAULTS, name):
            available.require(name, value, available.ARGUMENTS, f"swarm({name}=...)")
    return plan


_DEFAULTS: Final = Plan()


def _bind(args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
    """Arguments by name. None is what an argument is that was not given."""
    if len(args) > len(_BY_POSITION):
        extra = shown(args[len(_BY_POSITION)])
        raise SettingError(f"swarm(): {extra} has no name; only tasks and concurrency are taken by position")
    found: dict[str, object] = dict(zip(_BY_POSITION, args, strict=False))
    for name, value in kwargs.items():
        if name in found:
            raise SettingError(f"swarm({name}=...): given twice, by position and by name; drop one")
        if name not in _PARSERS:
            hint = nearest(name, _PARSERS)
            raise SettingError(f"swarm({name}=...): no such argument; allowed are {', '.join(_PARSERS)}{hint}")
        found[name] = value
    return {name: value for name, value in found.items() if value is not None}


def _parse(bound: Mapping[str, object]) -> dict[str, Any]:
    return {name: _PARSERS[name](value, f"swarm({name}=...)") for name, value in bound.items()}


def _layer(layer: Layer) -> dict[str, Any]:
    values = ((name, getattr(layer, name)) for name in _LAYERED)
    return {name: value for name, value in values if value is not None}


def _place(name: str, marked: Mapping[str, Any], layers: Layers) -> str:
    """Where the argument that holds was written."""
    if getattr(layers.command_line, name, None) is not None:
        return f"--swarm-{name}"
    return f"swarm({name}=...)" if name in marked else f"ini option swarm_{name}"


def _check_together(given: Mapping[str, Any], place: Callable[[str], str]) -> None:
    for other in ("rate", "duration"):
        if "stages" in given and other in given:
            raise SettingError(f"{place('stages')} and {place(other)} exclude each other; drop one")
    if "rate" in given and "tasks" not in given and "duration" not in given:
        rate = f"{plain(given['rate'])}/s"
        raise SettingError(f"{place('rate')}: {rate!r} alone never ends; add tasks, a duration, or both")


def _with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with tasks and concurrency filled in from each other, where something has to be."""
    found = dict(given)
    tasks, concurrency = given.get("tasks"), given.get("concurrency")
    paced = "rate" in given or "stages" in given
    ends = paced or "duration" in given
    highest = concurrency[1] if isinstance(concurrency, tuple) else concurrency
    found["tasks"] = tasks if tasks is not None or ends else highest or DEFAULT_TASKS
    found["concurrency"] = concurrency if concurrency is not None or paced else tasks or DEFAULT_TASKS
    return found
