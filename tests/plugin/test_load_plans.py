"""Plans of every kind in runs of pytest: what they release, what is counted, what the reports say of it."""

from __future__ import annotations

from typing import Any

import pytest

ANY = '@pytest.mark.sla("success_rate >= 0%")\n'


def virtual(suite: Any, report: Any, code: str, *options: str) -> dict[str, Any]:
    """The one test of a simulated run."""
    suite(code, *options, gateway=None)
    (found,) = report()["tests"]
    return dict(found)


def measured(test: dict[str, Any]) -> list[dict[str, Any]]:
    return [task for task in test["tasks"] if not task["warmup"]]


def in_flight(tasks: list[dict[str, Any]], at: float) -> int:
    return sum(task["start"] <= at < task["end"] for task in tasks)


def test_tasks_start_when_they_are_due_whatever_became_of_those_before(suite: Any, report: Any) -> None:
    test = virtual(
        suite,
        report,
        '@pytest.mark.swarm(tasks=50, rate="10/s", arrival="constant", warmup=10)\n' + ANY + "async def test_it():\n"
        "    await asyncio.sleep(3)\n",
    )
    assert [task["due"] for task in test["tasks"]] == pytest.approx([number / 10 for number in range(60)])
    assert [task["start"] for task in test["tasks"]] == pytest.approx([task["due"] for task in test["tasks"]])
    assert [task["warmup"] for task in test["tasks"]] == [True] * 10 + [False] * 50
    assert [task["index"] for task in measured(test)] == list(range(50))
    assert test["in_flight_max"] == 30
    assert test["metrics"]["tasks"] == 50
    assert test["metrics"]["user_latency.max"] == pytest.approx(3)


def test_poisson_and_bursty_are_seeded(suite: Any, report: Any) -> None:
    code = (
        '@pytest.mark.parametrize("arrival", ["poisson", "bursty"])\n'
        '@pytest.mark.swarm(tasks=30, rate="10/s", repeat=2)\nasync def test_it(arrival): pass\n'
    )
    suite(code.replace("repeat=2", 'arrival="bursty", repeat=2'), gateway=None)
    first = [[task["due"] for task in test["tasks"]] for test in report()["tests"]]
    # The same plan of two tests has the same arrivals, each run of a repeat has its own.
    assert first[0] == first[1]
    assert first[0][:30] != first[0][30:]
    suite(code, "--swarm-seed=9", gateway=None)
    assert [task["due"] for task in report()["tests"][0]["tasks"]] != first[0]


def test_above_the_cap_tasks_wait_and_above_the_backlog_they_are_shed(suite: Any, report: Any, pytester: Any) -> None:
    result = suite(
        '@pytest.mark.swarm(tasks=100, rate="10/s", arrival="constant", concurrency=5, backlog=4)\n'
        '@pytest.mark.sla("latency.max <= 1.001s", "user_latency.max <= 2s")\nasync def test_it():\n'
        "    await asyncio.sleep(1)\n",
        gateway=None,
    )
    (test,) = report()["tests"]
    (run,) = test["runs"]
    shed = [task for task in test["tasks"] if task["status"] == "cancelled"]
    ran = [task for task in test["tasks"] if task["status"] == "passed"]
    assert len(shed) + len(ran) == 100
    assert run["load"]["shed"] == len(shed) > 30
    assert run["load"]["backlog_max"] == 4
    assert run["load"]["backlogged"] == sum(task["start"] > task["due"] + 1e-6 for task in ran) > 40
    assert test["in_flight_max"] == run["load"]["in_flight_max"] == 5
    assert all(task["error"].startswith("shed: 4 tasks were waiting already") for task in shed)
    # They are no success: neither in the rate, nor for the demand that every task passes.
    assert test["metrics"]["success_rate"] == pytest.approx(len(ran) / 100)
    assert test["metrics"]["error_rate"] == pytest.approx(len(shed) / 100)
    assert test["metrics"]["tasks"] == len(ran)
    assert test["metrics"]["latency.max"] == pytest.approx(1)
    assert test["metrics"]["user_latency.max"] > 1.5
    assert test["verdict"] == "fail"
    assert test["reasons"] == [
        f"{len(shed)} of 100 tasks did not pass ({len(shed)} shed), and no line on success_rate allows that"
    ]
    result.stdout.fnmatch_lines(
        [
            "*5 in flight (5 reached)   4 may wait",
            "  load * tasks waited, 4 at most at a time",
            f"*{len(shed)} tasks shed: due and never started",
            "  success   54.0% of 100 tasks *",
        ]
    )


def test_what_still_waits_when_the_time_is_over_is_not_started_and_not_forgotten(suite: Any, report: Any) -> None:
    test = virtual(
        suite,
        report,
        '@pytest.mark.swarm(duration="10s", rate="10/s", arrival="constant", concurrency=5)\n' + ANY + "async def "
        "test_it():\n    await asyncio.sleep(1)\n",
    )
    ran = [task for task in test["tasks"] if task["status"] == "passed"]
    assert max(task["start"] for task in ran) < 10 < max(task["end"] for task in ran)
    assert len(ran) == 50
    assert test["runs"][0]["load"]["shed"] == 50
    assert test["metrics"]["success_rate"] == pytest.approx(0.5)


def test_a_duration_ends_a_closed_loop_and_lets_running_tasks_finish(suite: Any, report: Any) -> None:
    test = virtual(
        suite,
        report,
        '@pytest.mark.swarm(concurrency=4, duration="10s", warmup=4)\n'
        "async def test_it():\n    await asyncio.sleep(3)\n",
    )
    starts = sorted({round(task["start"], 6) for task in measured(test)})
    assert starts == pytest.approx([3, 6, 9, 12])
    assert len(measured(test)) == 16
    assert {task["status"] for task in test["tasks"]} == {"passed"}
    assert test["plan"]["tasks"] is None


def test_the_command_line_sets_a_rate_and_a_duration(suite: Any, report: Any) -> None:
    code = "@pytest.mark.swarm(tasks=20, concurrency=7)\nasync def test_it():\n    await asyncio.sleep(1)\n"
    test = virtual(suite, report, code, "--swarm-rate=10/s")
    assert (test["plan"]["rate"], test["in_flight_max"], len(test["tasks"])) == ("10/s", 7, 20)
    test = virtual(suite, report, code, "--swarm-duration=1500ms")
    assert len(test["tasks"]) == 14


def test_stages_of_tasks_in_flight_are_followed(suite: Any, report: Any) -> None:
    test = virtual(
        suite,
        report,
        '@pytest.mark.swarm(stages=[("10s", 20), ("10s", 20), ("10s", 2)], warmup=3)\nasync def test_it():\n'
        "    await asyncio.sleep(0.1)\n",
    )
    tasks = test["tasks"]
    assert [in_flight(tasks, at) for at in (0.05, 5.05, 10.05, 15.05, 19.95)] == [1, 11, 20, 20, 20]
    assert [in_flight(tasks, at) for at in (25.2, 29.95)] == pytest.approx([11, 3], abs=1)
    assert max(task["start"] for task in tasks) < 30
    assert sum(task["warmup"] for task in tasks) == 3
    assert test["in_flight_max"] == 20


def test_stages_of_a_rate_are_followed(suite: Any, report: Any) -> None:
    test = virtual(
        suite,
        report,
        '@pytest.mark.swarm(stages=[("10s", "40/s"), ("10s", "40/s"), ("1ms", "400/s"), ("1s", "400/s")], '
        'arrival="constant")\nasync def test_it(): pass\n',
    )
    due = [task["due"] for task in test["tasks"]]
    assert [sum(begin <= at < end for at in due) for begin, end in ((0, 10), (10, 20), (20.001, 21.001))] == (
        pytest.approx([200, 400, 400], abs=1)
    )


TRACE = '{"timestamp": 0, "input_length": 10, "output_length": 3}\n{"timestamp": 1500, "input_length": 20}\n'


def test_a_trace_is_replayed_and_the_agent_sees_its_row(suite: Any, report: Any, pytester: pytest.Pytester) -> None:
    pytester.mkdir("traces")
    (pytester.path / "traces" / "day.jsonl").write_text(TRACE)
    test = virtual(
        suite,
        report,
        '@pytest.mark.swarm(arrival="traces/day.jsonl")\nasync def test_it(agent):\n'
        "    agent.record('asked', agent.arrival.input_tokens)\n"
        "    agent.check('row', agent.arrival.offset == (0, 1.5)[agent.index])\n",
        "--swarm-sla=check.row == 100%",
        "--swarm-sla=my.asked.sum == 30",
    )
    assert [task["due"] for task in test["tasks"]] == pytest.approx([0, 1.5])
    assert test["verdict"] == "pass"
    assert test["plan"]["arrival"] == "traces/day.jsonl"


def test_a_wrong_row_of_a_trace_is_told_before_any_task_ran(suite: Any, pytester: pytest.Pytester) -> None:
    (pytester.path / "day.csv").write_text("offset\n1\nsoon\n")
    result = suite('@pytest.mark.swarm(arrival="day.csv")\nasync def test_it(): pass\n', gateway=None)
    result.stdout.fnmatch_lines(
        ["*test_it: swarm(arrival=...): */day.csv line 3: offset 'soon' is no time; write seco*"]
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED


RESCHEDULED = """
drawn = set()
@pytest.mark.swarm(tasks=10, concurrency=2, reschedule=2, warmup=1)
async def test_it(agent):
    await asyncio.sleep(1)
    number = agent.rng.random()
    agent.check("another", number not in drawn)
    if not agent.warmup: drawn.add(number)
    if agent.index == 3 and agent.attempt == 0: pytest.fail("once")
    if agent.index == 4 and agent.attempt < 3: raise RuntimeError("always")
    if agent.index == 5: pytest.skip("no")
"""


def test_a_failed_task_is_run_again_by_another_agent_and_its_last_attempt_counts(suite: Any, report: Any) -> None:
    # Another agent draws other numbers.
    result = suite(RESCHEDULED, "--swarm-sla=check.another == 100%", gateway=None)
    (test,) = report()["tests"]
    rows = {
        index: [
            (task["attempt"], task["status"], task["rescheduled"]) for task in measured(test) if task["index"] == index
        ]
        for index in (2, 3, 4, 5)
    }
    assert [line["verdict"] for line in test["sla"]] == ["pass"]
    assert rows == {
        2: [(0, "passed", False)],
        3: [(0, "failed", True), (1, "passed", False)],
        4: [(0, "failed", True), (1, "failed", True), (2, "failed", False)],
        5: [(0, "skipped", False)],
    }
    assert test["metrics"]["tasks"] == 9
    assert test["metrics"]["success_rate"] == pytest.approx(8 / 9)
    assert test["runs"][0]["load"]["rescheduled"] == 3
    assert test["reasons"][0].startswith("1 of 9 tasks did not pass (1 failed)")
    first, second = (task for task in measured(test) if task["index"] == 3)
    assert second["due"] == first["due"]
    assert second["start"] == pytest.approx(first["end"])
    assert test["metrics"]["user_latency.max"] == pytest.approx(2)
    assert test["metrics"]["latency.max"] == pytest.approx(1)
    assert test["in_flight_max"] == 2
    result.stdout.fnmatch_lines(["*load      3 failed tasks run again"])


def test_a_task_that_timed_out_is_run_again_in_threads_too(suite: Any, report: Any) -> None:
    suite(
        "import time\n@pytest.mark.swarm(tasks=4, concurrency=4, reschedule=1, task_timeout=0.3)\n"
        "def test_it(agent):\n    time.sleep(0.6 if agent.index == 1 and not agent.attempt else 0)\n",
    ).assert_outcomes(passed=1)
    (test,) = report()["tests"]
    assert [(task["attempt"], task["status"]) for task in test["tasks"] if task["index"] == 1] == [
        (0, "timeout"),
        (1, "passed"),
    ]


THREADS = """
import time
@pytest.mark.swarm(tasks=40, rate="100/s", arrival="constant", concurrency=3, backlog=2, warmup=2)
@pytest.mark.sla("success_rate >= 0%")
def test_open(): time.sleep(0.1)

@pytest.mark.swarm(stages=[(0.4, 4), (0.4, 4), (0.2, 1)])
def test_stages(): time.sleep(0.02)

@pytest.mark.swarm(concurrency=2, duration=0.3)
def test_duration(): time.sleep(0.05)
"""


def test_sync_bodies_follow_the_same_plans_in_real_time(suite: Any, report: Any) -> None:
    suite(THREADS).assert_outcomes(passed=3)
    opened, stages, duration = report()["tests"]
    assert [task["due"] for task in sorted(opened["tasks"], key=lambda task: task["due"])] == pytest.approx(
        [number / 100 for number in range(42)], abs=1e-9
    )
    assert opened["in_flight_max"] == 3
    load = opened["runs"][0]["load"]
    assert load["shed"] == sum(task["status"] == "cancelled" and not task["warmup"] for task in opened["tasks"]) > 0
    assert load["backlog_max"] == 2
    assert all(task["start"] >= task["due"] - 1e-5 for task in opened["tasks"])
    assert stages["in_flight_max"] == 4
    assert max(task["start"] for task in stages["tasks"]) < 1.0
    assert max(task["start"] for task in duration["tasks"]) < 0.3
    assert len(duration["tasks"]) >= 4


ADAPTIVE = """
@pytest.mark.parametrize("model", ["gpt-6-agent", "kimi-k2.5-swarm"])
@pytest.mark.swarm(tasks=2500, concurrency="8..256")
@pytest.mark.sla("success_rate >= 90%")
async def test_it(gateway, model): await gateway.chat("hi", model=model)
"""


def test_an_adaptive_concurrency_finds_what_each_system_takes(suite: Any, report: Any) -> None:
    result = suite(ADAPTIVE, gateway=None)
    result.assert_outcomes(passed=2)
    gpt, kimi = (test["runs"][0]["load"] for test in report()["tests"])
    assert 25 <= gpt["settled"]["limit"] <= 42
    assert kimi["settled"]["limit"] > 100
    assert gpt["limits"][0] == {"time": 0.0, "limit": 8, "throughput": None, "latency": None}
    assert gpt["in_flight_max"] == max(step["limit"] for step in gpt["limits"])
    result.stdout.fnmatch_lines(
        ["  adapted   8 16 *   settled at *", "  adapted   8 16 32 64 128 256   settled at 256*"]
    )


PLANS = """
@pytest.mark.swarm(tasks=20, rate="10/s", arrival="constant", repeat=2, max_cost=2)
async def test_rate(gateway): open("sent", "w")

@pytest.mark.swarm(stages=[("10s", "4/s"), ("5s", "1/s")], arrival="constant", model="gpt-6-agent")
async def test_stages(gateway): open("sent", "w")

@pytest.mark.swarm(tasks=20, concurrency=5)
def test_closed(gateway): open("sent", "w")

@pytest.fixture
async def asked(gateway): open("sent", "w")

async def test_single(asked, gateway): open("sent", "w")

async def test_inline(swarm): open("sent", "w")

@pytest.mark.swarm
@pytest.mark.swarm_search("concurrency", low=2, high=64, sla=["p95 < 5s"])
async def test_search(gateway): open("sent", "w")

def test_of_another_kind(): pass
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_plans_are_shown_and_nothing_is_sent(suite: Any, pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    result = suite(PLANS, "--swarm-plan", "-rs", *workers, gateway=None)
    result.assert_outcomes(skipped=6, passed=1)
    assert result.ret == 0
    assert not (pytester.path / "sent").exists()
    assert not (pytester.path / "out.json").exists()
    lines = " ".join(result.stdout.str().split())
    assert "LLM swarm: planned, nothing was sent" in lines
    for expected in (
        "release 20 tasks in each run first due at 0.000, 0.100, 0.200, 0.300, 0.400 s last at 1.900 s",
        "last at 1.900 s cost at most $2.00",
        "stages 0s to 10s 0/s to 4/s 20 tasks 10s to 15s 4/s to 1/s 1",
        "plan 20 tasks 5 in flight release 20 tasks the next when one has ended",
        "a search for the largest concurrency from 2 to 64, 20,000 tasks at most",
        "the test starts its swarms itself",
        "planned, not run: --swarm-plan",
    ):
        assert expected in lines
    assert result.stdout.str().count("PLANNED") == 6


def test_a_plan_names_its_gateway_and_asks_it_nothing(suite: Any) -> None:
    result = suite(PLANS, "--swarm-plan", gateway="http://127.0.0.1:9/v1")
    result.assert_outcomes(skipped=6, passed=1)
    result.stdout.fnmatch_lines(["*source    live http://127.0.0.1:9/v1   echo"])
