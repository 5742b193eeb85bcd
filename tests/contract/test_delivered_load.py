"""The load that a plan says is the load that a server gets, measured by the server."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.load_server import LoadServer
from tests.support.suites import run_suite

pytestmark = pytest.mark.timing

BODY = "async def test_it(gateway, agent):\n    await gateway.chat(f'report {agent.index}')\n"
SYNC = BODY.removeprefix("async ").replace("await ", "")
TYPICAL = 0.03
"""Seconds by which a request typically may be off on a machine that has other things to do."""


def suite(plan: str, body: str = BODY) -> str:
    return f"import pytest\n\n@pytest.mark.swarm({plan})\n{body}"


def off(server: LoadServer, due: dict[int, float]) -> list[float]:
    """By how many seconds each request came later than it was due, counted from the most punctual of them."""
    late = [came - due[number] for number, came in server.arrivals]
    return [seconds - min(late) for seconds in late]


@pytest.mark.parametrize("body", [BODY, SYNC], ids=["async", "threads"])
def test_an_even_rate_arrives_at_that_rate_however_slow_the_server(tmp_path: Path, body: str) -> None:
    with LoadServer(at_a_time=10, seconds=0.4) as server:
        found = run_suite(
            tmp_path, suite('rate="50/s", tasks=100, arrival="constant"', body), base_url=server.base_url, model="m"
        )
    assert sorted(number for number, _ in server.arrivals) == list(range(100))
    # The server does 25 a second: what a closed loop would have sent in these 2 seconds is half of it.
    assert statistics.median(off(server, {number: number / 50 for number in range(100)})) < TYPICAL
    assert server.served_max == 10
    assert found.test("test_it")["in_flight_max"] >= server.there_max > 30


def test_random_arrivals_come_as_they_were_planned(tmp_path: Path) -> None:
    with LoadServer() as server:
        found = run_suite(
            tmp_path, suite('rate="80/s", duration="1500ms", arrival="bursty"'), base_url=server.base_url, model="m"
        )
    tasks = found.test("test_it")["tasks"]
    due = {task["index"]: task["due"] for task in tasks}
    assert len(server.arrivals) == len(due) > 50
    gaps = [after - before for before, after in pairwise(due[index] for index in range(len(due)))]
    assert statistics.stdev(gaps) > 1.3 * statistics.fmean(gaps)
    assert statistics.median(off(server, due)) < TYPICAL


def test_a_trace_comes_as_it_was_recorded(tmp_path: Path) -> None:
    offsets = [0.0, 0.0, 0.05, 0.3, 0.31, 0.9]
    rows = "".join(f"{offset},{10 * number},5\n" for number, offset in enumerate(offsets))
    (tmp_path / "day.csv").write_text(f"offset,input_tokens,output_tokens\n{rows}")
    with LoadServer() as server:
        run_suite(tmp_path, suite('arrival="day.csv"'), base_url=server.base_url, model="m")
    assert statistics.median(off(server, dict(enumerate(offsets)))) < TYPICAL


@pytest.mark.parametrize("body", [BODY, SYNC], ids=["async", "threads"])
def test_a_closed_loop_keeps_as_many_in_flight_as_it_says(tmp_path: Path, body: str) -> None:
    with LoadServer(at_a_time=4, seconds=0.05) as server:
        found = run_suite(tmp_path, suite("tasks=60, concurrency=12", body), base_url=server.base_url, model="m")
    assert (server.there_max, server.served_max) == (12, 4)
    test = found.test("test_it")
    assert test["in_flight_max"] == 12
    # No more than 4 in 50 ms: that is what the server can do.
    assert test["metrics"]["throughput"] <= 80
    assert test["metrics"]["latency.p50"] >= 0.1


def test_stages_open_and_close_lanes_at_the_server(tmp_path: Path) -> None:
    with LoadServer(seconds=0.02) as server:
        found = run_suite(
            tmp_path, suite("stages=[(0.5, 10), (0.5, 10), (0.5, 1)]"), base_url=server.base_url, model="m"
        )
    test = found.test("test_it")
    assert server.there_max <= test["in_flight_max"] == 10
    assert server.there_max >= 8
    thirds = [sum(begin <= task["start"] < begin + 0.5 for task in test["tasks"]) for begin in (0, 0.5, 1.0)]
    assert thirds[1] > 1.3 * max(thirds[0], thirds[2])


@pytest.mark.parametrize(
    "plan", ["tasks=256, concurrency=128", 'rate="400/s", tasks=192, task_timeout="30s"'], ids=["closed", "open"]
)
def test_a_server_that_answers_only_once_128_are_there_gets_them(tmp_path: Path, plan: str) -> None:
    with LoadServer(opens_at=128) as server:
        found = run_suite(tmp_path, suite(plan), base_url=server.base_url, model="m")
    assert server.there_max >= 128
    test = found.test("test_it")
    assert test["in_flight_max"] >= 128
    assert test["metrics"]["success_rate"] == 1


def test_what_is_shed_never_reaches_the_server(tmp_path: Path) -> None:
    with LoadServer(at_a_time=5, seconds=0.2) as server:
        plan = 'rate="100/s", tasks=100, arrival="constant", concurrency=5, backlog=5'
        found = run_suite(tmp_path, suite(plan), base_url=server.base_url, model="m", exit_code=1)
    test = found.test("test_it")
    shed = [task["index"] for task in test["tasks"] if task["status"] == "cancelled"]
    assert {number for number, _ in server.arrivals} == set(range(100)) - set(shed)
    assert test["runs"][0]["load"]["shed"] == len(shed) > 30
    assert server.there_max == 5
