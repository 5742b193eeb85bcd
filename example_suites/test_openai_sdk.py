"""The openai SDK under load: `gateway.openai()` is an AsyncOpenAI client, pointed at the gateway and measured as it is.

    pytest example_suites/test_openai_sdk.py

Needs `pip install openai`, and is skipped without it. Against your own gateway:

    pytest example_suites/test_openai_sdk.py --swarm-base-url=https://gateway.example.com/v1 --swarm-model=my-model
"""

import pytest

pytest.importorskip("openai", reason="the package openai is missing: pip install openai")
from pydantic import BaseModel  # comes with openai


class Verdict(BaseModel):
    positive: bool
    reason: str


def question(text):
    return [{"role": "user", "content": text}]


# All tasks share one client. Its own retries are off, so that failures are seen; gateway.openai(max_retries=2) retries.
@pytest.mark.swarm(tasks=60, concurrency=30)
@pytest.mark.sla("success_rate >= 90%", "p95 < 10s", "output_tokens.mean < 3k")
async def test_chat(gateway, agent):
    reply = await gateway.openai().chat.completions.create(
        model=gateway.model, messages=question(f"Summarise report {agent.index}.")
    )
    assert reply.choices[0].message.content


# The SDK asks for no usage in a stream by itself: without `stream_options`, tokens and cost would be unknown.
@pytest.mark.swarm(tasks=60, concurrency=30)
@pytest.mark.sla("success_rate >= 90%", "ttft.p95 < 5s", "output_tokens.mean < 3k")
async def test_stream(gateway, agent):
    stream = await gateway.openai().chat.completions.create(
        model=gateway.model,
        messages=question(f"Summarise report {agent.index}."),
        stream=True,
        stream_options={"include_usage": True},
    )
    text = ""
    async for chunk in stream:
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
    assert text


# `parse` raises where the reply does not fit the class: such a task has failed. `json_output` counts these apart.
@pytest.mark.swarm(tasks=60, concurrency=30)
@pytest.mark.sla("success_rate >= 90%", "json_valid_rate >= 95%", "schema_valid_rate >= 95%")
@pytest.mark.json_output(schema=Verdict)  # by name: pytest takes a class alone for what is to be marked
async def test_parse(gateway, agent):
    reply = await gateway.openai().chat.completions.parse(
        model=gateway.model, messages=question(f"Is review {agent.index} positive?"), response_format=Verdict
    )
    assert reply.choices[0].message.parsed.reason
