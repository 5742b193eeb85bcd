"""A chain of ten steps that sends its whole context again each time: latency, tokens and cost of every step.

    pytest example_suites/test_long_chain.py

Each call has a name, so that service levels can speak of one step: `call_latency[step10].p95`. Both systems are
simulated: one has a prompt cache that all its workers share, in the other each worker has its own, and a step may meet
one that has never seen the context. Against your own gateway, with models of yours in MODELS:

    pytest example_suites/test_long_chain.py --swarm-base-url=https://gateway.example.com/v1
"""

import pytest

MODELS = ["gpt-6-agent", "kimi-k2.5-swarm"]
STEPS = range(1, 11)
SYSTEM = "You work on a plan, one step at a time, and say what you have found. " * 80
LEVELS = ("success_rate >= 98%", "p95 < 60s", "cost_per_task < $0.02", "call_latency[step10].p95 < 12s")


async def chain(gateway, agent):
    messages = [{"role": "system", "content": SYSTEM}]
    for step in STEPS:
        messages.append({"role": "user", "content": f"Agent {agent.index}: do step {step}."})
        reply = await gateway.chat(messages, name=f"step{step}")
        messages.append({"role": "assistant", "content": reply.text})
        for what in ("input_tokens", "cached_tokens", "output_tokens", "cost"):
            if (value := getattr(reply.call, what)) is not None:
                agent.record(f"{what}_{step}", value)


@pytest.mark.asyncio
@pytest.mark.parametrize("model", MODELS)
async def test_long_chain(swarm, model, capsys):
    result = await swarm.run(chain, tasks=60, concurrency=20, model=model, retries=3)

    def shown(metric, form):
        value = result[metric]
        return f"{'unknown' if value is None else form.format(value):>9}"

    with capsys.disabled():
        print(f"\n{model:<16} {'p50':>9} {'p95':>9} {'input':>9} {'cached':>9} {'output':>9} {'cost':>9}")
        for step in STEPS:
            latency = [shown(f"call_latency[step{step}].{which}", "{:.2f} s") for which in ("p50", "p95")]
            tokens = [shown(f"my.{what}_tokens_{step}.mean", "{:,.0f}") for what in ("input", "cached", "output")]
            print(f"{f'step {step}':<16}", *latency, *tokens, shown(f"my.cost_{step}.mean", "${:.5f}"))
    assert result.judge(*LEVELS)
