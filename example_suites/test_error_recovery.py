"""What your code makes of a gateway that misbehaves: rate limits, a first token that does not come, streams that break.

    pytest example_suites/test_error_recovery.py

The systems are simulated and written to fail; they are in faulty_systems.toml beside this file, which `swarm_systems`
in the ini file (or `--swarm-systems=faulty_systems.toml`) names. Lines such as `retries >= 1` make sure that what is
tried here did happen: drop them for a real gateway, which will hardly fail on time:

    pytest example_suites/test_error_recovery.py --swarm-base-url=https://gateway.example.com/v1 --swarm-model=mine
"""

import pytest

from pytest_swarm.errors import CallFailed


# 429 comes with Retry-After: a retry waits that long. The waits are part of the latency, since a user waits them too;
# `attempt_latency` is that of the last attempt alone.
@pytest.mark.swarm(tasks=130, concurrency=20, model="rate-limited", retries=3)
@pytest.mark.sla("success_rate >= 98%", "errors.rate_limited <= 2", "p95 < 10s", "attempt_latency.p50 < 1s")
@pytest.mark.sla("retries >= 1", "my.waited.max > 0.25s", "check.waits_count == 100%")
async def test_retries_outlast_a_rate_limit(gateway, agent):
    call = (await gateway.chat(f"Summarise report {agent.index}.")).call
    waited = sum(attempt.wait for attempt in call.attempts)
    agent.record("waited", waited)
    agent.check("waits_count", call.latency >= waited)


# A stream that does not begin within five seconds is given up, and the body asks once more.
@pytest.mark.swarm(tasks=200, concurrency=50, model="stalling", timeout={"first_token": "5s"})
@pytest.mark.sla("success_rate >= 95%", "p99 < 30s", "ttft.p95 < 3s", "errors.first_token_timeout >= 1")
async def test_a_first_token_that_does_not_come(gateway, agent):
    question = f"Summarise report {agent.index}."
    try:
        await gateway.chat(question, stream=True)
    except CallFailed as failed:
        if failed.outcome != "first_token_timeout":
            raise
        await gateway.chat(question, stream=True)


# What had arrived when the connection broke is in the error; the body keeps it instead of failing.
@pytest.mark.swarm(tasks=200, concurrency=50, model="cutting")
@pytest.mark.sla("success_rate == 100%", "p99 < 15s", "errors.disconnected >= 1", "check.whole >= 80%")
async def test_a_stream_that_breaks(gateway, agent):
    text = ""
    try:
        async for piece in gateway.stream(f"Summarise report {agent.index}."):
            text += piece
    except CallFailed as failed:
        if failed.outcome not in {"disconnected", "truncated"}:
            raise
        agent.check("whole", ok=False)
    else:
        agent.check("whole", ok=True)
    assert text.strip()
