"""What a summary says of requests beside the model calls of agents."""

from __future__ import annotations

from pytest_swarm.columns import RunResult, SwarmResult
from pytest_swarm.records import Call
from pytest_swarm.reports.requests import notes_on_requests

URL = "https://gateway.test/v1"


def result(*runs: RunResult) -> SwarmResult:
    return SwarmResult("test", "m", "live", URL, "real", {}, list(runs))


def test_a_swarm_of_agents_calls_alone_needs_no_note() -> None:
    run = RunResult(0)
    run.calls.append(Call(0, 0, outcome="ok"))
    assert notes_on_requests(result(run), URL) == []


def test_calls_outside_any_agent_are_told_without_the_requests_that_are_none() -> None:
    run = RunResult(0)
    run.calls.append(Call(None, 0, outcome="ok"))
    run.calls.append(Call(None, 0, outcome="other"))
    (note,) = notes_on_requests(result(run), URL)
    assert note == "1 model call was made outside any agent, in a fixture or a background task"


def test_other_requests_are_told_with_the_hosts_that_had_most_of_them() -> None:
    runs = (
        RunResult(0, others={"vectors.test": 5, "a.test": 1}),
        RunResult(1, others={"vectors.test": 4, "b.test": 2, "c.test": 3}),
    )
    (note,) = notes_on_requests(result(*runs), URL)
    assert note.startswith("15 requests were no model call to https://gateway.test/v1 and in no figure")
    assert "(vectors.test, c.test, b.test, …)" in note
    assert "swarm_hosts" in note


def test_requests_that_met_a_closed_connection_are_told() -> None:
    (note,) = notes_on_requests(result(RunResult(0, reconnects=2), RunResult(1, reconnects=1)), URL)
    assert note.startswith("3 requests were sent again on a new connection")


def test_nested_retries_are_told_with_the_remedy() -> None:
    (note,) = notes_on_requests(result(RunResult(0, nested_retries=2)), URL)
    assert note.startswith("2 calls were made again by the test after the SDK had repeated the request")
    assert "max_retries=0" in note
