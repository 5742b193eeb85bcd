"""The load that a server receives is what the limit says: counted where requests arrive, in a process of its own.

That no more comes than the limit allows is held strictly, but for the time that a request takes to get there. That it
is also made use of is a time, and one of three runs has to be good.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.processes import port_of
from tests.support.suites import run_suite

RATE: Final = 40
BURST: Final = 10
TASKS: Final = 90
ON_ITS_WAY: Final = 0.1
"""Seconds by which one request may take longer to arrive than another, on a busy machine."""
TRIES: Final = 3

CASES: Final = [
    {
        "name": "any",
        "script": [
            {
                "headers": {"content-type": "application/json"},
                "framing": "length",
                "chunks": [[20, '{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}']],
            }
        ],
    }
]

SUITES: Final = {
    "async": """
import pytest

@pytest.mark.swarm(tasks=90, concurrency=90, limit="40/s burst 10")
async def test_it(gateway):
    await gateway.chat("hi")
""",
    "threads": """
import pytest

@pytest.mark.swarm(tasks=90, concurrency=30, limit="40/s burst 10")
def test_it(gateway):
    gateway.openai().chat.completions.create(messages=[{"role": "user", "content": "hi"}], model="any")
""",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    cases = tmp_path / "cases.json"
    cases.write_text(json.dumps(CASES))
    with port_of([sys.executable, "-m", "tests.support.scripted_server", str(cases)]) as port:
        yield f"http://127.0.0.1:{port}"


def arrivals(server: str) -> list[float]:
    """When the requests of the latest run were read, counted from the first."""
    with urllib.request.urlopen(f"{server}/log", timeout=10) as reply:
        log: list[dict[str, Any]] = json.load(reply)
    times = sorted(row["at"] for row in log)[-TASKS:]
    return [at - times[0] for at in times]


@pytest.mark.parametrize("kind", SUITES)
def test_forty_a_second_with_a_burst_of_ten(kind: str, server: str, tmp_path: Path) -> None:
    tried = []
    for _ in range(TRIES):
        run_suite(tmp_path, SUITES[kind], base_url=f"{server}/v1", model="any")
        came = arrivals(server)
        assert len(came) == TASKS
        for first in range(TASKS):
            for last in range(first + BURST, TASKS):
                allowed = BURST + RATE * (came[last] - came[first] + ON_ITS_WAY)
                assert last - first + 1 <= allowed, (first, last, came)
        tried.append(came[-1])
        # The last one's turn is when all but the burst have flowed in.
        if came[-1] <= (TASKS - BURST) / RATE * 1.05 + ON_ITS_WAY:
            return
    pytest.fail(f"{TASKS} requests took longer than {RATE}/s would in each of {TRIES} runs: {tried} s")
