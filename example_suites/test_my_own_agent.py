"""An agent of your own under load: it knows nothing of the plugin, and every model call it makes is measured.

    pytest example_suites/test_my_own_agent.py

A task is one question to the agent, which thinks and looks things up in several model calls: judged are the latency of
the whole, the calls and the tokens it takes. Needs `pip install openai`, and is skipped without it. Against your own:

    pytest example_suites/test_my_own_agent.py --swarm-base-url=https://gateway.example.com/v1 --swarm-model=my-model
"""

import json

import pytest
import pytest_asyncio

openai = pytest.importorskip("openai", reason="the package openai is missing: pip install openai")

# --- what you have already: import it instead ---

ORDERS = {"1007": "3 lamps, sent on Monday to Seoul", "1008": "1 desk, not sent yet"}
DAYS = {"Seoul": 2, "Busan": 3}
STEP = {
    "type": "object",
    "properties": {
        "action": {"enum": ["find_order", "delivery_days", "answer"]},
        "argument": {"type": "string", "examples": ["1007", "1008", "Seoul", "Busan"]},
    },
    "required": ["action", "argument"],
    "additionalProperties": False,
}
SYSTEM = """You answer questions about orders. In each step name one action: find_order with the number of an order,
delivery_days with the name of a city, or answer as soon as you know enough."""


class SupportAgent:
    """Two tools, a few steps, an answer that is streamed."""

    def __init__(self, client, model, most_steps=5):
        self.client, self.model, self.most_steps = client, model, most_steps
        self.tools = {
            "find_order": lambda number: ORDERS.get(number, "no such order"),
            "delivery_days": lambda city: f"{DAYS.get(city, 5)} days",
        }

    async def answer(self, question):
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
        for _ in range(self.most_steps):
            step = await self._step(messages)
            if step["action"] == "answer":
                break
            found = self.tools[step["action"]](step["argument"])
            messages += [
                {"role": "assistant", "content": json.dumps(step)},
                {"role": "user", "content": f"{step['action']}: {found}"},
            ]
        messages.append({"role": "user", "content": "Answer the question in two sentences."})
        stream = await self.client.chat.completions.create(
            model=self.model, messages=messages, stream=True, stream_options={"include_usage": True}
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async def _step(self, messages):
        form = {"type": "json_schema", "json_schema": {"name": "step", "schema": STEP, "strict": True}}
        for _ in range(3):
            reply = await self.client.chat.completions.create(model=self.model, messages=messages, response_format=form)
            try:
                step = json.loads(reply.choices[0].message.content)
                if step["action"] in ("answer", *self.tools) and isinstance(step["argument"], str):
                    return step
            except (ValueError, TypeError, KeyError):
                pass  # no JSON, or not the fields it was asked for: ask again
        raise RuntimeError("no step that can be made out")


# --- the test: all that the plugin needs ---


@pytest_asyncio.fixture
async def support(gateway):
    # A client of its own, with the SDK's retries: they are attempts of one call, and their waits count.
    async with gateway.openai(max_retries=2) as client:
        yield SupportAgent(client, gateway.model)


@pytest.mark.swarm(tasks=50, concurrency=20)
@pytest.mark.sla("success_rate >= 95%", "p95 < 45s")  # of tasks, from the question to the answer
@pytest.mark.sla("calls <= 300", "call_success_rate >= 95%")  # 50 tasks: at most 5 steps and the answer each
@pytest.mark.sla("output_tokens.p95 < 20k", "input_tokens.p95 < 5k")  # per task
@pytest.mark.sla("ttft.p95 < 8s")  # of the calls that are streamed: the answer
async def test_my_own_agent(support, agent):
    question = f"When does order {1000 + agent.index} arrive?"
    assert await support.answer(question)
