"""Answers as JSON: reasoning, an answer with thousands separators, a confidence only when the model is uncertain.

    pytest example_suites/test_json_answers.py

Under `json_output` every request carries the schema as `response_format`, every reply is validated, and a reply that
does not fit makes its task `json_invalid` or `schema_invalid`. The gateway is simulated: it answers from the schema and
its `examples`, and now and then with no JSON, as its systems are written to do. Against your own, with models of yours
in MODELS:

    pytest example_suites/test_json_answers.py --swarm-base-url=https://gateway.example.com/v1
"""

import pytest

MODELS = ["gpt-6-agent", "kimi-k2.5-swarm"]
ANSWER = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "minLength": 1},
        "answer": {
            "type": "string",
            "pattern": "^[0-9]{1,3}(,[0-9]{3})*$",
            "examples": ["1,234,567", "65,536", "9,411,004"],
        },
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["reasoning", "answer"],  # no confidence: it is given only when the model is uncertain
    "additionalProperties": False,
}
QUESTION = "How many people live in city {}? Separate the thousands. Give a confidence only if you are uncertain."


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.swarm(tasks=300, concurrency=100)
@pytest.mark.json_output(ANSWER)
@pytest.mark.sla("json_valid_rate >= 97%", "schema_valid_rate >= 96%", "success_rate >= 90%")
@pytest.mark.sla("check.certain >= 25%", "my.confidence.mean >= 0.3", "my.people.max < 40M")
async def test_json_answers(gateway, agent, model):
    reply = await gateway.chat(QUESTION.format(agent.index), model=model)
    answer = reply.json  # raises InvalidJSON where the reply is no JSON or does not fit the schema
    agent.record("people", int(answer["answer"].replace(",", "")))
    if not agent.check("certain", "confidence" not in answer):
        agent.record("confidence", answer["confidence"])
