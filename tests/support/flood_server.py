"""A server on loopback that sends more than anybody wants; the model names how much.

`stream-30` streams 30 MB in chunks of some 4 KB, `tokens-30` in chunks of one token, `event-10` one event of 10 MB;
`endless` never stops. As a program it
prints its port and serves until its standard input is closed::

    python -m tests.support.flood_server
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator

MEGABYTE = 10**6
BUFFERED = 2**16
PIECE = "abcdefgh" * 500
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
END = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


def event(text: str) -> bytes:
    """One chunk of a chat completion."""
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


def flood(model: str) -> Iterator[bytes]:
    """What is sent after the head."""
    kind, _, size = model.partition("-")
    if kind == "event":
        yield event("x" * (int(size) * MEGABYTE))
    else:
        piece = event(" token" if kind == "tokens" else PIECE)
        many = int(size) * MEGABYTE // len(piece) if size else sys.maxsize
        for _ in range(many):
            yield piece
    yield END


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request, as fast as the client reads."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        writer.write(HEAD)
        for piece in flood(json.loads(await reader.readexactly(length))["model"]):
            writer.write(piece)
            if writer.transport.get_write_buffer_size() > BUFFERED:
                await writer.drain()
    writer.close()


async def serve() -> None:
    """Serve until the standard input is closed."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
