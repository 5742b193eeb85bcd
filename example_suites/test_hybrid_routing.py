"""Hybrid routing under one load: interactive work to one model, background work to the other, each with its own SLA.

Without `--swarm-base-url` both models are simulated, and the summary says so.
"""

import pytest

ROUTES = {"interactive": "gpt-6-agent", "background": "kimi-k2.5-swarm"}
INTERACTIVE = ("ttft[interactive].p95 < 2s", "call_latency[interactive].p50 < 2s")
BACKGROUND = ("call_latency[background].p95 < 10s", "call_success_rate[background] >= 90%")


@pytest.mark.swarm(tasks=200, concurrency=40, seed=6)
@pytest.mark.sla(*INTERACTIVE)
@pytest.mark.sla(*BACKGROUND)
@pytest.mark.sla("success_rate >= 85%")
async def test_hybrid_routing(gateway, agent):
    work = "interactive" if agent.index % 3 else "background"
    await gateway.chat(f"Task {agent.index}", model=ROUTES[work], name=work, stream=work == "interactive")
