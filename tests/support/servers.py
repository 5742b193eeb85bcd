"""The server with exact delays: compiled when it is first needed, one process per use."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import port_of

SOURCE = Path(__file__).with_name("exact_delay_server.c")


@dataclass(frozen=True)
class Served:
    """What the server itself measured of one reply, in seconds since it had read the request."""

    stream: bool
    first: float
    """Just before the first token was written."""
    last: float
    """Just before the last token was written."""


@dataclass(frozen=True)
class ExactDelayServer:
    """A running server; see the head of exact_delay_server.c for what it answers."""

    port: int

    @property
    def base_url(self) -> str:
        """What a client is pointed at."""
        return f"http://127.0.0.1:{self.port}/v1"

    def served(self) -> dict[str, Served]:
        """Every completed reply, by its request id."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/log", timeout=10) as reply:
            rows = json.load(reply)
        return {
            row["id"]: Served(
                row["stream"], (row["first"] - row["received"]) / 1e9, (row["last"] - row["received"]) / 1e9
            )
            for row in rows
        }


def c_compiler() -> str | None:
    """The C compiler of this machine, if it has one."""
    return shutil.which("cc") or shutil.which("gcc")


def compile_exact_delay_server(compiler: str, directory: Path) -> Path:
    """Compile the server into `directory` and return the program."""
    program = directory / "exact_delay_server"
    subprocess.run([compiler, "-std=gnu11", "-O2", "-Wall", "-o", str(program), str(SOURCE)], check=True, timeout=120)
    return program


@contextlib.contextmanager
def exact_delays(
    program: Path, *, delay: float = 0.0, gap: float = 0.0, chunks: int = 16
) -> Iterator[ExactDelayServer]:
    """A server whose replies come `delay` seconds after the request, whose tokens come `gap` seconds apart."""
    options = ["-d", str(round(delay * 1e6)), "-g", str(round(gap * 1e6)), "-n", str(chunks)]
    with port_of([str(program), *options]) as port:
        yield ExactDelayServer(port)
