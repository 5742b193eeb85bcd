"""Interactions that tests write and read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pytest_swarm.exchange import Ending, Request
from pytest_swarm.sources.cassette.interaction import Interaction

URL = "http://127.0.0.1:8000/v1/chat/completions"


def request(body: Any = None, *, url: str = URL, headers: dict[str, str] | None = None) -> Request:
    """A request with a JSON body."""
    asked = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]} if body is None else body
    return Request("POST", url, headers or {"content-type": "application/json"}, json.dumps(asked).encode())


def events(*texts: str, **fields: Any) -> bytes:
    """A stream of chat chunks, one for each text."""
    chunks = [{"id": "c1", **fields, "choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


STREAMED = Interaction(
    request(),
    200,
    {"content-type": "text/event-stream", "x-request-id": "req_1"},
    events("Hel", "lo"),
    agent=3,
    run=1,
    sequence=2,
    connect=0.001,
    head=0.05,
    chunks=((0.05, 60), (0.071234, len(events("Hel", "lo")) - 60)),
    end=0.08,
    recorded_at="2026-01-02T03:04:05.678Z",
)
REFUSED = replace(
    STREAMED,
    status=None,
    headers={},
    body=b"",
    head=None,
    chunks=(),
    connect=None,
    end=0.002,
    ending=Ending.CONNECT_ERROR,
    error="ClientConnectorError: refused",
)
SILENT = replace(
    STREAMED, body=b"", chunks=(), end=1.0, ending=Ending.FIRST_TOKEN_TIMEOUT, error="nothing came for 1 s"
)
CUT = replace(STREAMED, body=events("Hel")[:40], chunks=((0.05, 40),), ending=Ending.DISCONNECTED, error="reset")
BINARY = replace(STREAMED, request=replace(request(), body=b"\x00\xff"), body=b"\xfe\x00\n", chunks=((0.1, 3),))
OUTSIDE = replace(STREAMED, agent=None, warmup=True, source="simulated")

EVERY = {
    "streamed": STREAMED,
    "refused": REFUSED,
    "silent": SILENT,
    "cut": CUT,
    "binary": BINARY,
    "outside": OUTSIDE,
}
