"""Plain vcrpy beside the cassettes of this package, as a Markdown table: each cell is measured when this runs.

    python benchmarks/cassettes.py [--interactions 10000]

Both record the same requests to servers on loopback, plain vcrpy as its documentation shows it. Needs a C compiler for
the server with exact delays. docs/cassettes.md holds the table of one such run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import aiohttp
import vcr

from pytest_swarm.exchange import Request
from pytest_swarm.sources.cassette.file import part_files, read_cassette
from pytest_swarm.sources.cassette.interaction import Interaction
from pytest_swarm.sources.cassette.recorder import Recorder
from pytest_swarm.sources.cassette.redact import Redactor
from pytest_swarm.sources.cassette.scan import Scanner
from pytest_swarm.sources.cassette.writer import CassetteWriter
from tests.support.bench import swarm
from tests.support.processes import port_of
from tests.support.servers import c_compiler, compile_exact_delay_server, exact_delays
from tests.support.small_gateway import SmallGateway

SECRETS = {
    "Authorization": "Bearer sk-secret-1",
    "X-Api-Key": "secret-2",
    "OpenAI-Organization": "org-secret3",
    "Cookie": "session=secret-4",
}
CASES = [
    {"name": "reset", "script": [{"chunks": [[0, "data: {}\n\n"], [50, "x"]], "end": "reset"}]},
    {"name": "silent", "script": [{"chunks": [], "framing": "chunked", "end": "hang", "hang_s": 3}]},
]
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_read=0.3)


@dataclass(frozen=True)
class Setting:
    """What all rows measure with."""

    folder: Path
    exact: str
    scripted: str
    small: str
    interactions: int


Row = Callable[[Setting], tuple[str, str]]
"""Measures plain vcrpy and this package; gives back the two cells."""


async def ask(base_url: str, model: str, prompt: str = "hi", **fields: Any) -> float | None:
    """Ask with a session of aiohttp and read the stream. Returns seconds to its first token, None where none came."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": prompt}], **fields}
    began, first = time.perf_counter(), None
    try:
        async with (
            aiohttp.ClientSession(timeout=TIMEOUT, headers=SECRETS) as session,
            session.post(f"{base_url}/chat/completions", json=body) as response,
        ):
            async for piece in response.content.iter_any():
                if first is None and b'" token"' in piece:
                    first = time.perf_counter() - began
    except (aiohttp.ClientError, TimeoutError):
        return None
    return first


def by_vcrpy(path: Path, asking: Callable[[], Awaitable[Any]]) -> Any:
    """Record with plain vcrpy."""

    async def run() -> Any:
        with vcr.use_cassette(str(path), record_mode="all"):
            return await asking()

    return asyncio.run(run())


def by_swarm(path: Path, asking: Callable[[], Awaitable[Any]]) -> Any:
    """Record as `--swarm-record` does."""
    recorder = Recorder(CassetteWriter(path), Redactor(), lambda: Scanner({}))
    found: list[Any] = []

    async def body(_gateway: Any, _agent: Any) -> None:
        found.append(await asking())

    asyncio.run(swarm("", body, recorder=recorder))
    recorder.finish(complete=True)
    return found[0]


WAYS = (by_vcrpy, by_swarm)


def first_token(setting: Setting) -> tuple[str, str]:
    """Time to the first token of a stream whose tokens come after 100 ms and end after 400 ms."""
    cells = []
    for number, way in enumerate(WAYS):
        path = setting.folder / f"ttft{number}.yaml"
        times = [way(path, lambda: ask(setting.exact, "m")) for _ in range(5)]
        cells.append(f"{statistics.median(times) * 1000:.0f} ms")
    return cells[0], cells[1]


def refused(setting: Setting) -> tuple[str, str]:
    return _failure(setting, "refused", "http://127.0.0.1:9/v1")


def reset(setting: Setting) -> tuple[str, str]:
    return _failure(setting, "reset", setting.scripted)


def silent(setting: Setting) -> tuple[str, str]:
    return _failure(setting, "silent", setting.scripted)


def _failure(setting: Setting, name: str, base_url: str) -> tuple[str, str]:
    """What is in the file after a request that failed."""
    cells = []
    for number, way in enumerate(WAYS):
        path = setting.folder / f"{name}{number}.yaml"
        way(path, lambda: ask(base_url, name))
        kept = read_cassette(path).interactions if path.exists() else ()
        cells.append("; ".join(_told(one) for one in kept) or "nothing")
    return cells[0], cells[1]


def _told(one: Interaction) -> str:
    if one.timed:
        return f"{one.ending} after {one.end:.2f} s, {len(one.body)} bytes"
    return f"status {one.status}, {len(one.body)} bytes"


def leaks(setting: Setting) -> tuple[str, str]:
    """Which secrets are in the file."""
    cells = []
    for number, way in enumerate(WAYS):
        path = setting.folder / f"leaks{number}.yaml"
        way(path, lambda: ask(setting.small, "echo", user="secret-5"))
        text = path.read_text()
        names = {**SECRETS, "`user`": "secret-5"}
        held = [name for name, value in names.items() if value.rpartition("=")[2].rpartition(" ")[2] in text]
        cells.append(", ".join(held) or "none")
    return cells[0], cells[1]


def killed(setting: Setting) -> tuple[str, str]:
    """What is left of 50 finished requests of a process that is killed."""
    cells = []
    for number, way in enumerate(WAYS):
        path = setting.folder / f"killed{number}.yaml"
        command = [sys.executable, __file__, "--child", way.__name__, setting.small, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.read(50)
            os.kill(process.pid, signal.SIGKILL)
        left = sum(len(read_cassette(one).interactions) for one in (path, *part_files(path)) if one.exists())
        cells.append("0 of 50" if left == 0 else f"{min(left, 50)} of 50")
    return cells[0], cells[1]


def child(way: str, base_url: str, path: str) -> None:
    """Record and tell of every request that has ended, until somebody kills this process."""

    async def asking() -> None:
        for number in range(10_000):
            await ask(base_url, "echo", f"prompt {number}")
            os.write(1, b"x")

    {one.__name__: one for one in WAYS}[way](Path(path), asking)


SAMPLE = Interaction(
    Request("POST", "http://h/v1/chat/completions", {"content-type": "application/json"}, b""),
    200,
    {"content-type": "text/event-stream"},
    b'data: {"choices": [{"index": 0, "delta": {"content": "a token"}}]}\n\n' * 16,
    agent=0,
    run=0,
    sequence=0,
    head=0.1,
    chunks=tuple((0.1 + number / 50, 67) for number in range(16)),
    end=0.5,
)


def samples(count: int) -> list[Interaction]:
    """Streams of 16 pieces, each to a prompt of its own."""
    bodies = (json.dumps({"model": "m", "messages": [{"role": "user", "content": f"p {n}"}]}) for n in range(count))
    return [
        replace(SAMPLE, agent=number, request=replace(SAMPLE.request, body=body.encode()))
        for number, body in enumerate(bodies)
    ]


def load(form: str) -> Row:
    """Seconds to load many interactions from a file that both can read."""

    def row(setting: Setting) -> tuple[str, str]:
        path = setting.folder / f"many.{form}"
        writer = CassetteWriter(path)
        for interaction in samples(setting.interactions):
            writer.append(interaction)
        writer.complete()
        began = time.perf_counter()
        with vcr.use_cassette(str(path), record_mode="none", serializer=form) as tape:
            assert len(tape) == setting.interactions
            plain = time.perf_counter() - began
        began = time.perf_counter()
        assert len(read_cassette(path).interactions) == setting.interactions
        return f"{plain:.1f} s", f"{time.perf_counter() - began:.1f} s"

    return row


ROWS: dict[str, Row] = {
    "first token of a stream (true: 100 ms, its end: 400 ms) while recording": first_token,
    "in the file after a refused connection": refused,
    "... after a reset in the middle of a stream": reset,
    "... after a read timeout behind the head": silent,
    "secrets in the file, with default settings": leaks,
    "exchanges left when the process is killed (`kill -9`) after 50": killed,
    "loading {interactions:,} interactions, YAML": load("yaml"),
    "loading {interactions:,} interactions, JSON": load("json"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--interactions", type=int, default=10_000)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(*args.child)
        return
    compiler = c_compiler()
    if compiler is None:
        sys.exit("cassettes.py: needs a C compiler for the server it measures against")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        program = compile_exact_delay_server(compiler, folder)
        cases = folder / "cases.json"
        cases.write_text(json.dumps(CASES))
        exact = stack.enter_context(exact_delays(program, delay=0.1, gap=0.02))
        scripted = stack.enter_context(port_of([sys.executable, "-m", "tests.support.scripted_server", str(cases)]))
        small = stack.enter_context(SmallGateway())
        setting = Setting(folder, exact.base_url, f"http://127.0.0.1:{scripted}/v1", small.base_url, args.interactions)
        print(f"| | vcrpy {vcr.__version__} | pytest-llm-swarm |\n|---|---|---|")
        for name, row in ROWS.items():
            plain, ours = row(setting)
            print(f"| {name.format(interactions=args.interactions)} | {plain} | {ours} |", flush=True)


if __name__ == "__main__":
    main()
