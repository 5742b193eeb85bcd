"""How many agents can work at once before answers come too late?

    pytest example_suites/test_capacity_search.py

The search doubles the number in flight until the levels break, then closes in on the answer. Whatever it needs to know
is bounded by `max_tasks`, and by `max_cost` where calls cost money. The test fails when not even `low` holds.
"""

import pytest


@pytest.mark.swarm(tasks=50, model="gpt-6-agent")
@pytest.mark.swarm_search("concurrency", low=16, high=64, sla=["p50 < 600ms", "success_rate >= 85%"], max_tasks=5_000)
async def test_agents_that_can_work_at_once(gateway, agent):
    await gateway.chat(f"Summarise report {agent.index} in three sentences.")
