"""Small runs made by hand."""

from array import array
from typing import Any

from pytest_swarm.columns import RunResult, SwarmResult
from pytest_swarm.records import Attempt, Call, Task


def task(index: int, start: float, end: float, status: str = "passed", **more: Any) -> Task:
    rest = {"run": 0, "warmup": False, "due": start, **more}
    return Task(index=index, status=status, start=start, end=end, **rest)


def call(
    task: int | None = 0, outcome: str = "ok", *, attempts: int = 1, gaps: tuple[float, ...] = (), **more: Any
) -> Call:
    status = 200 if outcome in ("ok", "incomplete", "content_filter", "refusal") else None
    rest = {"status": status, "sent": 0.0, "model": "m", **more}
    tries = [Attempt(sent=0.0, latency=1.0, status=status, outcome=outcome) for _ in range(attempts)]
    return Call(task=task, run=0, outcome=outcome, attempts=tries, gaps=array("d", gaps), **rest)


def run_of(tasks: list[Task], calls: list[Call] = (), index: int = 0, **more: Any) -> RunResult:
    """A run; the calls of a task are those with its index, as the runner would count them."""
    run = RunResult(index, **more)
    for one in calls:
        run.calls.append(one)
    for one in tasks:
        run.tasks.append(one, [c for c in calls if c.task == one.index and c.outcome != "other"])
    return run


def swarm_of(*runs: RunResult) -> SwarmResult:
    return SwarmResult("test_x.py::test_x", "m", "live", "http://localhost", "real", {}, list(runs))


def plain_run(statuses: list[str], index: int = 0, seconds: float = 1.0, **more: Any) -> RunResult:
    """Tasks one after the other, each of `seconds` and with one good call."""
    tasks = [task(i, i * seconds, (i + 1) * seconds, status) for i, status in enumerate(statuses)]
    return run_of(tasks, [call(i, latency=seconds) for i in range(len(statuses))], index, **more)
