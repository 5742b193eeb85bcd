"""The simulated gateway over real sockets: the same figures as inside the process, and the same as in its own ledger.

Real time is compared with virtual time here, so one of a few runs has to be good: a wrong figure is wrong in all. A
machine that is too slow for the first speed gets slower ones, by which what it adds to a call counts for less.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.support.suites import run_suite, untraced

pytestmark = pytest.mark.timing

SPEEDS = (10, 10, 5, 2)
"""How many times as fast as time the gateway is, from try to try."""
APART = 0.1
"""The share by which a percentile may be apart from that on virtual time."""
BOUND = 0.005
"""Seconds by which the median call may be off the ledger."""
PATIENCE = 30.0

TWO_SYSTEMS = """
import pytest

@pytest.mark.parametrize("model", ["gpt-6-agent", "kimi-k2.5-swarm"])
@pytest.mark.swarm(tasks=300, concurrency=100, repeat=5)
@pytest.mark.sla("success_rate >= 90%")
async def test_systems(gateway, model):
    await gateway.chat("Summarise the report.", model=model)
"""

PLAIN_AND_STREAMED = """
import pytest

@pytest.mark.swarm(tasks=200, concurrency=20, model="gpt-6-agent")
@pytest.mark.sla("success_rate >= 90%")
async def test_calls(gateway, agent):
    messages = [{"role": "system", "content": "Be brief. " * 1000}, {"role": "user", "content": f"{agent.index}"}]
    await gateway.chat(messages, stream=bool(agent.index % 2))
"""


@dataclass(frozen=True)
class Front:
    """A running gateway."""

    base_url: str

    def ledger(self) -> list[dict[str, Any]]:
        """All requests so far, in order of arrival."""
        with urllib.request.urlopen(self.base_url.removesuffix("/v1") + "/ledger", timeout=PATIENCE) as reply:
            told: dict[str, Any] = json.load(reply)
        assert told["count"] == len(told["requests"])
        assert told["cost"] == pytest.approx(sum(entry["cost"] for entry in told["requests"]))
        requests: list[dict[str, Any]] = told["requests"]
        return requests


@contextmanager
def running_front(speed: int) -> Iterator[Front]:
    """A gateway `speed` times as fast as time, until the end of the block."""
    command = [sys.executable, "-m", "pytest_swarm.cli", "gateway", "--port", "0", "--speed", str(speed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=untraced())
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], PATIENCE)[0], "the gateway said nothing"
        yield Front(process.stdout.readline().split(" at ")[1].split(" ")[0])
    finally:
        process.kill()
        process.communicate()


def good_once(attempt: Callable[[int, Front], dict[str, float]], bound: float) -> None:
    """`attempt` measures deviations; in one of a few runs all of them must lie within the bound."""
    tried = []
    for speed in SPEEDS:
        with running_front(speed) as front:
            tried.append(attempt(speed, front))
        if max(map(abs, tried[-1].values())) <= bound:
            return
    pytest.fail(f"over {bound} at each of the speeds {SPEEDS}: {tried}")


def test_the_same_suite_has_the_same_percentiles_ten_times_as_fast(tmp_path: Path) -> None:
    virtual = run_suite(tmp_path, TWO_SYSTEMS).report["tests"]
    assert [(test["clock"], test["gateway"]["kind"]) for test in virtual] == [("virtual", "simulated")] * 2

    def attempt(speed: int, front: Front) -> dict[str, float]:
        run = run_suite(tmp_path, TWO_SYSTEMS, base_url=front.base_url)
        summary = " ".join(run.output.split())
        for test in virtual:
            assert f"SIMULATED: simulated over HTTP ({test['model']};{speed}); no model was called" in summary
        deviations = {}
        for over_http, expected in zip(run.report["tests"], virtual, strict=True):
            assert over_http["clock"] == "real"
            assert over_http["gateway"] == {"kind": "simulated", "base_url": front.base_url}
            assert {call["source"] for call in over_http["calls"]} == {"simulated"}
            assert over_http["metrics"]["success_rate"] == pytest.approx(expected["metrics"]["success_rate"], abs=1e-9)
            for name in ("latency.p50", "latency.p95"):
                ratio = over_http["metrics"][name] * speed / expected["metrics"][name]
                deviations[f"{expected['model']} {name}"] = ratio - 1
        return deviations

    good_once(attempt, APART)


def test_every_call_is_as_the_ledger_of_the_front_has_it(tmp_path: Path) -> None:
    def attempt(_: int, front: Front) -> dict[str, float]:
        (test,) = run_suite(tmp_path, PLAIN_AND_STREAMED, base_url=front.base_url).report["tests"]
        entries = front.ledger()
        told = {entry["request_id"]: entry for entry in entries}
        calls = {call["request_id"]: call for call in test["calls"]}
        assert len(entries) == len(calls) == 200
        pairs = [(calls[name], entry) for name, entry in told.items()]
        _same_tokens_and_costs(pairs)
        assert sum(call["cost"] or 0.0 for call in calls.values()) == pytest.approx(
            sum(entry["cost"] for entry in entries), rel=1e-9
        )
        # Two clocks: their zero is where most calls agree on it.
        zero = median(entry["received"] - call["sent"] for call, entry in pairs)
        answered = [pair for pair in pairs if pair[0]["outcome"] == "ok"]
        assert len(answered) >= 180
        streamed = [(call, entry) for call, entry in answered if entry["stream"]]
        return {
            "sent": median(abs(entry["received"] - zero - call["sent"]) for call, entry in pairs),
            "latency": median(
                abs(entry["writes"][-1] - entry["received"] - call["latency"]) for call, entry in answered
            ),
            "ttft": median(abs(entry["writes"][0] - entry["received"] - call["ttft"]) for call, entry in streamed),
        }

    good_once(attempt, BOUND)


def _same_tokens_and_costs(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    cached = 0
    for call, entry in pairs:
        assert call["status"] == entry["status"]
        if call["outcome"] != "ok":
            assert (call["outcome"], entry["cost"]) == ("server_error", 0.0)
            continue
        for count in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"):
            assert call[count] == entry[count], count
        assert call["cost"] == pytest.approx(entry["cost"], rel=1e-9)
        cached += call["cached_tokens"]
    assert cached > 0
