"""Bodies of replies, and the one way in which these tests read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_swarm.exchange import Ending
from pytest_swarm.reading import reader_factory
from pytest_swarm.records import Reading

STREAM = {"content-type": "text/event-stream"}
DOCUMENT = {"content-type": "application/json"}
DONE = b"data: [DONE]\n\n"

Timed = Iterable[tuple[float, bytes]]


def read(
    body: bytes | Timed,
    *,
    wire: str = "chat",
    status: int = 200,
    headers: Mapping[str, str] = STREAM,
    ending: Ending = Ending.COMPLETE,
    error: str = "",
    keep_raw: bool = True,
) -> Reading:
    """The reading of a body, which is fed whole at 1.0 s, or in timed pieces."""
    reader = reader_factory(wire, keep_raw=keep_raw)(status, headers)
    for offset, data in [(1.0, body)] if isinstance(body, bytes) else body:
        reader.feed(offset, data)
    return reader.finish(ending, error)


def read_json(body: object, **options: Any) -> Reading:
    """The reading of a document."""
    return read(json.dumps(body).encode(), **{"headers": DOCUMENT, **options})


def event(data: object, name: str = "") -> bytes:
    """One event whose data is JSON."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def events(*data: Mapping[str, Any]) -> bytes:
    """Events that are named by their `type`, as Anthropic and the Responses API send them."""
    return b"".join(event(each, each.get("type", "")) for each in data)


def chunk(delta: object = None, finish: str | None = None, index: int = 0, **more: Any) -> bytes:
    """One ``chat.completion.chunk`` with one choice."""
    choice = {"index": index, "delta": {} if delta is None else delta, "finish_reason": finish}
    return event({"id": "c1", "model": "m1", "object": "chat.completion.chunk", "choices": [choice], **more})


def text_chunk(text: str) -> bytes:
    """A chunk that carries a piece of content."""
    return chunk({"content": text})


def completion(message: object, finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    """A ``chat.completion`` with one choice."""
    return {"id": "c1", "model": "m1", "choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}
