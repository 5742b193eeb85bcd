"""How much does the system take? A number in flight that adapts, and failed tasks that are run again.

    pytest example_suites/test_adaptive.py

`concurrency="8..256"` doubles while throughput follows, goes to what the system really works on at a time, and backs
off on 429, timeouts and slower answers. The summary shows what it settled at, the JSON report every step.
"""

import pytest


# One system has 32 workers, the other starts more of them as load comes.
@pytest.mark.parametrize("model", ["gpt-6-agent", "kimi-k2.5-swarm"])
@pytest.mark.swarm(tasks=1000, concurrency="8..128")
@pytest.mark.sla("success_rate >= 90%", "throughput >= 10/s")
async def test_what_the_system_takes(gateway, agent, model):
    await gateway.chat(f"Summarise report {agent.index}.", model=model)


# A failed task goes to another agent, twice at most. Both attempts are in the report; the last one counts.
@pytest.mark.swarm(tasks=200, concurrency=25, reschedule=2, model="gpt-6-agent")
@pytest.mark.sla("success_rate >= 99%", "errors.server_error >= 1", "user_latency.p95 < 8s")
async def test_failed_tasks_are_run_again(gateway, agent):
    await gateway.chat(f"Summarise report {agent.index}, attempt {agent.attempt}.")
