"""What a prompt cache saves: one long system prompt, marked with `cache_control`, in front of every question.

    pytest example_suites/test_prompt_cache_cost.py

The gateway is simulated unless `--swarm-base-url` names one. Costs need prices: the simulated gateway reports them; for
your own models put a table into pyproject.toml:

    [tool.pytest_swarm.prices."my-model"]
    input = 0.60          # US dollars per million tokens
    cache_read = 0.10
    output = 2.50
"""

import pytest

RULES = " ".join(f"Rule {number}: answer politely, cite the manual, and never promise a date." for number in range(400))


def conversation(question, *, cached):
    system = {"type": "text", "text": RULES}
    if cached:
        system["cache_control"] = {"type": "ephemeral"}
    return [{"role": "system", "content": [system]}, {"role": "user", "content": question}]


@pytest.mark.asyncio
@pytest.mark.parametrize("model", ["gpt-6-agent", "kimi-k2.5-swarm"])
async def test_the_cache_pays(swarm, model, capsys):
    async def same_prompt(gateway, agent):
        # A short answer, so that the prompt is what is paid for.
        await gateway.chat(conversation(f"Question {agent.index}?", cached=True), max_tokens=50)

    async def never_the_same(gateway, agent):
        messages = conversation(f"Question {agent.index}?", cached=False)
        messages[0]["content"][0]["text"] = f"Customer {agent.run}/{agent.index}. {RULES}"
        await gateway.chat(messages, max_tokens=50)

    with_cache = await swarm.run(same_prompt, tasks=200, concurrency=20, model=model)
    without = await swarm.run(never_the_same, tasks=200, concurrency=20, model=model)
    saved = 1 - with_cache["cost"] / without["cost"]
    with capsys.disabled():
        print(
            f"\n{model}: {with_cache['cache_hit_rate']:.0%} of the input came from the cache; 100 tasks cost "
            f"${with_cache['cost_per_100']:.5f} instead of ${without['cost_per_100']:.5f}: {saved:.0%} saved"
        )
    assert with_cache.judge("cache_hit_rate >= 60%", "success_rate >= 90%")
    assert without.judge("cache_hit_rate <= 5%", "success_rate >= 90%")
    assert saved > 0.2
