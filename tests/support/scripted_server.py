"""A server on loopback that plays scripted exchanges byte for byte, and notes when each request came.

The `model` of a request's body names its case. A case's `script` is a list of responses, one per hit, the last one
repeated::

    {"status": 200, "headers": {...}, "chunks": [[at_ms, "text"], ...], "framing": "chunked", "end": "keep"}

`at_ms` counts from the moment the request was read; a chunk ``{"b64": "..."}`` is raw bytes; `head_ms` delays the
head; `length` overrides the content length. `framing` is ``chunked``, ``length`` or ``none``. `end` is ``keep``,
``close``, ``cut`` (the last chunk is missing), ``reset``, or ``hang`` (silent for `hang_s` seconds).

As a program::

    python -m tests.support.scripted_server CASES.json [--port 0]

prints its port on the first line. GET /log answers with every hit.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

__all__ = ["ScriptedServer", "load_cases"]

LARGEST_HEAD = 2**24
Case = Mapping[str, Any]


def load_cases(path: str | Path) -> list[dict[str, Any]]:
    """The cases of a JSON file."""
    cases: list[dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8"))
    return cases


def encoded(piece: str | Mapping[str, str]) -> bytes:
    """The bytes of one chunk of a script."""
    return piece.encode() if isinstance(piece, str) else base64.b64decode(piece["b64"])


@dataclass
class _Request:
    path: str
    headers: dict[str, str]
    body: bytes
    began: float = field(default_factory=time.monotonic)

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> _Request:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        start, *lines = head.split("\r\n")
        headers = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if colon:
                headers[name.strip().lower()] = value.strip()
        return cls(start.split(" ")[1], headers, await _body(reader, headers))

    @property
    def model(self) -> str | None:
        body = json.loads(self.body or b"{}")
        return body.get("model") if isinstance(body, dict) else None


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    body = b""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    return body


class ScriptedServer:
    """Serves `cases` on the running loop; use it as an async context manager.

    Attributes:
        port: where it listens.
        log: one row per hit: case, number of the hit, time on `time.monotonic`, path, headers.
    """

    def __init__(self, cases: Iterable[Case]) -> None:
        self.log: list[dict[str, Any]] = []
        self.port = 0
        self._cases = {case["name"]: case for case in cases}
        self._hits: Counter[str] = Counter()
        self._listening: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        """What clients take as their base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self, port: int = 0) -> None:
        """Listen on `port`, on a free one by default."""
        self._listening = await asyncio.start_server(
            self._connected, "127.0.0.1", port, limit=LARGEST_HEAD, backlog=4096
        )
        self.port = self._listening.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        assert self._listening is not None
        self._listening.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._listening.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or `stop` was called: in a connection's own task nobody else cancels
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when the connection ends with it."""
        request = await _Request.read(reader)
        if request.path == "/log":
            await _send_json(writer, "200 OK", self.log)
            return True
        case = self._cases.get(str(request.model))
        if case is None:
            error = {"message": f"no case {request.model!r}", "type": "not_found"}
            await _send_json(writer, "404 Not Found", {"error": error})
            return True
        name = case["name"]
        hit = self._hits[name]
        self._hits[name] += 1
        self.log.append(
            {"case": name, "hit": hit, "at": request.began, "path": request.path, "headers": request.headers}
        )
        return await _play(case["script"][min(hit, len(case["script"]) - 1)], request.began, writer)


async def _send_json(writer: asyncio.StreamWriter, status: str, value: object) -> None:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def _play(step: Mapping[str, Any], began: float, writer: asyncio.StreamWriter) -> bool:
    """Send one response of a script; False when the connection ends with it."""
    chunks = [(at / 1000, encoded(piece)) for at, piece in step.get("chunks", [])]
    framing, end = step.get("framing", "chunked"), step.get("end", "keep")
    await asyncio.sleep(step.get("head_ms", 0) / 1000)
    writer.write(_head(step, framing, sum(len(piece) for _, piece in chunks)))
    for at, piece in chunks:
        delay = began + at - time.monotonic()
        if delay > 0:
            await writer.drain()
            await asyncio.sleep(delay)
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if framing == "chunked" else piece)
    await writer.drain()
    if end == "hang":
        await asyncio.sleep(step.get("hang_s", 30))
    elif end == "reset":
        writer.transport.abort()
    elif framing == "chunked" and end != "cut":
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    return bool(end == "keep" and framing != "none")


def _head(step: Mapping[str, Any], framing: str, size: int) -> bytes:
    headers = {"content-type": "text/event-stream"}
    headers.update((name.lower(), value) for name, value in step.get("headers", {}).items())
    if framing == "chunked":
        headers["transfer-encoding"] = "chunked"
    elif framing == "length":
        headers["content-length"] = str(step.get("length", size))
    else:
        headers["connection"] = "close"
    lines = [f"HTTP/1.1 {step.get('status', 200)} X", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


async def _serve(cases: str, port: int) -> None:
    server = ScriptedServer(load_cases(cases))
    await server.start(port)
    print(server.port, flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serve the cases of a file until interrupted."""
    parser = argparse.ArgumentParser(description="Play scripted exchanges on loopback.")
    parser.add_argument("cases", help="a JSON file")
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(arguments.cases, arguments.port))


if __name__ == "__main__":
    main()
