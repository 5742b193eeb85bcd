"""A suite that is recorded once, where the gateway can be reached, and replayed in CI, where it cannot.

    pytest example_suites/test_offline_replay.py --swarm-record --swarm-base-url=https://gateway.example.com/v1 \\
        --swarm-model=mine
    pytest example_suites/test_offline_replay.py --swarm-replay

The replay needs no gateway, no key and no time: requests are answered from the cassette, with the times of the
recording, on a virtual clock. It judges what is yours, prompts and code and levels, and fails as soon as a request is
another one than was recorded. It says nothing about what the gateway does today.

The cassette that comes with this suite was recorded from a llama.cpp server with a tiny model that was never trained:
its times are real, its words mean nothing.
"""

import pytest

QUESTIONS = ("What is a queue?", "What is a cache?", "What is backpressure?", "What is a timeout?")


# Another plan may be replayed: `--swarm-concurrency=2` keeps the recorded time of each answer and computes the queue.
@pytest.mark.swarm(tasks=20, concurrency=4)
@pytest.mark.sla("p99 < 30s", "ttft.p95 < 10s", "success_rate >= 90%", "output_tokens.max <= 16")
async def test_offline_replay(gateway, agent):
    question = QUESTIONS[agent.index % len(QUESTIONS)]
    reply = await gateway.chat(f"{question} Answer to customer {agent.index}.", stream=True, max_tokens=16)
    assert reply.finish_reason in {"stop", "length"}
