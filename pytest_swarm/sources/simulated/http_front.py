"""The simulated gateway as a real HTTP server, for any client of any language; and a ledger of what it really sent.

Nobody needs it for a swarm of this plugin, which finds the simulated gateway inside the process. It is there to try
clients against, and to check a measurement against the truth: `GET /ledger` tells what was sent when, and what it cost.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Self

from aiohttp import web

from pytest_swarm.exchange import Ending
from pytest_swarm.sources.simulated.asking import Refused
from pytest_swarm.sources.simulated.engine import EPOCH
from pytest_swarm.sources.simulated.ledger import Entry, Ledger
from pytest_swarm.sources.simulated.reception import CHAT, Reception, wire_at
from pytest_swarm.sources.simulated.systems import System
from pytest_swarm.sources.simulated.timeline import ScaledTimeline

__all__ = ["HttpFront"]

BODY_BYTES: Final = 64 * 2**20
"""The largest request that is read."""
SHUTDOWN_SECONDS: Final = 0.5
"""How long a reply may go on when the server is told to end."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpFront:
    """Serves systems over HTTP; an async context manager, on the loop that serves.

    Times in the ledger are real seconds since it was entered.
    """

    def __init__(self, systems: Mapping[str, System], *, seed: str, speed: float = 1.0, key: str | None = None) -> None:
        """All durations are divided by `speed`. With a `key`, requests must bring it."""
        self.systems = systems
        self.ledger = Ledger(speed)
        self._seed = seed
        self._speed = speed
        self._key = key
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._zero = loop.time()
        self._reception = Reception(self.systems, self._seed, ScaledTimeline(loop, self._speed), self._speed)
        app = web.Application(client_max_size=BODY_BYTES, middlewares=[self._check_key])
        app.router.add_get("/ledger", self._show_ledger)
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_post("/{path:.*}", self._answer)
        # Without it, a client that hangs up would keep its worker.
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS, access_log=None)
        await self._runner.setup()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def listen(self, host: str, port: int) -> str:
        """Begin to serve at an address, port 0 being any that is free. Returns the base URL. Raises `OSError`."""
        assert self._runner is not None
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        bound = self._runner.addresses[-1]
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{bound[1]}/v1"

    def _now(self) -> float:
        return asyncio.get_running_loop().time() - self._zero

    @web.middleware
    async def _check_key(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._key is None or hmac.compare_digest(_key_in(request.headers).encode(), self._key.encode()):
            return await handler(request)
        refused = Refused(401, "the API key is missing or wrong", "invalid_api_key")
        return await self._refuse(request, refused)

    async def _show_ledger(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(self.ledger.to_dict())

    async def _list_models(self, _request: web.Request) -> web.StreamResponse:
        models = [
            {"id": name, "object": "model", "created": EPOCH, "owned_by": "pytest-swarm"} for name in self.systems
        ]
        return web.json_response({"object": "list", "data": models})

    async def _refuse(self, request: web.Request, refused: Refused) -> web.StreamResponse:
        outlet = _Outlet()
        self._reception.refuse(wire_at(request.path) or CHAT, refused, outlet)
        return await self._carry(request, outlet, Entry(request.path, self._now()))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        entry = self.ledger.open(request.path, self._now())
        outlet = _Outlet()
        visit = entry.visit = self._reception.receive(request.path, body, outlet)
        try:
            return await self._carry(request, outlet, entry)
        finally:
            if visit is not None:
                visit.abandon()
            entry.close(self._now(), Ending.CANCELLED)

    async def _carry(self, request: web.Request, outlet: _Outlet, entry: Entry) -> web.StreamResponse:
        """Send what comes out of `outlet`, and note the time of every write."""
        response: web.StreamResponse | None = None
        while True:
            status, headers, data, ending = await outlet.take()
            if response is None and status is not None:
                entry.status = status
                response = web.StreamResponse(status=status, headers=headers)
                if ending is Ending.COMPLETE:
                    response.content_length = len(data)
                await response.prepare(request)
            if response is not None and data:
                await response.write(data)
                entry.wrote(self._now(), len(data))
            if ending is Ending.COMPLETE:
                assert response is not None
                entry.close(self._now(), ending)
                return response
            if ending is not None:
                entry.close(self._now(), ending)
                return _hang_up(request, response)


def _key_in(headers: Mapping[str, str]) -> str:
    scheme, _, credentials = headers.get("Authorization", "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def _hang_up(request: web.Request, response: web.StreamResponse | None) -> web.StreamResponse:
    """Close the connection in the middle of a reply, or before one."""
    if request.transport is not None:
        request.transport.abort()
    return response if response is not None else web.Response(status=500)


class _Outlet:
    """Collects a reply until somebody takes what is there; see `visit.Sink`."""

    def __init__(self) -> None:
        self._status: int | None = None
        self._headers: Mapping[str, str] = {}
        self._data = bytearray()
        self._ending: Ending | None = None
        self._grown = asyncio.Event()

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self._status, self._headers = status, headers
        self._grown.set()

    def feed(self, data: bytes) -> None:
        self._data += data
        self._grown.set()

    def finish(self, ending: Ending, error: str = "") -> None:  # noqa: ARG002 - a peer is not told why
        self._ending = ending
        self._grown.set()

    async def take(self) -> tuple[int | None, Mapping[str, str], bytes, Ending | None]:
        """Wait for something; status and headers as soon as they are known, the bytes once, the ending when it came."""
        await self._grown.wait()
        self._grown.clear()
        data, self._data = bytes(self._data), bytearray()
        return self._status, self._headers, data, self._ending
