"""Answers as JSON: reasoning, an answer with thousands separators, a confidence only when the model is unsure.

    pytest example_suites/test_json_answers.py

Under `json_output` every request carries the schema as `response_format`, every reply is validated, and a reply that
does not fit makes its task `json_invalid` or `schema_invalid`. The simulated gateway answers from the schema, with the
few invalid replies that its systems are written to give.
"""

import pytest

ANSWER = {
    "type": "object",
    "required": ["reasoning", "answer"],
    "properties": {
        "reasoning": {"type": "string", "minLength": 1},
        "answer": {"enum": ["1,048,576", "65,536", "4,294,967,296"]},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize("model", ["gpt-6-agent", "kimi-k2.5-swarm"])
@pytest.mark.swarm(tasks=300, concurrency=100)
@pytest.mark.sla("json_valid_rate >= 95%", "schema_valid_rate >= 94%", "success_rate >= 85%", "check.separated == 100%")
@pytest.mark.json_output(ANSWER)
async def test_json_answers(gateway, agent, model):
    reply = await gateway.chat(
        "How many colours can 20 bits tell apart? Use thousands separators. Give a confidence only if you are unsure.",
        model=model,
    )
    answer = reply.json  # raises InvalidJSON where the reply is no JSON or does not fit the schema
    agent.check("separated", f"{int(answer['answer'].replace(',', '')):,}" == answer["answer"])
    if "confidence" in answer:
        agent.record("confidence", answer["confidence"])
