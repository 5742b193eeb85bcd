"""Every scripted exchange, over a real socket, through httpx and httpx2; and what else their clients do."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_swarm.gateway.client import Gateway
from pytest_swarm.tap import httpx as httpx_tap
from pytest_swarm.tap.routing import Agent
from tests.support.bench import Rows, swarm
from tests.support.processes import port_of
from tests.unit.tap.test_exchanges import CASES, CASES_PATH, check


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """The server has a process of its own, so that it is on time."""
    with port_of([sys.executable, "-m", "tests.support.scripted_server", str(CASES_PATH)]) as port:
        yield f"http://127.0.0.1:{port}/v1"


@pytest.fixture(autouse=True)
def tapped() -> Iterator[None]:
    httpx_tap.install()
    yield
    httpx_tap.uninstall()


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


def run(base_url: str, body: Any, **arguments: Any) -> Rows:
    rows, conducting = asyncio.run(swarm(base_url, body, **arguments))
    assert not conducting.errors
    return rows


def question(name: str, stream: bool = True) -> dict[str, Any]:
    return {"model": name, "messages": [], "stream": stream}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "retries" not in case["request"]])
def test_an_async_client_is_read_like_any_other(library: Any, base_url: str, name: str) -> None:
    case = CASES[name]
    got: list[bytes] = []

    async def body(gateway: Gateway, agent: Agent) -> None:
        async with library.AsyncClient(timeout=case["request"].get("timeout", 30)) as client:
            try:
                payload = question(name, case["request"]["stream"])
                got.append((await client.post(f"{base_url}/chat/completions", json=payload)).content)
            except library.HTTPError:
                pass

    (call,) = run(base_url, body).calls
    check(call, case["expect"], None)
    assert call["model"] == name
    if case["expect"].get("outcome") == "ok":
        expected = "".join(piece for _, piece in case["script"][0]["chunks"])
        assert got == [expected.encode()]
