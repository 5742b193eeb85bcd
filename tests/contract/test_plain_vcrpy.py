"""What this package records, plain vcrpy loads, replays and saves again; and its own cassettes are read here."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
import vcr
from vcr.cassette import Cassette as VcrCassette
from vcr.request import Request as VcrRequest
from vcr.serializers import yamlserializer

from pytest_swarm.exchange import Ending
from pytest_swarm.sources.cassette.file import read_cassette
from pytest_swarm.sources.cassette.interaction import Interaction
from pytest_swarm.sources.cassette.writer import CassetteWriter
from tests.support.small_gateway import SmallGateway
from tests.unit.cassette.cassette_samples import CUT, EVERY, REFUSED, STREAMED, URL, request

FORMS = pytest.mark.parametrize("form", ["yaml", "json"])
QUESTION = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


def written(path: Path, *interactions: Interaction) -> Path:
    writer = CassetteWriter(path)
    for interaction in interactions:
        writer.append(interaction)
    writer.complete()
    return path


def tape(path: Path, mode: str = "none") -> Any:
    return vcr.use_cassette(str(path), record_mode=mode, serializer=path.suffix.removeprefix("."))


async def by_aiohttp() -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session, session.post(URL, json=QUESTION) as response:
        return response.status, await response.read()


async def by_aiohttp_in_pieces() -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session, session.post(URL, json=QUESTION) as response:
        return response.status, b"".join([piece async for piece in response.content.iter_any()])


async def by_httpx() -> tuple[int, bytes]:
    async with httpx.AsyncClient() as client, client.stream("POST", URL, json=QUESTION) as response:
        return response.status_code, b"".join([piece async for piece in response.aiter_bytes()])


async def by_httpx_in_a_thread() -> tuple[int, bytes]:
    response = httpx.post(URL, json=QUESTION)
    return response.status_code, response.content


CLIENTS = pytest.mark.parametrize("client", [by_aiohttp, by_aiohttp_in_pieces, by_httpx, by_httpx_in_a_thread])


@FORMS
@CLIENTS
def test_plain_vcrpy_replays_our_cassette(tmp_path: Path, form: str, client: Callable[[], Any]) -> None:
    path = written(tmp_path / f"test.{form}", STREAMED, replace(CUT, sequence=3), replace(REFUSED, sequence=4))
    with tape(path) as playing:
        found = [asyncio.run(client()) for _ in range(3)]
    assert found[0] == (200, STREAMED.body)
    assert found[1] == (200, CUT.body)
    status, body = found[2]
    assert status == 599
    assert b"recorded failure, not an answer" in body
    assert playing.all_played


@FORMS
def test_loading_and_saving_by_plain_vcrpy_keeps_our_data(
    tmp_path: Path, form: str, small_gateway: SmallGateway
) -> None:
    kept = [replace(one, sequence=number) for number, one in enumerate(EVERY.values())]
    path = written(tmp_path / f"test.{form}", *kept)
    with tape(path, "new_episodes"):
        asyncio.run(_ask(small_gateway.base_url))
    found = read_cassette(path).interactions
    assert list(found[:-1]) == kept
    assert (found[-1].timed, found[-1].model, found[-1].status) == (False, "echo", 200)


async def _ask(base_url: str) -> None:
    async with aiohttp.ClientSession() as session:
        body = {"model": "echo", "messages": [{"role": "user", "content": "Hello"}]}
        async with session.post(f"{base_url}/chat/completions", json=body) as response:
            await response.read()


@pytest.fixture(scope="module")
def small_gateway() -> Iterator[SmallGateway]:
    with SmallGateway() as server:
        yield server


@FORMS
def test_a_cassette_of_plain_vcrpy_is_read(tmp_path: Path, form: str, small_gateway: SmallGateway) -> None:
    path = tmp_path / f"test.{form}"
    with tape(path, "once"):
        asyncio.run(_ask(small_gateway.base_url))
    cassette = read_cassette(path)
    (found,) = cassette.interactions
    assert (cassette.timed, cassette.complete, cassette.recorded_at) == (False, True, None)
    assert (found.status, found.ending, found.chunks, found.head) == (200, Ending.COMPLETE, (), None)
    assert cassette.base_urls == (small_gateway.base_url,)
    assert json.loads(found.request.body) == {**QUESTION, "model": "echo"}
    assert b'"content": "Hello"' in found.body


def test_compressed_bodies_of_plain_vcrpy_are_decoded(tmp_path: Path) -> None:
    asked = request()
    response = {
        "status": {"code": 200, "message": "OK"},
        "headers": {"Content-Encoding": ["gzip"]},
        "body": {"string": gzip.compress(b'{"a": 1}')},
    }
    cassette = VcrCassette(str(tmp_path / "test.yaml"), serializer=yamlserializer)
    cassette.append(VcrRequest("POST", asked.url, asked.body, {}), response)
    cassette._save(force=True)
    (found,) = read_cassette(tmp_path / "test.yaml").interactions
    assert (found.body, found.request.body) == (b'{"a": 1}', asked.body)
