"""What reading a reply costs: bytes to outcome, times, text and usage, beside a plain `json.loads` of the same bytes.

    python benchmarks/reading.py [--rounds 15]

Needs nothing but Python and this repository. Both sides take turns in one process, so that a slow machine slows both;
the median of the rounds is printed, and its ratio to the plain loop, the peer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_swarm.exchange import Ending
from pytest_swarm.reading import reader_factory
from pytest_swarm.reading.json_output import parse_json

REPLIES = 2_000
CHUNKS = 200
"""Of one stream."""
STREAMS = 40
ANSWER = json.dumps({"answer": "The third quarter was better than the second. " * 8, "confidence": 0.75})
USAGE = {"prompt_tokens": 1200, "completion_tokens": 200, "total_tokens": 1400}


def document() -> bytes:
    """A chat completion that was not streamed."""
    choice = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
    whole = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps({**whole, "choices": [choice], "usage": USAGE}).encode()


def events() -> list[bytes]:
    """A streamed chat completion: a role, tokens one by one, a finish reason, usage, the end mark."""

    def chunk(delta: dict[str, str], reason: str | None = None) -> dict[str, object]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    tokens = [chunk({"content": f" word{number}"}) for number in range(CHUNKS)]
    whole = [chunk({"role": "assistant", "content": ""}), *tokens, chunk({}, "stop"), {"choices": [], "usage": USAGE}]
    return [*(f"data: {json.dumps(one)}\n\n".encode() for one in whole), b"data: [DONE]\n\n"]


def read(chunks: Sequence[bytes], content_type: str) -> None:
    """A reading, as a run makes it."""
    reader = reader_factory("chat")(200, {"content-type": content_type})
    for number, data in enumerate(chunks):
        reader.feed(number / 100, data)
    if reader.finish(Ending.COMPLETE, "").outcome != "ok":
        raise RuntimeError("the benchmark's own reply was not read as ok")


def load_events(chunks: Sequence[bytes]) -> None:
    """The least that a client does with a stream: parse every event."""
    for data in chunks:
        if data != b"data: [DONE]\n\n":
            json.loads(data[6:])


def seconds(work: Callable[[], object], times: int) -> float:
    """How long one piece of work takes."""
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    body, stream = document(), events()
    rows: list[tuple[str, str, float, int, Callable[[], object], Callable[[], object]]] = [
        (
            f"a JSON reply of {len(body):,} bytes",
            "us",
            1e6,
            REPLIES,
            lambda: read([body], "application/json"),
            lambda: json.loads(body),
        ),
        (
            f"a chunk of a stream of {len(stream)}",
            "ns",
            1e9 / len(stream),
            STREAMS,
            lambda: read(stream, "text/event-stream"),
            lambda: load_events(stream),
        ),
        (
            f"a text of {len(ANSWER):,} characters as strict JSON",
            "us",
            1e6,
            REPLIES,
            lambda: parse_json(ANSWER),
            lambda: json.loads(ANSWER),
        ),
    ]
    print(f"{'':<45}{'reading':>12}{'json.loads':>12}{'ratio':>8}")
    for what, unit, scale, times, ours, peer in rows:
        pairs = [(seconds(ours, times), seconds(peer, times)) for _ in range(rounds)]
        reading, loading = (statistics.median(side) for side in zip(*pairs, strict=True))
        print(f"{what:<45}{reading * scale:9.1f} {unit}{loading * scale:9.1f} {unit}{reading / loading:8.2f}")


if __name__ == "__main__":
    main()
