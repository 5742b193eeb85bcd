"""One streamed call in a process of its own, and the memory that it took. As a program it prints one JSON object::

python -m tests.support.one_call BASE_URL MODEL [TIMEOUT_SECONDS]
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import sys
from pathlib import Path

from pytest_swarm.errors import CallFailed
from pytest_swarm.gateway.client import Gateway
from pytest_swarm.tap.routing import Agent
from tests.support.bench import swarm

__all__ = ["peak_mib"]


def peak_mib() -> float:
    """The most memory this process has held at one time, in MiB."""
    with contextlib.suppress(OSError):
        # Where it exists it is exact; the other figure counts the memory of whoever started this process, too.
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    unit = 2**20 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


async def call(base_url: str, model: str, timeout: float | None) -> dict[str, object]:
    """The row of the call, with the peak of memory before it and after it."""

    async def body(gateway: Gateway, _agent: Agent) -> None:
        with contextlib.suppress(CallFailed):
            await gateway.chat("hi", model=model, stream=True)

    before = peak_mib()
    rows, _ = await swarm(base_url, body, timeout=None if timeout is None else {"total": timeout})
    return {"call": rows.calls[0], "before_mib": before, "after_mib": peak_mib()}


if __name__ == "__main__":
    _, url, name, *limit = sys.argv
    print(json.dumps(asyncio.run(call(url, name, float(limit[0]) if limit else None))))
