"""Server processes that never outlive the test run."""

from __future__ import annotations

import contextlib
import select
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""Where `tests` can be imported from."""
READY_SECONDS = 30.0
END_SECONDS = 5.0


@contextlib.contextmanager
def port_of(command: Sequence[str], *, ready_within: float = READY_SECONDS) -> Iterator[int]:
    """Run a server that prints its port on its first line, and end it afterwards.

    The server holds the read end of a pipe as its standard input and ends when that closes, so it goes even when this
    process is killed. A server that says nothing in time is a RuntimeError.
    """
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    try:
        yield _first_number(process, ready_within)
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _first_number(process: subprocess.Popen[bytes], seconds: float) -> int:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    line = process.stdout.readline() if ready else b""
    if not line:
        raise RuntimeError(f"{process.args!r} did not print its port within {seconds:g} s")
    return int(line)
