"""One question to the gateway before a run: are address, key and model right? It is in no figure."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import aiohttp

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.gateway.client import Terms
from pytest_swarm.redaction import redact_text
from pytest_swarm.tap.routing import unobserved

__all__ = ["preflight"]

SECONDS: Final = 15.0
LISTED: Final = 8
"""Models that an error names."""


async def preflight(terms: Terms, key_from: str | None, affordable: Callable[[bytes], bool] = lambda _: True) -> None:
    """Raise `SettingError` in one line when calls under `terms` cannot succeed.

    The list of models is asked for first, which costs nothing. Only a gateway that does not list the model is sent a
    chat request, of one token, and only if that is `affordable`. `key_from` names the environment variable of the key.
    """
    try:
        # A connection for each question: some servers close one after its first reply although they promised otherwise.
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=SECONDS)) as session:
            status, body = await _ask(session, "GET", f"{terms.base_url}/models", terms.headers)
            _check_key(status, terms, key_from)
            models = _listed(body) if status == 200 else []
            if terms.model is None or terms.model in models:
                return
            question = {"model": terms.model, "messages": [{"role": "user", "content": "ping"}], "max_tokens": 1}
            if not affordable(json.dumps(question).encode()):
                return
            status, body = await _ask(session, "POST", f"{terms.base_url}/chat/completions", terms.headers, question)
            _check_key(status, terms, key_from)
            _check_model(status, body, terms, models)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise SettingError(f"no gateway answers at {terms.base_url} ({_why(error)}); check --swarm-base-url") from None


async def _ask(
    session: aiohttp.ClientSession, method: str, url: str, headers: Mapping[str, str], body: Any = None
) -> tuple[int, str]:
    with unobserved():
        response = await session.request(method, url, headers=dict(headers), json=body)
    async with response:
        return response.status, await response.text(errors="replace")


def _check_key(status: int, terms: Terms, key_from: str | None) -> None:
    if status not in (401, 403):
        return
    if key_from is None:
        remedy = "no key was sent; set SWARM_API_KEY, or name the key's variable with --swarm-api-key-env"
    else:
        remedy = f"check the key in {key_from}"
    raise SettingError(f"the gateway at {terms.base_url} refuses the request (HTTP {status}): {remedy}")


def _check_model(status: int, body: str, terms: Terms, models: list[str]) -> None:
    """A client error to the one-token request is about the model when it says so; others are left to the run."""
    unknown = status == 404 or (status == 400 and "model" in body.lower() and "max_tokens" not in body)
    if not unknown:
        return
    assert terms.model is not None
    listed = f"; it lists {', '.join(models[:LISTED])}{', …' if len(models) > LISTED else ''}" if models else ""
    said = f" (HTTP {status}: {redact_text(' '.join(body.split()))[:120]})" if not models else ""
    raise SettingError(
        f"the gateway at {terms.base_url} has no model {terms.model!r}{said}{listed}{nearest(terms.model, models)}"
    )


def _listed(body: str) -> list[str]:
    """The ids of a model list; empty for anything else."""
    try:
        data = json.loads(body)
        return [str(entry["id"]) for entry in data["data"]]
    except (ValueError, KeyError, TypeError):
        return []


def _why(error: BaseException) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return f"no answer within {SECONDS:g} s"
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno is not None:
        return os.strerror(error.os_error.errno).lower()
    return redact_text(str(error) or type(error).__name__)
