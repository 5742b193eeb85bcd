"""A server that hangs up on connections it had promised to keep: asked again once, and told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

BODY = b'{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(BODY)

CODE = """
@pytest.mark.swarm(tasks=2, concurrency=1)
@pytest.mark.sla("attempts == 6")
async def test_it(gateway):
    for _ in range(3):
        await gateway.chat("hi", model="m")
"""


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request, and close the connection when the next one has come in."""
    try:
        for answer in (HEAD + BODY, b""):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            _, found, length = head.partition(b"content-length:")
            await reader.readexactly(int(length.split(b"\r\n")[0]) if found else 0)
            writer.write(answer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


@pytest.fixture
def server() -> Iterator[str]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    listening = asyncio.run_coroutine_threadsafe(asyncio.start_server(serve, "127.0.0.1", 0), loop).result(10)
    yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    loop.call_soon_threadsafe(listening.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def test_a_dropped_idle_connection_is_replaced_once_counted_and_told(suite: Any, report: Any, server: str) -> None:
    result = suite(CODE, gateway=server, model="m")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*note *requests were sent again on a new connection*"])
    (test,) = report()["tests"]
    again = sum(any("reconnected" in note for note in call["notes"]) for call in test["calls"])
    assert again >= 2
    assert test["metrics"]["retries"] == 0
    assert [note for note in test["notes"] if note.startswith(f"{again} requests were sent again")]
