"""The loads of the two scripts beside this file, as tests: compare.py runs them against a gateway of the same seed."""

import pytest
from prompt_cache import conversation


@pytest.mark.swarm(tasks=100, concurrency=50)
@pytest.mark.sla("success_rate >= 90%")
async def test_latency(gateway, agent):
    await gateway.chat(f"Summarise report {agent.index}.")


@pytest.mark.swarm(tasks=100, concurrency=10)
@pytest.mark.sla("success_rate >= 90%", "cache_hit_rate >= 50%")
async def test_prompt_cache(gateway, agent):
    await gateway.chat(conversation(agent.index))
