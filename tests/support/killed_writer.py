"""A process that records, and is killed with -9 at random moments; after each, what is on disk must hold.

As a program it prints one line for each kill, and stops at the first that lost more than the interaction that was being
written::

    python -m tests.support.killed_writer FOLDER yaml 50
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from pytest_swarm.exchange import Request
from pytest_swarm.sources.cassette.file import part_files, read_cassette
from pytest_swarm.sources.cassette.interaction import Interaction
from pytest_swarm.sources.cassette.writer import CassetteWriter

EACH = 8
"""Interactions of one recording."""
LONGEST = 0.02
"""Seconds after its first interaction that a recording process lives at most."""

SAMPLE = Interaction(
    Request("POST", "http://h/v1/chat/completions", {"accept": "*/*"}, b'{"model": "m"}'),
    200,
    {"content-type": "text/event-stream"},
    b"data: {}\n\n" * 2000,
    agent=0,
    run=0,
    sequence=0,
    chunks=((0.1, 20_000),),
)


def record(path: Path, told: int) -> None:
    """Record the same cassette again and again; each step is told when it is done. The run numbers the recordings."""
    for recording in range(sys.maxsize):
        writer = CassetteWriter(path)
        for sequence in range(EACH):
            writer.append(replace(SAMPLE, run=recording, sequence=sequence))
            os.write(told, b"a")
        writer.complete()
        os.write(told, b"c")


def kill_one(path: Path, rng: random.Random) -> bytes:
    """Start a recording process, kill it, and return what it had told."""
    telling, told = os.pipe()
    process = os.fork()
    if process == 0:
        record(path, told)
    os.close(told)
    with os.fdopen(telling, "rb") as pipe:
        first = pipe.read(1)
        time.sleep(rng.uniform(0, LONGEST))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        return first + pipe.read()


def check(path: Path, told: bytes) -> str:
    """Compare the files with what was told. Raises `AssertionError` where something is missing."""
    completed, appended = told.count(b"c"), len(told.rpartition(b"c")[2])
    parts = part_files(path)
    whole = read_cassette(path) if path.exists() else None
    newest = -1 if whole is None else whole.interactions[0].run
    if whole is not None:
        assert [(one.run, one.sequence) for one in whole.interactions] == [(newest, at) for at in range(EACH)]
    if newest == completed:
        # It was killed between the step and telling of it.
        assert (appended, parts) == (EACH, [])
        return f"completed {completed}, untold"
    assert newest == completed - 1, (newest, told)
    held = [(one.run, one.sequence) for part in parts for one in read_cassette(part).interactions]
    assert held == [(completed, at) for at in range(len(held))], held
    assert appended <= len(held) <= appended + 1, (held, told)
    return f"completed {completed}, then {len(held)} of {appended} told"


def main(folder: str, form: str, kills: str) -> None:
    rng = random.Random(form)
    for number in range(int(kills)):
        path = Path(folder) / str(number) / f"test.{form}"
        print(check(path, kill_one(path, rng)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
