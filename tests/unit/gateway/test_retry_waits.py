"""Where the waits of retries show: in the latency of the call and of the task, and not in that of the last attempt."""

from __future__ import annotations

import asyncio

import pytest

from pytest_swarm.gateway.client import Gateway
from pytest_swarm.judging.metrics import SwarmMetrics
from pytest_swarm.judging.sla import parse_metric
from pytest_swarm.tap.routing import Agent
from tests.support.bench import swarm
from tests.support.scripted_server import ScriptedServer

HEADERS = {"content-type": "application/json"}
OK = '{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}'
REFUSED = {"status": 429, "headers": {**HEADERS, "retry-after-ms": "200"}, "framing": "length", "chunks": [[0, "{}"]]}
ANSWERED = {"headers": HEADERS, "framing": "length", "chunks": [[0, OK]]}
CASES = [{"name": "busy", "script": [REFUSED, REFUSED, ANSWERED]}]


def test_waits_after_429_are_in_call_and_task_and_not_in_the_attempt() -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        await gateway.chat("hi", model="busy")

    async def main() -> None:
        async with ScriptedServer(CASES) as server:
            rows, conducting = await swarm(server.base_url, body, retries=2)
        (call,) = rows.calls
        waits = sum(attempt["wait"] for attempt in call["attempt_list"])
        assert [attempt["status"] for attempt in call["attempt_list"]] == [429, 429, 200]
        assert waits >= 0.4
        assert call["latency"] >= waits + call["attempt_latency"]
        assert call["attempt_latency"] == call["attempt_list"][-1]["latency"]
        assert call["queued"] == 0.0
        (task,) = rows.tasks
        assert task["end"] - task["due"] >= call["latency"]
        metrics = SwarmMetrics(conducting.result, ())

        def figure(name: str) -> float | None:
            return metrics.observe(parse_metric(name)).value

        assert figure("user_latency.max") == pytest.approx(task["end"] - task["due"])
        assert figure("call_latency.max") == pytest.approx(call["latency"])
        assert figure("attempt_latency.max") == pytest.approx(call["attempt_latency"])
        assert figure("retries") == 2

    asyncio.run(main())
