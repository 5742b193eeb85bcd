"""What your code makes of a gateway that misbehaves: rate limits, a first token that does not come, streams that break.

    pytest example_suites/test_error_recovery.py

The systems are simulated and written to fail; they are in faulty_systems.toml, which `swarm_systems` in pyproject.toml
(or `--swarm-systems=example_suites/faulty_systems.toml`) names. Errors that a body survives are still counted.
"""

import pytest

from pytest_swarm.errors import CallFailed


# 429 comes with Retry-After; a retry waits that long. The waits are part of the latency, since a user waits them too.
@pytest.mark.swarm(tasks=160, concurrency=10, model="rate-limited", retries=8)
@pytest.mark.sla("success_rate >= 99%", "retries >= 1", "errors.rate_limited == 0", "attempt_latency.p50 < 3s")
async def test_retries_outlast_a_rate_limit(gateway):
    await gateway.chat("Summarise the report.")


# A stalled stream is given up after five seconds, and asked again once by the body itself.
@pytest.mark.swarm(tasks=200, concurrency=50, model="stalling", timeout={"first_token": "5s"})
@pytest.mark.sla("success_rate >= 95%", "p99 < 30s", "errors.first_token_timeout >= 1")
async def test_a_first_token_that_does_not_come(gateway):
    try:
        await gateway.chat("Summarise the report.", stream=True)
    except CallFailed as failed:
        assert failed.outcome == "first_token_timeout"
        await gateway.chat("Summarise the report.", stream=True)


# What had arrived when the connection broke is in the error; the body keeps it instead of failing.
@pytest.mark.swarm(tasks=200, concurrency=50, model="cutting")
@pytest.mark.sla("success_rate == 100%", "errors.disconnected >= 1", "check.kept_something == 100%")
async def test_a_stream_that_breaks(gateway, agent):
    try:
        await gateway.chat("Summarise the report.", stream=True)
    except CallFailed as failed:
        assert failed.outcome in {"disconnected", "truncated"}
        agent.check("kept_something", failed.reply is not None and failed.reply.text)
