"""A server on loopback that keeps account of the load it is given: when each request came, and how many were there.

It serves so many at a time and lets the others wait in their order; it may hold all answers back until so many requests
have been there at once. The model call with no number in its prompt is the question before a run: it is not counted.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from types import TracebackType
from typing import Self

from aiohttp import web


class LoadServer:
    """Serves while the context manager is entered. `arrivals` are pairs of the number in the prompt and a time."""

    def __init__(self, at_a_time: int | None = None, seconds: float = 0.0, opens_at: int = 0) -> None:
        self.arrivals: list[tuple[int, float]] = []
        self.there_max = 0
        """The largest number of requests that were there at one time, those that waited included."""
        self.served_max = 0
        """The largest number that was worked on at one time."""
        self.base_url = ""
        self._at_a_time, self._seconds, self._opens_at = at_a_time, seconds, opens_at
        self._there = self._served = 0

    def __enter__(self) -> Self:
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._main()), daemon=True)
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)
        self._loop.close()

    async def _main(self) -> None:
        self._end, self._open = asyncio.Event(), asyncio.Event()
        self._slots = asyncio.Semaphore(self._at_a_time or 10**6)
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        self.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        self._ready.set()
        await self._end.wait()
        await runner.cleanup()

    async def _chat(self, request: web.Request) -> web.Response:
        came = time.monotonic()
        body = await request.json()
        number = re.search(r"[0-9]+", str(body["messages"][-1]["content"]))
        if number is not None:
            self.arrivals.append((int(number[0]), came))
            await self._serve()
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
        return web.json_response({"object": "chat.completion", "choices": [choice], "usage": usage})

    async def _serve(self) -> None:
        self._there += 1
        self.there_max = max(self.there_max, self._there)
        if self._there >= self._opens_at:
            self._open.set()
        try:
            await self._open.wait()
            async with self._slots:
                self._served += 1
                self.served_max = max(self.served_max, self._served)
                await asyncio.sleep(self._seconds)
                self._served -= 1
        finally:
            self._there -= 1
