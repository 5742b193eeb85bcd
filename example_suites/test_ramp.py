"""Load that grows, holds and has a peak: stages of tasks in flight, and stages of a rate.

    pytest example_suites/test_ramp.py

A stage is a duration and what is reached at its end; between two stages the load goes in a straight line. The same
target again is a hold, and a stage of a millisecond is a jump.
"""

import pytest


# Agents that join one after the other, work, and leave again.
@pytest.mark.swarm(stages=[("8s", 30), ("8s", 30), ("4s", 5)], model="gpt-6-agent")
@pytest.mark.sla("success_rate >= 90%", "p95 < 6s")
async def test_agents_join_and_leave(gateway, agent):
    await gateway.chat(f"Summarise report {agent.index}.")


# A working day with a peak: up to 10/s, hold, five seconds at 40/s, and back.
@pytest.mark.swarm(
    stages=[("10s", "10/s"), ("10s", "10/s"), ("1ms", "40/s"), ("5s", "40/s"), ("1ms", "10/s"), ("10s", "10/s")],
    model="gpt-6-agent",
)
@pytest.mark.sla("success_rate >= 90%", "user_latency.p95 < 8s")
async def test_a_peak(gateway, agent):
    await gateway.chat(f"Summarise report {agent.index}.")
