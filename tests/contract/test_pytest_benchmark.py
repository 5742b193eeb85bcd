"""What the bridge to pytest-benchmark reaches into, in the version that is installed: there is no public way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_benchmark import plugin, stats

from pytest_swarm.reports.benchmark import ASKING, _Entry


@pytest.fixture(autouse=True)
def ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")


@pytest.fixture
def config(pytester: pytest.Pytester) -> Iterator[pytest.Config]:
    found = pytester.parseconfigure()
    yield found
    found._ensure_unconfigure()


def entry(**changed: Any) -> Any:
    about = {
        "name": "test_a latency",
        "fullname": "test_it.py::test_a latency",
        "group": "swarm latency",
        "param": "m",
        "params": {"model": "m"},
        "extra_info": {"swarm": {"p99": 2.0}},
        "has_error": False,
    }
    benchmark = stats.Metadata(_Entry(**{**about, **changed}), iterations=1, options={})
    for seconds in (2.0, 1.0):
        benchmark.update(seconds)
    return benchmark


def test_its_session_takes_entries_and_tells_what_it_will_do(config: pytest.Config) -> None:
    session = config._benchmarksession  # type: ignore[attr-defined]
    assert session.benchmarks == []
    assert session.compared_mapping == {}
    assert [session.disabled, session.only, session.skip] == [False, False, False]


def test_its_options_are_off_unless_given(config: pytest.Config) -> None:
    assert {name: config.getoption(name) for name in ASKING if config.getoption(name)} == {}


def test_its_marker_names_the_group(config: pytest.Config) -> None:
    assert any(line.startswith("benchmark:") for line in config.getini("markers"))


def test_an_entry_is_described_as_its_own_are(config: pytest.Config) -> None:
    found = entry()
    assert bool(found)
    told = found.as_dict()
    assert json.loads(json.dumps(told)) == told
    about = {name: told[name] for name in ("name", "fullname", "group", "param", "params", "extra_info")}
    assert about == {
        "name": "test_a latency",
        "fullname": "test_it.py::test_a latency",
        "group": "swarm latency",
        "param": "m",
        "params": {"model": "m"},
        "extra_info": {"swarm": {"p99": 2.0}},
    }
    assert (told["stats"]["data"], told["stats"]["median"], told["stats"]["rounds"]) == ([2.0, 1.0], 1.5, 2)
    assert found["max"] == 2.0


def test_an_entry_with_an_error_is_in_no_saved_file(config: pytest.Config) -> None:
    saved = plugin.pytest_benchmark_generate_json(config, [entry(), entry(has_error=True)], True, {}, {})
    assert [one["fullname"] for one in saved["benchmarks"]] == ["test_it.py::test_a latency"]


def test_it_finds_benchmarks_by_the_names_of_their_fixtures(pytester: pytest.Pytester) -> None:
    items = pytester.getitems("def test_a(): pass\ndef test_b(): pass\n")
    items[0].fixturenames = ["benchmark"]  # type: ignore[attr-defined]
    config = items[0].config
    session = config._benchmarksession  # type: ignore[attr-defined]
    session.skip = True
    plugin.pytest_collection_modifyitems(config, items)
    assert [item.get_closest_marker("skip") is not None for item in items] == [True, False]


def test_it_finishes_before_others_do(config: pytest.Config) -> None:
    # As a wrapper, so that only a wrapper that is tried first can come before.
    hook = plugin.pytest_sessionfinish.pytest_impl
    assert hook["hookwrapper"] or hook["wrapper"]
    assert not hook["tryfirst"]
