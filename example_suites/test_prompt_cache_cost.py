"""What a prompt cache saves: one long system prompt, marked with `cache_control`, in front of every question.

    pytest example_suites/test_prompt_cache_cost.py

The gateway is simulated. Against your own, with models of yours in MODELS:

    pytest example_suites/test_prompt_cache_cost.py --swarm-base-url=https://gateway.example.com/v1

Costs need prices. The simulated gateway reports them; for a model that is in no list, put a table into pyproject.toml:

    [tool.pytest_swarm.prices."mine"]
    input = 0.60          # US dollars per million tokens
    cache_read = 0.10
    output = 2.50
"""

import pytest

MODELS = ["gpt-6-agent", "kimi-k2.5-swarm"]
RULES = " ".join(f"Rule {number}: answer politely, cite the manual, and never promise a date." for number in range(400))


def conversation(rules, question):
    system = {"type": "text", "text": rules, "cache_control": {"type": "ephemeral"}}
    return [{"role": "system", "content": [system]}, {"role": "user", "content": question}]


# The answers are short, so that the prompt is what is paid for.
async def same_prompt(gateway, agent):
    await gateway.chat(conversation(RULES, f"Question {agent.index}?"), max_tokens=50)


# The same words behind a beginning that no other prompt has: nothing of it is in the cache. A gateway that still knows
# the prompts of an earlier run wants another --swarm-seed.
async def never_the_same(gateway, agent):
    rules = f"Customer {agent.rng.random()}. {RULES}"
    await gateway.chat(conversation(rules, f"Question {agent.index}?"), max_tokens=50)


@pytest.mark.asyncio
@pytest.mark.parametrize("model", MODELS)
async def test_the_cache_pays(swarm, model, capsys):
    cached = await swarm.run(same_prompt, tasks=200, concurrency=20, model=model)
    uncached = await swarm.run(never_the_same, tasks=200, concurrency=20, model=model)
    # A cost that is not known fails these, and the message says which price is missing.
    assert cached.judge("cache_hit_rate >= 60%", "success_rate >= 90%", "cost_per_100 < $0.03")
    assert uncached.judge("cache_hit_rate <= 5%", "success_rate >= 90%", "cost_per_100 < $0.10")
    saved = 1 - cached["cost"] / uncached["cost"]
    with capsys.disabled():
        print(
            f"\n{model}: {cached['cache_hit_rate']:.0%} of the input came from the cache; 100 tasks cost "
            f"${cached['cost_per_100']:.5f} instead of ${uncached['cost_per_100']:.5f}: {saved:.0%} saved"
        )
    assert saved > 0.3
