"""What measuring costs: CPU time per call of a plain aiohttp loop, of the same loop tapped, and of `gateway.chat`.

    python benchmarks/overhead.py [--calls 2000] [--rounds 5]

The three take turns against one server on loopback that answers at once, in this one process, so that a slow machine
slows all of them. What is printed is the median CPU time per call and its ratio to the plain loop, the peer. Needs a C
compiler for the server.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import aiohttp

from pytest_swarm.gateway.client import Gateway
from pytest_swarm.tap.routing import Agent
from tests.support.bench import swarm
from tests.support.servers import c_compiler, compile_exact_delay_server, exact_delays

IN_FLIGHT = 50
PAYLOAD = {"model": "m", "messages": [{"role": "user", "content": "Summarise the report"}]}

Way = Callable[[str, int, bool], Awaitable[None]]


async def ask(session: aiohttp.ClientSession, base_url: str, stream: bool) -> None:
    """What a program without this package does: send, read everything."""
    async with session.post(f"{base_url}/chat/completions", json={**PAYLOAD, "stream": stream}) as response:
        async for _ in response.content.iter_any():
            pass


async def plain(base_url: str, calls: int, stream: bool) -> None:
    """Lanes over a shared iterator, nothing measured."""
    numbers = iter(range(calls))

    async def lane(session: aiohttp.ClientSession) -> None:
        for _ in numbers:
            await ask(session, base_url, stream)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(lane(session) for _ in range(IN_FLIGHT)))


async def tapped(base_url: str, calls: int, stream: bool) -> None:
    """The same requests as the bodies of a swarm, through a session of their own."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def body(_gateway: Gateway, _agent: Agent) -> None:
            await ask(session, base_url, stream)

        await swarm(base_url, body, tasks=calls, concurrency=IN_FLIGHT)


async def chat(base_url: str, calls: int, stream: bool) -> None:
    """The same requests through `gateway.chat`."""

    async def body(gateway: Gateway, _agent: Agent) -> None:
        await gateway.chat("Summarise the report", model="m", stream=stream)

    await swarm(base_url, body, tasks=calls, concurrency=IN_FLIGHT)


WAYS: dict[str, Way] = {"plain aiohttp": plain, "the same, tapped": tapped, "gateway.chat": chat}


def cpu_per_call(way: Way, base_url: str, calls: int, stream: bool) -> float:
    """Microseconds of this process's CPU time per call."""
    began = time.process_time()
    asyncio.run(way(base_url, calls, stream))
    return (time.process_time() - began) / calls * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    compiler = c_compiler()
    if compiler is None:
        sys.exit("overhead.py: needs a C compiler for the server it measures against")
    with (
        tempfile.TemporaryDirectory() as folder,
        exact_delays(compile_exact_delay_server(compiler, Path(folder))) as server,
    ):
        for stream in (False, True):
            times: dict[str, list[float]] = {name: [] for name in WAYS}
            for _ in range(args.rounds):
                for name, way in WAYS.items():
                    times[name].append(cpu_per_call(way, server.base_url, args.calls, stream))
            print("\nstreamed, 16 chunks" if stream else "JSON replies")
            peer = statistics.median(times["plain aiohttp"])
            for name, found in times.items():
                median = statistics.median(found)
                print(f"  {name:<18} {median:7.0f} us CPU per call   x{median / peer:.2f}")


if __name__ == "__main__":
    main()
