"""Bringing the records of all tests together, whichever process ran them, and telling the result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_swarm.errors import SettingError
from pytest_swarm.planning import plans_of

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from pytest_swarm.session import SwarmSession

__all__ = ["Gathering", "describe_session", "put_on_report"]

_RECORDING = {
    "missing": "recording swarms that have no cassette to {}, playing the others from it",
    "all": "recording every swarm anew to {}",
    "check": "asking again a sample of each cassette in {}",
}

_ATTRIBUTE = "swarm_records"
"""Of a test report: the test records, plain data that xdist carries to the controller."""


def put_on_report(item: pytest.Item, records: list[dict[str, Any]], report: pytest.TestReport) -> None:
    """Attach the records of a finished test to its report, and what JUnit should know to its properties."""
    setattr(report, _ATTRIBUTE, records)
    for record in records:
        figures = {"verdict": record["verdict"], "gateway": record["gateway"]["kind"], "clock": record["clock"]}
        for name in ("latency.p50", "latency.p95", "latency.p99", "success_rate", "cost"):
            figures[name] = record["metrics"].get(name)
        # On the item: JUnit's file is written from the report of the teardown, which is made from it.
        item.user_properties.extend((f"swarm.{name}", value) for name, value in figures.items() if value is not None)


def describe_session(session: SwarmSession, swarms: int) -> list[str]:
    """Lines under the collection: what the swarms will talk to, and what is kept of it."""
    tests = "1 swarm test" if swarms == 1 else f"{swarms} swarm tests"
    lines = [f"swarm: {tests}, {_source(session)}"]
    if session.recordings is not None:
        what = _RECORDING[session.recordings.mode].format(_shown(session.cassette_dir))
        lines.append(f"swarm: {what}")
    return lines


def _shown(path: Path) -> str:
    """As seen from where pytest was called, if it is below."""
    here = Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}/"


def _source(session: SwarmSession) -> str:
    settings = session.settings
    if settings.replay:
        speed = settings.replay_speed
        clock = f"{speed} time" if isinstance(speed, str) else f"{speed:g} times as fast"
        return f"REPLAY of the cassettes in {_shown(session.cassette_dir)}, {clock}: no model is called"
    if settings.base_url is None:
        systems = ", ".join(session.systems)
        return f"SIMULATED gateway ({systems}): no model is called; --swarm-base-url names a real one"
    key = f", key from {settings.api_key_variable}" if settings.api_key_variable else ""
    return f"live gateway {settings.base_url}{key}"


class Gathering:
    """Registered in the one process where results come together; never in a worker of xdist."""

    def __init__(self, session: SwarmSession) -> None:
        self._session = session
        self._records: list[dict[str, Any]] = []
        self._planned: list[dict[str, Any]] = []
        """What would be released, where nothing is."""
        self._ceiling: dict[str, Any] | None = None
        """How the cost ceiling of the whole run stands, once it is over."""
        self._told: list[tuple[str, dict[str, bool]]] = []
        """Lines under the summary."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test is over; on a controller its report came from a worker."""
        self._records.extend(getattr(report, _ATTRIBUTE, ()))
        self._planned.extend(plans_of(report))

    def pytest_report_header(self) -> list[str]:
        """Name what an earlier session left behind."""
        left = self._session.rows.left_behind()
        if not left:
            return []
        return [f"swarm: an earlier run ended early; its finished calls are in {', '.join(map(str, left))}"]

    def pytest_sessionfinish(self) -> None:
        """Write the reports: here and not with the summary, which pytest leaves out after some exits."""
        unfinished = self._session.unfinished()
        for trial in unfinished:
            if trial.record is None:
                trial.conclude(trial.nodeid.partition("[")[0], interrupted=True)
            trial.rows.close()
            assert trial.record is not None
            self._records.append(trial.record)
        standing = self._session.ceiling.standing()
        self._ceiling = None if standing is None else standing.to_dict()
        if self._records:
            self._write_reports(interrupted=bool(unfinished))

    def _write_reports(self, *, interrupted: bool) -> None:
        path, records = self._session.settings.json, self._records
        if path is not None:
            from pytest_swarm.reports.json_file import cost_of, environment, exit_of, write_report

            try:
                write_report(
                    path,
                    records,
                    exit_status=exit_of(records, interrupted),
                    environment=environment(),
                    cost=cost_of(records, self._ceiling),
                    project_to=self._session.settings.project,
                )
            except SettingError as error:
                self._told.append((f"swarm: {error}; the rows stay in {records[0]['rows']}", {"red": True}))
                return
            self._told.append((f"JSON report: {path}", {}))
        elif interrupted:
            self._told.append((f"finished calls: {records[-1]['rows']}", {}))
            return
        self._session.rows.remove(record["rows"] for record in records)

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Tell the result, also of a test that was stopped half-way."""
        if self._planned:
            from pytest_swarm.reports.planned import write_plans

            write_plans(_Terminal(terminalreporter), self._planned)
        if not self._records:
            return
        from pytest_swarm.reports.terminal import write_summary

        project_to = self._session.settings.project
        write_summary(_Terminal(terminalreporter), self._records, project_to=project_to, ceiling=self._ceiling)
        for line, markup in self._told:
            terminalreporter.write_line(line, **markup)


class _Terminal:
    """Pytest's reporter behind the interface of `reports.terminal`."""

    def __init__(self, reporter: TerminalReporter) -> None:
        self._reporter = reporter

    @property
    def width(self) -> int:
        return self._reporter._tw.fullwidth

    def section(self, title: str) -> None:
        self._reporter.write_sep("=", title)

    def write_line(self, text: str, **markup: bool) -> None:
        self._reporter.write_line(text, **markup)
