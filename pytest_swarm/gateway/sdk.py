"""SDK clients that point at the gateway under test: its address, its key, its headers and timeouts, no retries."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pytest_swarm.errors import SettingError

if TYPE_CHECKING:
    from pytest_swarm.gateway.client import Terms

__all__ = ["SharedClients", "load_early", "make_anthropic", "make_openai"]

Make = Callable[..., Any]
"""`make_openai` or `make_anthropic`."""

NO_KEY: Final = "no-key"
"""SDKs refuse to start without a key; a gateway that asks for none does not look at it."""

_OPENAI: Final = ("AsyncOpenAI", "OpenAI")
_ANTHROPIC: Final = ("AsyncAnthropic", "Anthropic")


class SharedClients:
    """The clients that a gateway hands out: one of a kind for all tasks, since every client has connections of its own.

    Async clients belong to the event loop on which they were asked for.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._blocking: dict[Make, Any] = {}
        self._unbound: dict[Make, Any] = {}
        """Those that were asked for where no loop ran."""
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Make, Any]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def get(self, make: Make, options: dict[str, Any], *, blocking: bool = False) -> Any:
        """A client; with options of its own it is nobody else's, and whoever asked for it closes it."""
        if options:
            return make(self._terms, blocking=blocking, options=options)
        with self._lock:
            clients = self._blocking if blocking else self._of_running_loop()
            if make not in clients or clients[make].is_closed():
                clients[make] = make(self._terms, blocking=blocking, options={})
            return clients[make]

    def _of_running_loop(self) -> dict[Make, Any]:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self._unbound
        return self._by_loop.setdefault(loop, {})

    async def close(self) -> None:
        """Close the clients of the running loop, and those of none."""
        clients = [*self._of_running_loop().values(), *self._unbound.values()]
        for client in clients:
            await client.close()

    def close_blocking(self) -> None:
        """Close the clients of sync bodies."""
        for client in self._blocking.values():
            client.close()


def load_early(body: Callable[..., object]) -> None:
    """Import the SDKs that a body asks a gateway for, as far as they are installed.

    The first task would do it otherwise, and for that second or two nothing else runs: it would be in every latency.
    """
    code = getattr(inspect.unwrap(body), "__code__", None)
    for package in ("openai", "anthropic"):
        if code is not None and package in code.co_names:
            with suppress(ImportError):
                importlib.import_module(package)


def make_openai(terms: Terms, *, blocking: bool, options: dict[str, Any]) -> Any:
    """A client of the package ``openai``; `options` are arguments of its class and come before ours.

    Raises `SettingError` when the package is not installed.
    """
    sdk = _sdk("openai", "gateway.openai()")
    return getattr(sdk, _OPENAI[blocking])(**{"base_url": terms.base_url, **_common(terms, sdk), **options})


def make_anthropic(terms: Terms, *, blocking: bool, options: dict[str, Any]) -> Any:
    """A client of the package ``anthropic``; see `make_openai`. The SDK itself adds ``/v1`` to its address."""
    sdk = _sdk("anthropic", "gateway.anthropic()")
    base_url = terms.base_url.removesuffix("/v1")
    return getattr(sdk, _ANTHROPIC[blocking])(**{"base_url": base_url, **_common(terms, sdk), **options})


def _sdk(package: str, what: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise SettingError(
            f"{what} needs the package {package}, which is not installed: pip install {package}"
        ) from None


def _common(terms: Terms, sdk: Any) -> dict[str, Any]:
    headers = {name: value for name, value in terms.headers.items() if name not in ("accept", "authorization")}
    scheme, _, key = terms.headers.get("authorization", "").partition(" ")
    if key and scheme.lower() != "bearer":
        headers["authorization"] = terms.headers["authorization"]
        key = ""
    return {
        "api_key": key or NO_KEY,
        "default_headers": headers,
        "max_retries": 0,
        "timeout": _timeout(terms, sdk),
    }


def _timeout(terms: Terms, sdk: Any) -> Any:
    """The limits as far as httpx can hold them: it has one for connecting, and one between two reads."""
    limits = terms.limits
    between = max((limit for limit in (limits.first_token, limits.idle) if limit is not None), default=None)
    bounds = [limit for limit in (between, limits.total) if limit is not None]
    connects = [limit for limit in (limits.connect, limits.total) if limit is not None]
    return sdk.Timeout(min(bounds, default=None), connect=min(connects, default=None))
