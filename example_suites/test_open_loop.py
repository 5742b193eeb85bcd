"""Users do not wait for each other: tasks that start at a rate, whatever became of those before.

    pytest example_suites/test_open_loop.py
    pytest example_suites/test_open_loop.py --swarm-plan      # shows when tasks are due, and sends nothing

In an open loop a system that is too slow gets more and more in flight, as in production. What a user waits counts from
the moment a task was due: `user_latency`. A `concurrency` caps what is in flight; above it tasks wait in a backlog, and
above `backlog` they are shed: counted, shown, and no success.
"""

import pytest


# Poisson arrivals, as of many users who know nothing of each other.
@pytest.mark.swarm(rate="25/s", duration="15s", warmup=20, model="gpt-6-agent")
@pytest.mark.sla("success_rate >= 90%", "user_latency.p95 < 6s", "throughput >= 12/s")
async def test_many_users(gateway, agent):
    await gateway.chat(f"Summarise report {agent.index}.")


# The same mean rate in bursts: the same system, and answers come later.
@pytest.mark.swarm(rate="25/s", duration="15s", arrival="bursty", warmup=20, model="gpt-6-agent")
@pytest.mark.sla("success_rate >= 90%", "user_latency.p95 < 8s")
async def test_users_in_bursts(gateway, agent):
    await gateway.chat(f"Summarise report {agent.index}.")


# More than the system can do. The cap keeps answers fast for those who get one; who is turned away counts as a failure.
@pytest.mark.swarm(rate="60/s", duration="15s", concurrency=32, backlog=40, model="gpt-6-agent")
@pytest.mark.sla("latency.p95 < 6s", "user_latency.p95 < 8s", "success_rate >= 50%")
async def test_overload_is_bounded(gateway, agent):
    await gateway.chat(f"Summarise report {agent.index}.")
