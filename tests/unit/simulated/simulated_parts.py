"""What the tests of the simulated gateway share: systems made to measure, requests, and clients without a network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_swarm.exchange import Ending
from pytest_swarm.sources.simulated.asking import Ask
from pytest_swarm.sources.simulated.cache import Piece
from pytest_swarm.sources.simulated.profile import Cache, Capacity, Faults, Limits, Service, System
from pytest_swarm.sources.simulated.reception import Reception
from pytest_swarm.sources.simulated.systems import builtin_systems
from pytest_swarm.sources.simulated.timeline import EventTimeline, Timeline
from pytest_swarm.sources.simulated.visit import Visit

CHAT = "http://simulated/v1/chat/completions"
ANSWER = {
    "type": "object",
    "required": ["answer", "confidence"],
    "properties": {"answer": {"type": "string"}, "confidence": {"type": "number", "minimum": 0, "maximum": 1}},
}


def plain_system(seconds: float = 1.0, **changes: Any) -> System:
    """A system called `plain`: one worker, answers that take `seconds`, and nothing that goes wrong or is kept."""
    base = builtin_systems()["gpt-6-agent"]
    usual: dict[str, Any] = {
        "name": "plain",
        "service": Service((0.0, 1.0), (seconds, seconds), 0.2),
        "capacity": Capacity("fixed", 1),
        "faults": Faults(),
        "cache": Cache(),
        "json": replace(base.json, invalid_rate=0.0, schema_invalid_rate=0.0),
        "stream": replace(base.stream, gap_jitter=0.0),
        "limits": Limits(),
    }
    return replace(base, **{**usual, **changes})


def ask(text: str = "hello", **fields: Any) -> Ask:
    """A request as the engine sees it."""
    return Ask("plain", [Piece(f"user\n{text}")], **fields)


def chat_body(model: str | None = "plain", text: str = "hello", **fields: Any) -> bytes:
    """A request for a chat completion."""
    body = {"model": model, "messages": [{"role": "user", "content": text}], **fields}
    return json.dumps(body).encode()


@dataclass
class Client:
    """Takes one reply, and notes when what came."""

    timeline: Timeline
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    head_at: float | None = None
    feeds: list[tuple[float, bytes]] = field(default_factory=list)
    ending: Ending | None = None
    error: str = ""
    ended: float | None = None
    visit: Visit | None = None

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        assert self.status is None
        self.status, self.headers, self.head_at = status, headers, self.timeline.time()

    def feed(self, data: bytes) -> None:
        assert self.status is not None
        assert self.ending is None
        self.feeds.append((self.timeline.time(), data))

    def finish(self, ending: Ending, error: str = "") -> None:
        assert self.ending is None
        self.ending, self.error, self.ended = ending, error, self.timeline.time()

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.feeds)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return str(self.json["choices"][0]["message"]["content"])


class Bench:
    """One reception on a timeline of its own."""

    def __init__(self, *systems: System, seed: str = "1", speed: float = 1.0) -> None:
        self.timeline = EventTimeline()
        self.systems = {system.name: system for system in systems}
        self.reception = Reception(self.systems, seed, self.timeline, speed)

    def send(self, body: bytes, url: str = CHAT) -> Client:
        """Ask at the present time; the reply comes while the timeline runs."""
        client = Client(self.timeline)
        client.visit = self.reception.receive(url, body, client)
        return client

    def ask(self, body: bytes, url: str = CHAT) -> Client:
        """Ask, and wait for the end of everything."""
        client = self.send(body, url)
        self.timeline.run()
        return client
