"""A chain of ten steps that sends its whole context again each time: latency, tokens and cost of every step.

    pytest example_suites/test_long_chain.py

Each call has a name, so that service levels can speak of one step: `call_latency[step10].p95`.
"""

import pytest

STEPS = 10


@pytest.mark.asyncio
@pytest.mark.parametrize("model", ["gpt-6-agent", "kimi-k2.5-swarm"])
async def test_long_chain(swarm, model, capsys):
    steps = {number: [] for number in range(1, STEPS + 1)}

    async def chain(gateway, agent):
        messages = [{"role": "system", "content": "You work on a plan, one step at a time. " * 60}]
        for step in range(1, STEPS + 1):
            messages.append({"role": "user", "content": f"Agent {agent.index}: do step {step}."})
            reply = await gateway.chat(messages, name=f"step{step}", max_tokens=200)
            messages.append({"role": "assistant", "content": reply.text})
            steps[step].append((reply.usage.input_tokens, reply.usage.cached_tokens or 0, reply.cost))

    result = await swarm.run(chain, tasks=60, concurrency=20, model=model, retries=3)
    with capsys.disabled():
        print(f"\n{model}: a chain of {STEPS} steps\nstep    p50      p95    input  cached      cost")
        for step, calls in steps.items():
            latency = [result[f"call_latency[step{step}].{percentile}"] for percentile in ("p50", "p95")]
            tokens, cached, cost = (sum(column) / len(calls) for column in zip(*calls, strict=True))
            print(f"{step:>4} {latency[0]:>5.2f}s  {latency[1]:>6.2f}s  {tokens:>6.0f}  {cached:>6.0f}  ${cost:.6f}")
    assert result.judge("success_rate >= 60%", "p95 < 60s", f"call_latency[step{STEPS}].p95 < 12s")
