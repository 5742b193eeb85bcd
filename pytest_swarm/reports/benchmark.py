"""The bridge to pytest-benchmark: samples of swarms as entries of its table, its saved files and its comparisons.

pytest-benchmark's public way makes one entry per test, and only while the test runs; a swarm has several (its latency,
its time to first token), known when it has been judged. So entries are put where its own fixture puts them, before it
finishes. Everything here that reaches into it is held by `tests/contract/test_pytest_benchmark.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_swarm.columns import SwarmResult
from pytest_swarm.judging.baseline import pooled
from pytest_swarm.judging.metrics import SwarmMetrics
from pytest_swarm.judging.sla import parse_metric
from pytest_swarm.reports.baseline_file import runs_of_rows

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

__all__ = ["BenchmarkBridge"]

ENTRIES: Final = ("latency", "ttft")
"""Distributions that are entries: seconds per passed task, and per call that was streamed."""
ASKING: Final = (
    *("benchmark_only", "benchmark_enable", "benchmark_save", "benchmark_autosave", "benchmark_json"),
    *("benchmark_compare", "benchmark_compare_fail", "benchmark_histogram"),
)
"""Options of pytest-benchmark that ask for a result of it, by pytest's names."""
COMPARABLE: Final = ("tasks", "concurrency", "seed", "model", "gateway", "clock")
"""What must not differ from the saved entry that an entry is compared with: it is matched by its name only."""
FIGURES: Final = (
    *("p50", "p90", "p95", "p99"),
    *("success_rate", "throughput", "cost_per_100"),
)


@dataclass(slots=True)
class _Test:
    """What pytest-benchmark wants to know of a test."""

    name: str
    param: str | None
    params: dict[str, Any] | None
    group: str | None
    failed: bool = False
    records: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class _Entry:
    """In place of pytest-benchmark's fixture, from which it copies what an entry is called."""

    name: str
    fullname: str
    group: str
    param: str | None
    params: dict[str, Any] | None
    extra_info: dict[str, Any]
    has_error: bool
    cprofile_stats: None = None


class BenchmarkBridge:
    """Registered where pytest-benchmark is, in workers of xdist too, where that makes no entries.

    `wanted` is the ini key `swarm_benchmark`.
    """

    def __init__(self, config: pytest.Config, is_swarm: Callable[[pytest.Function], bool], *, wanted: bool) -> None:
        self._config = config
        self._is_swarm = is_swarm
        self._wanted = wanted
        self._tests: dict[str, _Test] = {}
        self._told: list[str] = []

    @property
    def _asked(self) -> bool:
        return self._wanted or any(self._config.getoption(name, None) for name in ASKING)

    @property
    def _session(self) -> Any:
        """pytest-benchmark's session; it is there from the end of `pytest_configure` on."""
        return self._config._benchmarksession  # type: ignore[attr-defined]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Let swarm tests be benchmarks while pytest-benchmark looks for these, to skip them or the others."""
        swarms = [item for item in items if isinstance(item, pytest.Function) and self._is_swarm(item)]
        session = self._session
        with _with_benchmark(swarms if session.only or session.skip or self._asked else []):
            yield
        for item in swarms:
            marker = item.get_closest_marker("benchmark")
            call = getattr(item, "callspec", None)
            self._tests[item.nodeid] = _Test(
                item.name,
                None if call is None else call.id,
                None if call is None else call.params,
                None if marker is None else marker.kwargs.get("group"),
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what came of a swarm test."""
        test = self._tests.get(report.nodeid)
        if test is not None:
            test.failed |= report.outcome != "passed"
            test.records.extend(getattr(report, "swarm_records", ()))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None]:
        """Hand over the entries: before pytest-benchmark saves and compares, and before rows are removed."""
        if self._asked and not self._session.disabled:
            for test in self._tests.values():
                for number, record in enumerate(test.records, 1):
                    suffix = f" #{number}" if len(test.records) > 1 else ""
                    for entry, samples in _entries(test, record, suffix):
                        self._add(entry, samples)
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Below the table, say what in it does not compare."""
        for line in self._told:
            terminalreporter.write_line(line, yellow=True)

    def _add(self, entry: _Entry, samples: Iterable[float]) -> None:
        from pytest_benchmark import stats

        metadata: Any = stats.Metadata
        benchmark = metadata(entry, iterations=1, options={})
        for seconds in samples:
            benchmark.update(seconds)
        self._session.benchmarks.append(benchmark)
        self._told.extend(self._differences(entry))

    def _differences(self, entry: _Entry) -> Iterator[str]:
        """What makes an entry another thing than the saved one that pytest-benchmark compares it with."""
        for path, saved in self._session.compared_mapping.items():
            former = saved.get(entry.fullname, {}).get("extra_info", {}).get("swarm")
            if former is None:
                continue
            now = entry.extra_info["swarm"]
            pairs = [(name, former.get(name), now[name]) for name in COMPARABLE]
            told = [f"{name} ({then} there, {here} here)" for name, then, here in pairs if then != here]
            if told:
                yield f"swarm: {entry.fullname} is not what it was in {Path(path).name}: {', '.join(told)}"


@contextmanager
def _with_benchmark(items: list[pytest.Function]) -> Iterator[None]:
    """For the length of the block, the items seem to use the fixture `benchmark`."""
    names = [item.fixturenames for item in items]
    for item in items:
        item.fixturenames = [*item.fixturenames, "benchmark"]
    try:
        yield
    finally:
        for item, before in zip(items, names, strict=True):
            item.fixturenames = before


def _entries(test: _Test, record: Mapping[str, Any], suffix: str) -> Iterator[tuple[_Entry, Sequence[float]]]:
    """The entries of one record with their samples; a distribution without values has none."""
    for name in ENTRIES:
        samples = _samples(record, name)
        if samples:
            source = " (REPLAY)" if record["replay"] else " (SIMULATED)" if record["simulated"] else ""
            group = f"{test.group or f'swarm {name}'}{source}"
            yield (
                _Entry(
                    f"{test.name} {name}{suffix}",
                    f"{record['nodeid']} {name}{suffix}",
                    group,
                    test.param,
                    test.params,
                    {"swarm": _about(record, name)},
                    # What did not pass is shown, and never saved: it must not become what others are compared with.
                    has_error=test.failed or record["verdict"] != "pass",
                ),
                samples,
            )


def _samples(record: Mapping[str, Any], name: str) -> Sequence[float]:
    if record["search"] is not None:
        # Runs under many loads: their times together are of nothing.
        return []
    runs = runs_of_rows(record["rows"])
    result = SwarmResult(record["nodeid"], record["model"], "", None, record["clock"], {}, runs)
    return pooled(SwarmMetrics(result), parse_metric(f"{name}.p50"))


def _about(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What an entry is of: its percentiles, and under which plan and whose clock they were measured."""
    metrics, plan = record["metrics"], record["plan"]
    return {
        "metric": name,
        **{figure: metrics.get(f"{name}.{figure}" if figure.startswith("p") else figure) for figure in FIGURES},
        "verdict": record["verdict"],
        "tasks": plan.get("tasks"),
        "concurrency": plan.get("concurrency"),
        "seed": plan.get("seed"),
        "model": record["model"],
        "gateway": record["gateway"]["kind"],
        "clock": record["clock"],
        "simulated": record["simulated"],
        "plan": plan,
    }
