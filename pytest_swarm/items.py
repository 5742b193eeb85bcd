"""Which tests are swarms, and what their markers demand. All of it is checked while tests are collected."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.judging.sla import Expression, TaskBound, parse, parse_per_task
from pytest_swarm.swarm.plan import plan_from, with_trace
from pytest_swarm.swarm.searching import search_from
from pytest_swarm.values import parse_probability, shown

if TYPE_CHECKING:
    from pytest_swarm.demands import Demands
    from pytest_swarm.settings import Settings

__all__ = [
    "MARKERS",
    "demands_of",
    "has_event_loop",
    "is_ours",
    "marks_of",
    "own_fixture",
    "parametrised_model",
    "refusal",
    "shared_fixtures",
    "wants_event_loop",
]

MARKERS: Final = (
    "swarm(tasks, concurrency, *, warmup, repeat, seed, model, timeout, ...): run the body as many tasks at a time",
    'sla("expression", ..., confidence=None, abort=False, per_task=[...]): service levels, such as "p99 < 3s"',
    'json_output(schema, mode="strict"): every reply must be JSON that fits the schema (a dict, a path, a model class)',
    "swarm_search(metric, low, high, sla=[...]): find the largest load that holds the levels",
)

GATEWAY_FIXTURES: Final = ("gateway", "swarm_gateway")
OWN_FIXTURES: Final = (*GATEWAY_FIXTURES, "agent", "swarm_agent", "swarm")
SHARED_FIXTURES: Final = frozenset(
    {"capsys", "capfd", "capsysbinary", "capfdbinary", "capteesys", "caplog", "recwarn", "monkeypatch"}
)
"""Fixtures of pytest that change state of the whole process, while many tasks run in it."""
JSON_MODES: Final = ("strict", "lenient")
OTHER_LOOPS: Final = frozenset({"asyncio", "anyio", "trio"})


def own_fixture(item: pytest.Function, names: tuple[str, ...] = OWN_FIXTURES) -> bool:
    """Whether the test uses one of our fixtures; one of the user's own with the same name is not ours."""
    definitions = item._fixtureinfo.name2fixturedefs
    return any(name in definitions and is_ours(definitions[name][-1].func) for name in names)


def is_ours(function: Callable[..., object]) -> bool:
    """Whether a fixture function is this package's."""
    return getattr(function, "__module__", "") == "pytest_swarm.fixtures"


def wants_event_loop(collector: pytest.Collector, obj: object) -> bool:
    """Whether `obj` is an async swarm test that nobody has claimed for an event loop yet."""
    if not inspect.iscoroutinefunction(obj):
        return False
    marks = {mark.name for mark in getattr(obj, "pytestmark", [])} | {mark.name for mark in collector.iter_markers()}
    if marks & OTHER_LOOPS:
        return False
    if "swarm" in marks:
        return True
    manager = collector.session._fixturemanager
    for parameter in inspect.signature(obj).parameters:
        if parameter in (*GATEWAY_FIXTURES, "swarm"):
            definitions = manager.getfixturedefs(parameter, collector)
            if definitions and is_ours(definitions[-1].func):
                return True
    return False


def has_event_loop(item: pytest.Item) -> bool:
    """Whether a plugin will run this async test on a loop."""
    plugins = item.config.pluginmanager
    return any(item.get_closest_marker(name) and plugins.hasplugin(name) for name in OTHER_LOOPS)


def marks_of(item: pytest.Item) -> list[pytest.Mark]:
    """The markers of an item that say something to us."""
    return [mark for mark in item.iter_markers() if mark.name in {"swarm", "sla", "json_output", "swarm_search"}]


def refusal(item: pytest.Item) -> str | None:
    """Why an item cannot be a swarm, or None."""
    kind = None
    if not isinstance(item, pytest.Function):
        kind = "a doctest or another item that is no function"
    elif item.cls is not None and hasattr(item.cls, "assertEqual") and hasattr(item.cls, "run"):
        kind = "a method of a unittest.TestCase"
    elif hasattr(item.obj, "hypothesis") or hasattr(getattr(item.obj, "__func__", None), "hypothesis"):
        kind = "a hypothesis test"
    elif inspect.isasyncgenfunction(item.obj) or inspect.isgeneratorfunction(item.obj):
        kind = "a generator"
    if kind is None:
        return None
    return f"@pytest.mark.swarm needs a plain test function or method; this is {kind}"


def shared_fixtures(item: pytest.Function) -> list[str]:
    """Fixtures of the test whose value all its agents would change under each other."""
    return sorted(SHARED_FIXTURES & set(item._fixtureinfo.argnames))


def demands_of(item: pytest.Item, settings: Settings) -> Demands | None:
    """What the markers of a test demand; None for a test that is none of ours.

    Raises `SettingError` naming the argument, what is allowed and the nearest spelling.
    """
    swarm = item.get_closest_marker("swarm")
    searching = item.get_closest_marker("swarm_search")
    if swarm is None:
        if searching is not None:
            raise SettingError("@pytest.mark.swarm_search needs @pytest.mark.swarm beside it; add it")
        if item.get_closest_marker("sla") is not None:
            raise SettingError("@pytest.mark.sla judges a swarm, and this test has no @pytest.mark.swarm; add it")
        if not isinstance(item, pytest.Function) or not own_fixture(item, GATEWAY_FIXTURES):
            return None
    refused = refusal(item)
    if refused is not None:
        raise SettingError(refused)
    assert isinstance(item, pytest.Function)
    expressions, per_task = _service_levels(item, settings)
    search = None
    if swarm is None:
        plan = plan_from((), {"tasks": 1, "concurrency": 1}, _SeedAndModel(settings))
    elif searching is None:
        plan = with_trace(plan_from(swarm.args, swarm.kwargs, settings), settings.root)
    else:
        search, levels = search_from(searching.args, searching.kwargs, swarm.args, swarm.kwargs, settings)
        plan = search.at(search.low)
        expressions = _searched(levels, expressions)
    from pytest_swarm.demands import Demands

    model = parametrised_model(item)
    rule = _json_rule(item)
    return Demands(plan, expressions, per_task, rule, model or plan.model, model is not None, search)


def _searched(levels: tuple[str, ...], others: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """What must hold for a load: the levels of the search, and those of the test."""
    expressions = [*(_expression(text, "swarm_search(sla=...)") for text in levels), *others]
    if not expressions:
        raise SettingError("swarm_search(sla=...): nothing says what must hold; name a level such as sla=['p95 < 5s']")
    return tuple(dict.fromkeys(expressions))


class _SeedAndModel:
    """The settings for a single measured call: options that size a load do not apply to it."""

    def __init__(self, settings: Settings) -> None:
        from pytest_swarm.swarm.plan import Layer

        self.command_line = Layer(seed=settings.command_line.seed, model=settings.command_line.model)
        self.ini = Layer(seed=settings.ini.seed, model=settings.ini.model)


def parametrised_model(item: pytest.Function) -> str | None:
    """The model by which the test is parametrised."""
    model = item.callspec.params.get("model") if hasattr(item, "callspec") else None
    return model if isinstance(model, str) else None


def _service_levels(item: pytest.Item, settings: Settings) -> tuple[tuple[Expression, ...], tuple[TaskBound, ...]]:
    """All `sla` markers of a test, the outermost first, then ``--swarm-sla``; the same line twice is one."""
    expressions: list[Expression] = []
    bounds: list[TaskBound] = []
    for mark in reversed(list(item.iter_markers("sla"))):
        expressions.extend(_levels(mark.args, "sla(...)", mark, settings))
        for name, value in mark.kwargs.items():
            if name == "per_task":
                bounds.extend(_bounds(value))
            elif name not in ("confidence", "abort"):
                allowed = ("confidence", "abort", "per_task")
                hint = nearest(name, allowed)
                raise SettingError(f"sla({name}=...): no such argument; allowed are {', '.join(allowed)}{hint}")
        if not mark.args and "per_task" not in mark.kwargs:
            raise SettingError('sla(): names no service level; write one such as sla("p99 < 3s")')
    if item.get_closest_marker("swarm") is not None:
        expressions.extend(_levels(settings.sla, "--swarm-sla", None, settings))
    return tuple(dict.fromkeys(expressions)), tuple(dict.fromkeys(bounds))


def _levels(texts: Iterable[object], what: str, mark: pytest.Mark | None, settings: Settings) -> Iterator[Expression]:
    """Expressions with the terms on which they are judged."""
    confidence, abort = _confidence(mark, settings), _abort(mark, settings)
    for text in texts:
        yield replace(_expression(text, what), confidence=confidence, abort=abort)


def _confidence(mark: pytest.Mark | None, settings: Settings) -> float | None:
    given = None if mark is None else mark.kwargs.get("confidence")
    return settings.confidence_of(None if given is None else parse_probability(given, "sla(confidence=...)"))


def _abort(mark: pytest.Mark | None, settings: Settings) -> bool:
    marked = None if mark is None else mark.kwargs.get("abort")
    if marked not in (None, True, False):
        raise SettingError(f"sla(abort=...): {shown(marked)} is neither True nor False")
    return settings.abort_of(marked)


def _expression(text: object, what: str) -> Expression:
    if not isinstance(text, str):
        raise SettingError(f"{what}: {shown(text)} is no expression; write a string such as 'p99 < 3s'")
    try:
        return parse(text)
    except SettingError as error:
        raise SettingError(f"{what}: {error}") from None


def _bounds(value: Any) -> Iterator[TaskBound]:
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise SettingError(f"sla(per_task=...): {shown(value)} is no list; write one such as ['latency < 3s']")
    for text in value:
        if not isinstance(text, str):
            raise SettingError(f"sla(per_task=...): {shown(text)} is no bound; write a string such as 'latency < 3s'")
        try:
            yield parse_per_task(text)
        except SettingError as error:
            raise SettingError(f"sla(per_task=...): {error}") from None


def _json_rule(item: pytest.Item) -> Any:
    mark = item.get_closest_marker("json_output")
    if mark is None:
        return None
    given = {**dict(zip(("schema", "mode"), mark.args, strict=False)), **mark.kwargs}
    if len(mark.args) > 2 or "schema" not in given:
        raise SettingError(
            "json_output(): takes a schema and a mode; write json_output({...}) or json_output({...}, 'lenient')"
        )
    for name in given:
        if name not in {"schema", "mode"}:
            hint = nearest(name, ("schema", "mode"))
            raise SettingError(f"json_output({name}=...): no such argument; allowed are schema, mode{hint}")
    mode = given.get("mode", "strict")
    if mode not in JSON_MODES:
        raise SettingError(
            f"json_output(mode=...): {shown(mode)} is no mode; allowed are {', '.join(JSON_MODES)}"
            f"{nearest(str(mode), JSON_MODES)}"
        )
    from pytest_swarm.gateway.reply import JsonRule

    validator = _validator(given["schema"], item)
    return JsonRule(mode, validator, validator.schema)


def _validator(schema: Any, item: pytest.Item) -> Any:
    from pathlib import Path

    from pytest_swarm.reading.json_output import Validator

    try:
        if isinstance(schema, dict):
            return Validator(schema)
        if isinstance(schema, (str, Path)):
            return Validator.from_path(item.path.parent / schema)
        if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
            return Validator.from_model(schema)
    except SettingError as error:
        raise SettingError(f"json_output(schema=...): {error}") from None
    raise SettingError(
        f"json_output(schema=...): {shown(schema)} is no schema; give a dict, the path of a JSON file, or a pydantic "
        "model class"
    )
