"""The plan: how the tasks of a swarm are released. It is the `swarm` marker after precedence, checked and typed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from pytest_swarm import available
from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.records import Arrival
from pytest_swarm.swarm.arrivals import gamma_shape
from pytest_swarm.swarm.trace import is_trace, read_trace
from pytest_swarm.values import (
    Concurrency,
    Limit,
    Stage,
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

__all__ = ["ARRIVALS", "DEFAULT_TASKS", "Layer", "Layers", "Plan", "Timeouts", "plan_from", "with_trace"]

ARRIVALS: Final = ("poisson", "constant", "bursty")
"""How starts are spread at a given rate: at random times, evenly, or in clumps. ``gamma:0.5`` sets how clumped."""

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
    trace: tuple[Arrival, ...] = ()
    """The rows of the file that `arrival` names; they set when tasks are due."""

    @property
    def is_open(self) -> bool:
        """Whether tasks are due at times of their own, and not when others have ended."""
        return self.rate is not None or bool(self.trace) or any(stage.kind == "rate" for stage in self.stages)

    @property
    def seconds(self) -> float | None:
        """When releasing ends; None where only the number of tasks ends it."""
        return math.fsum(stage.seconds for stage in self.stages) if self.stages else self.duration

    @property
    def in_flight(self) -> int | None:
        """The most tasks that can be in flight at once; None when nothing caps them."""
        highest = self.concurrency[1] if isinstance(self.concurrency, tuple) else self.concurrency
        levels = None if self.is_open else max((int(stage.target) for stage in self.stages), default=None)
        return min((cap for cap in (highest, levels, self.tasks) if cap is not None), default=None)

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
        found: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "trace"}
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


def _parse_arrival(value: object, what: str) -> str:
    """One of `ARRIVALS`, ``gamma:<shape>``, or the path of a trace."""
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, str):
        word = value.strip()
        if is_trace(word) or gamma_shape(word) is not None:
            return word
        if word.startswith("gamma"):
            raise SettingError(
                f"{what}: {shown(value)} is no arrival; write the shape as a number above 0: 'gamma:0.5'"
            )
    if value in ARRIVALS:
        return str(value)
    hint = nearest(value.strip().lower(), ARRIVALS) if isinstance(value, str) else ""
    raise SettingError(
        f"{what}: {shown(value)} is not allowed; choose one of {', '.join(ARRIVALS)}, gamma:<shape>, "
        f"or name a trace, a .csv or .jsonl file{hint}"
    )


_natural = partial(parse_count, minimum=0)

_PARSERS: Final[Mapping[str, Callable[[object, str], Any]]] = {
    "tasks": parse_count,
    "concurrency": parse_concurrency,
    "rate": parse_rate,
    "arrival": _parse_arrival,
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
            available.require(name, available.ARGUMENTS, f"swarm({name}=...)")
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


def with_trace(plan: Plan, root: Path) -> Plan:
    """The plan with the rows of the trace that its `arrival` names, if any; a relative path counts from `root`.

    Raises:
        SettingError: the file cannot be read, or a row is wrong.
    """
    if not is_trace(plan.arrival):
        return plan
    return replace(plan, trace=read_trace(root / plan.arrival, "swarm(arrival=...)"))


def _check_together(given: Mapping[str, Any], place: Callable[[str], str]) -> None:
    stages, traced = given.get("stages"), is_trace(given.get("arrival", ""))
    for name, others in (("stages", ("rate", "duration")), ("arrival", ("rate", "stages"))):
        for other in others:
            if name in given and other in given and (name != "arrival" or traced):
                raise SettingError(f"{place(name)} and {place(other)} exclude each other; drop one")
    if "rate" in given and "tasks" not in given and "duration" not in given:
        rate = f"{plain(given['rate'])}/s"
        raise SettingError(f"{place('rate')}: {rate!r} alone never ends; add tasks, a duration, or both")
    paced = "rate" in given or traced or bool(stages and stages[0].kind == "rate")
    if given.get("arrival", "poisson") != "poisson" and not paced:
        raise SettingError(f"{place('arrival')} spreads starts over time, and nothing sets a rate; add rate='40/s'")
    if (stages or paced) and isinstance(given.get("concurrency"), tuple):
        name = "rate" if "rate" in given else "stages" if stages else "arrival"
        low, high = given["concurrency"]
        raise SettingError(
            f"{place(name)} sets the load, and {place('concurrency')}: '{low}..{high}' would look for one; drop one of "
            f"them, or write concurrency={high} as a ceiling"
        )
    if "backlog" in given and not (paced and given.get("concurrency") is not None):
        need = (
            "a concurrency, above which tasks wait" if paced else "a rate: a closed loop starts no task that must wait"
        )
        raise SettingError(f"{place('backlog')} needs {need}; add one, or drop it")


def _with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with tasks and concurrency filled in from each other, where something has to be."""
    found = dict(given)
    tasks, concurrency = given.get("tasks"), given.get("concurrency")
    paced = "rate" in given or "stages" in given or is_trace(given.get("arrival", ""))
    ends = paced or "duration" in given
    highest = concurrency[1] if isinstance(concurrency, tuple) else concurrency
    found["tasks"] = tasks if tasks is not None or ends else highest or DEFAULT_TASKS
    found["concurrency"] = concurrency if concurrency is not None or paced else tasks or DEFAULT_TASKS
    return found
