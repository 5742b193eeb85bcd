"""The hooks. Whatever only a swarm needs is imported when the first swarm test is met."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_swarm.errors import SettingError
from pytest_swarm.fixtures import agent, gateway, swarm, swarm_agent, swarm_gateway
from pytest_swarm.gathering import Gathering, describe_session, put_on_report
from pytest_swarm.items import MARKERS, demands_of, marks_of, own_fixture, wants_event_loop
from pytest_swarm.options import register
from pytest_swarm.planning import put_plan_on_report, skip_planned
from pytest_swarm.session import CHECKED, DEMANDS, SESSION, TRIAL, SwarmSession
from pytest_swarm.settings import read_settings

__all__ = ["agent", "gateway", "swarm", "swarm_agent", "swarm_gateway"]

FOREIGN = "pytest-swarm"
"""Another distribution with the same import package and the same marker: beside it, swarm tests would pass unrun."""


def pytest_addoption(parser: pytest.Parser) -> None:
    register(parser)


def pytest_configure(config: pytest.Config) -> None:
    _refuse_foreign()
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    try:
        session = config.stash[SESSION] = SwarmSession(config, read_settings(config))
    except SettingError as error:
        raise pytest.UsageError(f"swarm: {error}") from None
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Gathering(session), "llm-swarm-gathering")
        config.pluginmanager.register(session.ceiling, "llm-swarm-ceiling")
    _bridge_to_benchmark(config, session)


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(SESSION, None)
    if session is not None:
        session.close()


def _bridge_to_benchmark(config: pytest.Config, session: SwarmSession) -> None:
    if config.pluginmanager.hasplugin("benchmark"):
        from pytest_swarm.reports.benchmark import BenchmarkBridge

        bridge = BenchmarkBridge(config, _is_swarm, wanted=session.settings.benchmark)
        config.pluginmanager.register(bridge, "llm-swarm-benchmark")


def _is_swarm(item: pytest.Function) -> bool:
    """Whether a test is more than one measured call."""
    marked = DEMANDS in item.stash and item.get_closest_marker("swarm") is not None
    return marked or own_fixture(item, ("swarm",))


def _refuse_foreign() -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(FOREIGN)
    except PackageNotFoundError:
        return
    raise pytest.UsageError(
        f"the distribution {FOREIGN!r} is installed beside 'pytest-llm-swarm' and overwrites its package; run: "
        f"pip uninstall -y {FOREIGN} pytest-llm-swarm && pip install pytest-llm-swarm"
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> Generator[None, Any, Any]:
    has_asyncio = collector.config.pluginmanager.hasplugin("asyncio")
    if has_asyncio and collector.istestfunction(obj, name) and wants_event_loop(collector, obj):
        pytest.mark.asyncio(obj)
    found = yield
    for item in found if isinstance(found, list) else [found]:
        if isinstance(item, pytest.Item):
            try:
                _check(item)
            except SettingError as error:
                raise collector.CollectError(f"{item.nodeid}: {error}") from None
    return found


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Markers that a conftest has added are met here for the first time."""
    problems = []
    for item in items:
        if item.stash.get(CHECKED, None) != marks_of(item):
            try:
                _check(item)
            except SettingError as error:
                problems.append(f"swarm: {item.nodeid}: {error}")
    if problems:
        raise pytest.UsageError(*problems)


def _check(item: pytest.Item) -> None:
    item.stash[CHECKED] = marks_of(item)
    session = item.config.stash[SESSION]
    demands = demands_of(item, session.settings)
    if demands is not None:
        session.check_model(demands)
        item.stash[DEMANDS] = demands


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    swarms = sum(DEMANDS in item.stash for item in items)
    return describe_session(config.stash[SESSION], swarms) if swarms else []


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture is made, and behind the markers that skip a test: that needs no cassette and no gateway."""
    demands = item.stash.get(DEMANDS, None)
    settings = item.config.stash[SESSION].settings
    if settings.plan:
        skip_planned(item, demands, settings)
    if demands is not None and isinstance(item, pytest.Function):
        item.config.stash[SESSION].open_trial(item, demands)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    trial = item.stash.get(TRIAL, None)
    if trial is None or not isinstance(item, pytest.Function):
        return (yield)
    if own_fixture(item, ("swarm",)):
        trial.leave_to_body()
        return (yield)
    with item.config.stash[SESSION].swarming(item, trial):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    put_plan_on_report(item, report)
    if call.when == "call":
        put_on_report(item, item.config.stash[SESSION].records_of(item), report)
    return report


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    item.config.stash[SESSION].close_trials(item)
