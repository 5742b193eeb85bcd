"""Which model for which workload: the same load on two models, judged by the workloads of pyproject.toml.

    pytest example_suites/test_which_model.py --swarm-project 1_000_000/month

Without `--swarm-base-url` both models are simulated, and the summary says so: the figures show how a choice is made,
and nothing about any model.
"""

import pytest

MODELS = ["gpt-6-agent", "kimi-k2.5-swarm"]
VERDICT = {
    "type": "object",
    "required": ["decision", "confidence"],
    "properties": {
        "decision": {"type": "string", "enum": ["approve", "refer", "decline"]},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
}
POLICY = "You review expense claims by the travel policy, paragraph by paragraph. " * 80
"""Long enough to be cached: what caching is worth shows in the projection."""


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.swarm(tasks=200, concurrency=50, seed=6)
@pytest.mark.sla("success_rate >= 85%")
@pytest.mark.json_output(VERDICT)
async def test_which_model(gateway, agent, model):
    claim = f"Claim {agent.index}: {agent.rng.randrange(20, 900)} dollars for a hotel night."
    messages = [{"role": "system", "content": POLICY}, {"role": "user", "content": claim}]
    reply = await gateway.chat(messages, model=model, stream=True)
    assert reply.json["decision"] in VERDICT["properties"]["decision"]["enum"]
