"""Every exchange is recorded as it was measured, over real sockets, whatever client made it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from pytest_swarm.errors import CallFailed
from pytest_swarm.exchange import Ending, Exchange
from pytest_swarm.gateway.client import Gateway, Terms
from pytest_swarm.reading import reader_factory
from pytest_swarm.records import Reading
from pytest_swarm.sources.cassette.file import Cassette, read_cassette
from pytest_swarm.sources.cassette.interaction import Interaction
from pytest_swarm.sources.cassette.recorder import Recorder
from pytest_swarm.sources.cassette.recordings import Recordings
from pytest_swarm.sources.cassette.redact import Redactor
from pytest_swarm.sources.cassette.scan import Scanner
from pytest_swarm.sources.cassette.writer import CassetteWriter
from pytest_swarm.sources.live import LiveSource
from pytest_swarm.swarm.plan import Plan, Timeouts
from pytest_swarm.tap import aiohttp as tap
from pytest_swarm.tap import httpx as httpx_tap
from pytest_swarm.tap.routing import Agent
from tests.support.bench import Body, Rows, conductor, swarm
from tests.support.processes import port_of
from tests.unit.cassette.cassette_samples import request

CASES_PATH = Path(__file__).parents[2] / "cases" / "exchanges.json"
CASES: dict[str, dict[str, Any]] = {case["name"]: case for case in json.loads(CASES_PATH.read_text())}
ANSWER = b'{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}'
PACKED = {
    "name": "packed",
    "script": [
        {
            "headers": {"content-type": "application/json", "content-encoding": "gzip", "set-cookie": "a=b"},
            "chunks": [[0, {"b64": base64.b64encode(gzip.compress(ANSWER)).decode()}]],
        }
    ],
}


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cases = tmp_path_factory.mktemp("cases") / "cases.json"
    cases.write_text(json.dumps([*CASES.values(), PACKED]))
    with port_of([sys.executable, "-m", "tests.support.scripted_server", str(cases)]) as port:
        yield f"http://127.0.0.1:{port}/v1"


Record = Callable[..., tuple[Rows, Cassette]]


@pytest.fixture
def record(tmp_path: Path, base_url: str) -> Iterator[Record]:
    """Run a body as a swarm, and give back what was measured and what was recorded."""

    def run(body: Body, **options: Any) -> tuple[Rows, Cassette]:
        recorder = Recorder(CassetteWriter(tmp_path / "test.yaml"), Redactor(), lambda: Scanner({}))
        rows, _ = asyncio.run(swarm(base_url, body, recorder=recorder, **options))
        recorder.finish(complete=True)
        assert recorder.problem is None
        return rows, read_cassette(tmp_path / "test.yaml")

    httpx_tap.install()
    yield run
    httpx_tap.uninstall()


def reading(interaction: Interaction) -> Reading:
    """What a recorded exchange means."""
    exchange = Exchange(interaction.request, reader_factory("chat"), 0.0)
    exchange.wrote(0.0)
    if interaction.status is not None:
        assert interaction.head is not None
        exchange.head(interaction.head, interaction.status, interaction.headers)
    at = 0
    for offset, size in interaction.chunks:
        exchange.feed(offset, interaction.body[at : at + size])
        at += size
    assert at == len(interaction.body)
    assert interaction.end is not None
    exchange.finish(interaction.end, interaction.ending, interaction.error)
    return exchange.read()


@pytest.mark.parametrize("name", [name for name in CASES if name != "stale-keep-alive"])
def test_what_was_recorded_means_what_was_measured(record: Record, name: str) -> None:
    asked = CASES[name]["request"]

    async def body(gateway: Gateway, agent: Agent) -> None:
        with contextlib.suppress(CallFailed):
            await gateway.chat("hi", model=name, stream=asked["stream"])

    timeout = {"total": asked["timeout"]} if "timeout" in asked else None
    rows, cassette = record(body, retries=asked.get("retries", 0), timeout=timeout)
    (call,) = rows.calls
    outcomes = [attempt["outcome"] for attempt in call["attempt_list"]]
    read = [reading(one) for one in cassette.interactions]
    assert [one.outcome for one in read] == outcomes
    assert [one.sequence for one in cassette.interactions] == list(range(len(outcomes)))
    assert [one.status for one in cassette.interactions] == [attempt["status"] for attempt in call["attempt_list"]]
    if call["ttft"] is not None:
        assert read[-1].first_token == pytest.approx(call["ttft"], abs=1e-6)
    assert cassette.interactions[-1].end is not None
    assert cassette.interactions[-1].end >= call["attempt_list"][-1]["latency"] - 1e-6
    usage = read[-1].usage
    assert (None if usage is None else usage.output_tokens) == call["output_tokens"]


def test_a_connection_that_was_closed_while_idle_is_no_exchange_of_its_own(record: Record) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        for _ in range(2):
            await gateway.chat("hi", model="stale-keep-alive", stream=True)
            await asyncio.sleep(0.2)

    _, cassette = record(body)
    assert [(one.sequence, one.status) for one in cassette.interactions] == [(0, 200), (1, 200)]


async def by_aiohttp(base_url: str, model: str) -> None:
    async with (
        aiohttp.ClientSession(cookies={"session": "secret"}) as session,
        session.post(f"{base_url}/chat/completions", json={"model": model}) as response,
    ):
        await response.read()


async def by_aiohttp_undecoded(base_url: str, model: str) -> None:
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.post(f"{base_url}/chat/completions", json={"model": model}) as response,
    ):
        await response.read()


async def by_httpx(base_url: str, model: str) -> None:
    async with httpx.AsyncClient(headers={"authorization": "Bearer secret"}) as client:
        (await client.post(f"{base_url}/chat/completions", json={"model": model})).json()


async def by_httpx_in_a_thread(base_url: str, model: str) -> None:
    def ask() -> None:
        with httpx.Client() as client:
            client.post(f"{base_url}/chat/completions", json={"model": model}).json()

    await asyncio.to_thread(ask)


CLIENTS = [by_aiohttp, by_aiohttp_undecoded, by_httpx, by_httpx_in_a_thread]


@pytest.mark.parametrize("client", CLIENTS)
def test_any_client_is_recorded_decoded_and_without_its_secrets(
    record: Record, base_url: str, client: Callable[[str, str], Any], tmp_path: Path
) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        await client(base_url, "packed")

    _, cassette = record(body)
    (found,) = cassette.interactions
    assert (found.body, found.status, found.source) == (ANSWER, 200, "live")
    assert "content-encoding" not in found.headers
    assert found.headers["content-type"] == "application/json"
    assert sum(size for _, size in found.chunks) == len(ANSWER)
    assert "secret" not in (tmp_path / "test.yaml").read_text()
    assert "a=b" not in (tmp_path / "test.yaml").read_text()
    assert reading(found).text == "Hello"


@pytest.mark.parametrize("client", [by_aiohttp, by_httpx])
def test_what_is_refused_is_recorded_with_its_time(record: Record, client: Callable[[str, str], Any]) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        with contextlib.suppress(aiohttp.ClientError, httpx.HTTPError):
            await client("http://127.0.0.1:9/v1", "m")

    _, cassette = record(body)
    (found,) = cassette.interactions
    assert (found.status, found.ending, found.body) == (None, "connect_error", b"")
    assert found.end is not None
    assert found.end > 0
    assert found.error


def test_every_exchange_is_found_by_run_agent_and_sequence(record: Record) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        for number in range(3):
            await gateway.chat(f"{agent.run} {agent.warmup} {agent.index} {number}", model="json-reply")

    _, cassette = record(body, tasks=5, concurrency=3, repeat=2, warmup=2)
    assert len(cassette.interactions) == 2 * 7 * 3
    for one in cassette.interactions:
        prompt = json.loads(one.request.body)["messages"][0]["content"]
        assert prompt == f"{one.run} {one.warmup} {one.agent} {one.sequence}"


def test_calls_of_no_task_are_recorded_too(base_url: str, tmp_path: Path) -> None:
    recorder = recorder_at(tmp_path / "test.yaml")

    async def ask() -> None:
        conducting = conductor(Rows(), Plan(tasks=1, concurrency=1), recorder=recorder)
        gateway = Gateway(Terms(base_url, {}, None, Timeouts(), 0, None), lambda: conducting.outside(LiveSource()))
        for _ in range(2):
            await gateway.chat("hi", model="json-reply")

    tap.install()
    asyncio.run(ask())
    tap.uninstall()
    recorder.finish(complete=True)
    found = read_cassette(recorder.path).interactions
    assert [(one.agent, one.run, one.sequence) for one in found] == [(None, 0, 0), (None, 0, 1)]


def test_a_stream_that_was_left_early_is_recorded_as_far_as_it_came(record: Record) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        pieces = gateway.stream("hi", model="plain")
        async for _ in pieces:
            break
        await pieces.aclose()

    _, cassette = record(body)
    (found,) = cassette.interactions
    assert found.ending == "cancelled"
    assert 0 < len(found.body) < len("".join(text for _, text in CASES["plain"]["script"][0]["chunks"]))


def test_requests_that_are_no_model_calls_are_not_recorded(record: Record, base_url: str) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        async with aiohttp.ClientSession() as session, session.get(base_url.removesuffix("/v1") + "/log") as response:
            await response.read()

    _, cassette = record(body)
    assert cassette.interactions == ()


def recorder_at(path: Path, secrets: dict[str, str] | None = None) -> Recorder:
    return Recorder(CassetteWriter(path), Redactor(), lambda: Scanner(secrets or {}))


def answered(prompt: str) -> Exchange:
    """An exchange that has its head."""
    exchange = Exchange(request({"prompt": prompt}), reader_factory("chat"), 0.0)
    exchange.wrote(0.0)
    exchange.head(0.1, 200, {})
    return exchange


def end(recorder: Recorder, prompt: str, *, agent: int | None = 0) -> None:
    exchange = answered(prompt)
    place = recorder.begin(exchange, 0, False, agent)
    exchange.feed(0.1, b"{}")
    exchange.finish(0.2, Ending.COMPLETE)
    recorder.end(exchange, place, "live")


def test_a_secret_refuses_the_cassette_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    older = recorder_at(path)
    end(older, "older")
    older.finish(complete=True)
    recorder = recorder_at(path, {"hunter2-hunter2": "the value of the environment variable MY_TOKEN"})
    end(recorder, "clean")
    end(recorder, "say hunter2-hunter2", agent=7)
    end(recorder, "say hunter2-hunter2 again")
    end(recorder, "clean")
    assert recorder.problem == (
        f"no cassette was written to {path}: exchange 0 of task 7 in run 0, request body, prompt holds the value of "
        "the environment variable MY_TOKEN; keep the secret out of it, or name a JSON field in the ini key "
        "swarm_redact_fields to have its value left out"
    )
    assert recorder.note == recorder.problem
    recorder.finish(complete=True)
    assert [one.name for one in tmp_path.iterdir()] == ["test.yaml"]
    assert "older" in path.read_text()
    assert "hunter2" not in path.read_text()


def test_a_disk_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    recorder = recorder_at(tmp_path / "file" / "test.yaml")
    end(recorder, "one")
    assert recorder.problem is not None
    assert recorder.problem.startswith(f"the cassette {tmp_path}/file/test.yaml cannot be written: ")
    end(recorder, "two")
    recorder.finish(complete=True)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_note_counts_and_suggests_json_for_many(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_swarm.sources.cassette.recorder.MANY", 1)
    recorder = recorder_at(tmp_path / f"test.{form}")
    end(recorder, "one")
    assert recorder.note == f"recorded 1 exchange to {recorder.path}"
    end(recorder, "two")
    more = "; with swarm_cassette_format = json it would load faster" if form == "yaml" else ""
    assert recorder.note == f"recorded 2 exchanges to {recorder.path}{more}"


def test_a_place_that_is_taken_meanwhile_is_told(tmp_path: Path) -> None:
    recorder = recorder_at(tmp_path / "test.yaml")
    end(recorder, "one")
    (tmp_path / "test.yaml").mkdir()
    recorder.finish(complete=True)
    assert recorder.problem is not None
    assert recorder.problem.startswith(f"the cassette {tmp_path}/test.yaml cannot be written: ")


def test_which_swarms_are_recorded(tmp_path: Path) -> None:
    missing, anew, check = (Recordings(tmp_path, mode) for mode in ("missing", "all", "check"))
    assert [one.wants("t.py::test_a") for one in (missing, anew, check)] == [True, True, False]
    recorder = missing.open("t.py::test_a")
    end(recorder, "one")
    recorder.finish(complete=True)
    assert [one.wants("t.py::test_a") for one in (Recordings(tmp_path), anew)] == [False, True]
    assert missing.wants("t.py::test_a"), "a test that runs again in one session is recorded again"
    assert missing.wants("t.py::test_a", 1)
    assert Recordings(tmp_path, form="json").existing("t.py::test_a") == recorder.path


def test_a_recording_that_was_stopped_stays_a_part(tmp_path: Path) -> None:
    recorder = recorder_at(tmp_path / "test.yaml")
    end(recorder, "one")
    recorder.finish(complete=False)
    end(recorder, "too late")
    assert [one.name for one in tmp_path.iterdir()] == ["test.yaml.part"]
    assert len(read_cassette(tmp_path / "test.yaml.part").interactions) == 1


def test_agents_in_threads_are_numbered_apart(tmp_path: Path) -> None:
    recorder = recorder_at(tmp_path / "test.yaml")

    def ask(agent: int) -> None:
        for _ in range(20):
            end(recorder, "hi", agent=agent)

    threads = [threading.Thread(target=ask, args=(agent,)) for agent in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.finish(complete=True)
    found = {one.identity for one in read_cassette(recorder.path).interactions}
    assert found == {(0, False, agent, sequence) for agent in range(6) for sequence in range(20)}


def test_long_streams_lose_no_piece(tmp_path: Path) -> None:
    recorder = recorder_at(tmp_path / "test.yaml")
    exchange = answered("long")
    place = recorder.begin(exchange, 0, False, 0)
    for number in range(3000):
        exchange.feed(number / 1000, b"data: %05d padding padding padding\n\n" % number)
    exchange.finish(3.0, Ending.COMPLETE)
    exchange.read()
    recorder.end(exchange, place, "live")
    recorder.finish(complete=True)
    (found,) = read_cassette(recorder.path).interactions
    assert len(found.chunks) == 3000
    assert found.body.count(b"data: ") == 3000
