"""What the testing process did to a run, as data and as a line."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from pytest_swarm.columns import Audit, RunResult
from pytest_swarm.records import Attempt, Call, Task
from pytest_swarm.reports.audit import audit_items, audit_of, worst_audit


def audit(**changed: Any) -> Audit:
    plain = {"lags": array("d", [0.0, 0.001, 0.002]), "late": array("d"), "undelivered": None}
    return Audit(**{**plain, "in_flight_mean": 1.5, "threads": False, "blocked_at": None, **changed})


def call(task: int | None, sent: float, latency: float, outcome: str = "ok") -> Call:
    tries = [Attempt(sent=sent, latency=latency, status=200, outcome=outcome)]
    return Call(task=task, run=0, outcome=outcome, status=200, attempts=tries, sent=sent, latency=latency)


def run(found: Audit | None) -> RunResult:
    """Two tasks in the same four seconds, one of 4 s and one of 2 s; the first calls twice."""
    made = RunResult(0, audit=found, in_flight_max=2)
    first = [call(0, 0.5, 1.0), call(0, 2.0, 1.0)]
    for one in [*first, call(1, 2.25, 1.0), call(None, 0.0, 9.0), call(1, 2.1, 9.0, "other")]:
        made.calls.append(one)
    made.tasks.append(Task(0, 0, False, "passed", 0.0, 0.0, 4.0), first)
    made.tasks.append(Task(1, 0, False, "passed", 1.0, 2.0, 4.0), [call(1, 2.25, 1.0)])
    return made


def test_a_run_on_the_virtual_clock_has_none() -> None:
    assert audit_of(run(None)) is None
    assert worst_audit([None, None]) is None
    assert audit_items(None) == []


def test_the_figures_are_those_of_the_run() -> None:
    found = audit_of(run(audit(late=array("d", [0.0, 0.5]), undelivered=0.125)))
    assert found is not None
    assert (found["watched"], found["moments"], found["lag_p50"], found["lag_max"]) == ("event loop", 3, 0.001, 0.002)
    assert (found["late_p50"], found["late_max"], found["undelivered"]) == (0.25, 0.5, 0.125)
    # Of the calls of tasks, the first that each sent.
    assert (found["first_send_p50"], found["first_send_max"]) == (0.375, 0.5)
    assert (found["in_flight_max"], found["in_flight_mean"]) == (2, 1.5)
    assert found["little"] == pytest.approx(6 / 4)
    assert found["calls_in_flight_mean"] == pytest.approx(3 / 4)


def test_what_is_not_known_is_none() -> None:
    found = audit_of(RunResult(0, audit=audit(lags=array("d"), in_flight_mean=None)))
    assert found is not None
    assert {name for name, value in found.items() if value is not None} == {"watched", "moments", "in_flight_max"}
    assert audit_items(found) == []


def test_over_runs_the_largest_is_told() -> None:
    one, other = (audit_of(run(found)) for found in (audit(blocked_at="a.py:1 in f"), audit(lags=array("d", [0.2]))))
    worst = worst_audit([one, None, other])
    assert worst is not None
    assert (worst["lag_p50"], worst["moments"], worst["blocked_at"]) == (0.2, 3, "a.py:1 in f")


def test_the_line_tells_lag_lateness_and_little_s_law() -> None:
    found = audit_of(run(audit(blocked_at="a.py:1 in f", late=array("d", [0.0, 0.5]), threads=True)))
    assert audit_items(found) == [
        "threads late by p99 2.0ms, max 2.0ms",
        "blocked at a.py:1 in f",
        "starts late by p99 495ms, max 500ms",
        "1.5 in flight on average, 1.5 by Little's law",
    ]


def test_lateness_that_nobody_needs_to_read_about_is_left_out() -> None:
    assert audit_items(audit_of(run(audit(late=array("d", [0.0002]))))) == [
        "event loop late by p99 2.0ms, max 2.0ms",
        "1.5 in flight on average, 1.5 by Little's law",
    ]
