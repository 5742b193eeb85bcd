"""A small OpenAI-compatible gateway on loopback, in a thread: what it does is in the name of the model.

`echo` answers at once with the prompt; `slow` after 50 ms; `hang` never; `json` with `{"a": 1}`, `notjson` with text,
`wrongjson` with `{"a": "x"}`; `status-503` with that status, `quota` with an exhausted quota; `flaky` with 503 for
every third request; `priced` reports a cost of $0.001, `gpt-4o` one of $0.0001; `verbose` counts 10,000 output tokens,
where the others count 5; `unlisted` answers, and is in no list of models. Streams come in three pieces. A wrong key is
refused when one is set. A service tier that is asked for is the one that is told.
"""

from __future__ import annotations

import asyncio
import json
import threading
from types import TracebackType
from typing import Any, Self

from aiohttp import web

MODELS = (
    "echo",
    "slow",
    "hang",
    "json",
    "notjson",
    "wrongjson",
    "status-503",
    "quota",
    "flaky",
    "priced",
    "verbose",
    "gpt-4o",
)
COSTS = {"priced": 0.001, "gpt-4o": 0.0001}
ANSWERS = {"json": '{"a": 1}', "notjson": "no braces here", "wrongjson": '{"a": "x"}'}


class SmallGateway:
    """Serves while the context manager is entered; `requests` holds the parsed bodies in order of arrival."""

    def __init__(self, key: str | None = None) -> None:
        self.key = key
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.base_url = ""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        self._end = asyncio.Event()
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
        await site.start()
        assert runner.addresses
        self.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        self._ready.set()
        await self._end.wait()
        await runner.cleanup()

    def _refused(self, request: web.Request) -> bool:
        return self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}"

    async def _models(self, request: web.Request) -> web.Response:
        if self._refused(request):
            return _error(401, "invalid api key")
        return web.json_response({"object": "list", "data": [{"id": model, "object": "model"} for model in MODELS]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if self._refused(request):
            return _error(401, "invalid api key")
        body = await request.json()
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        model = body["model"]
        if model == "slow":
            await asyncio.sleep(0.05)
        elif model == "hang":
            await self._end.wait()
        elif model.startswith("status-"):
            return _error(int(model.removeprefix("status-")), "asked for")
        elif model == "quota":
            return _error(429, "You exceeded your current quota", code="insufficient_quota")
        elif model == "flaky" and len(self.requests) % 3 == 0:
            return _error(503, "every third")
        elif model not in (*MODELS, "unlisted"):
            return _error(404, f"no model {model}", code="model_not_found")
        text = ANSWERS.get(model, str(body["messages"][-1]["content"]))
        output = 10_000 if model == "verbose" else 5
        usage: dict[str, Any] = {"prompt_tokens": 10, "completion_tokens": output, "total_tokens": 10 + output}
        if model in COSTS:
            usage["cost"] = COSTS[model]
        if body.get("stream"):
            return await _stream(request, text, usage)
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        told = {key: body[key] for key in ("service_tier",) if key in body}
        reply = {"id": "c1", "object": "chat.completion", "choices": [choice], "usage": usage, **told}
        return web.json_response(reply)


async def _stream(request: web.Request, text: str, usage: dict[str, Any]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    third = max(1, len(text) // 3)
    pieces = [text[:third], text[third : 2 * third], text[2 * third :]]
    for piece in pieces:
        await response.write(_event({"choices": [{"index": 0, "delta": {"content": piece}}]}))
        await asyncio.sleep(0.005)
    await response.write(_event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    await response.write(_event({"choices": [], "usage": usage}))
    await response.write(b"data: [DONE]\n\n")
    return response


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def _error(status: int, message: str, code: str | None = None) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "error", "code": code}}, status=status)
