"""What recording does to the times that are measured: time to the first token with and without it, in pairs.

    python benchmarks/recording.py [--pairs 11] [--tasks 400]

100 streams are in flight all the time, against a server on loopback whose tokens come at exact times. Runs with and
without a recorder take turns, so that a machine that slows down slows both. Printed are the differences of the medians
of each pair, and the median of these, which must stay under 2 ms. Needs a C compiler for the server.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_swarm.gateway.client import Gateway
from pytest_swarm.sources.cassette.recorder import Recorder
from pytest_swarm.sources.cassette.redact import Redactor
from pytest_swarm.sources.cassette.scan import Scanner, live_secrets
from pytest_swarm.sources.cassette.writer import CassetteWriter
from pytest_swarm.tap.routing import Agent
from tests.support.bench import swarm
from tests.support.servers import c_compiler, compile_exact_delay_server, exact_delays

IN_FLIGHT = 100
BOUND_MS = 2.0
DELAY, GAP, CHUNKS = 0.1, 0.02, 16
"""Seconds to the first token, and between two."""
PROMPT = "Summarise the report for somebody who was not there. " * 10


async def body(gateway: Gateway, _agent: Agent) -> None:
    await gateway.chat(PROMPT, model="m", stream=True)


def ttft_ms(base_url: str, tasks: int, cassette: Path | None) -> float:
    """The median time to the first token of one run, in milliseconds."""
    recorder = None
    if cassette is not None:
        secrets = live_secrets({"OPENAI_API_KEY": "sk-0123456789abcdef0123456789"}, [("x-key", "another-secret-1")])
        recorder = Recorder(CassetteWriter(cassette), Redactor(["customer"]), lambda: Scanner(secrets))
    rows, _ = asyncio.run(swarm(base_url, body, tasks=tasks, concurrency=IN_FLIGHT, recorder=recorder))
    if recorder is not None:
        recorder.finish(complete=True)
        assert recorder.problem is None, recorder.problem
        assert recorder.count == tasks
    return statistics.median(call["ttft"] for call in rows.calls) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--tasks", type=int, default=400)
    args = parser.parse_args()
    compiler = c_compiler()
    if compiler is None:
        sys.exit("recording.py: needs a C compiler for the server it measures against")
    differences = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = compile_exact_delay_server(compiler, folder)
        with exact_delays(program, delay=DELAY, gap=GAP, chunks=CHUNKS) as server:
            ttft_ms(server.base_url, IN_FLIGHT, None)
            for pair in range(args.pairs):
                # Which comes first alternates too: the second of two runs finds a warmer machine.
                cassettes = [None, folder / f"{pair}.yaml"]
                order = cassettes if pair % 2 else cassettes[::-1]
                found = {cassette is not None: ttft_ms(server.base_url, args.tasks, cassette) for cassette in order}
                differences.append(found[True] - found[False])
                print(f"  without {found[False]:7.2f} ms   with {found[True]:7.2f} ms   {differences[-1]:+.2f} ms")
    median = statistics.median(differences)
    verdict = "under" if median < BOUND_MS else "NOT under"
    print(f"time to first token, p50 of {args.tasks} streams, {IN_FLIGHT} in flight: recording adds a median of")
    print(f"{median:+.2f} ms over {args.pairs} pairs, {verdict} {BOUND_MS:g} ms")
    sys.exit(0 if median < BOUND_MS else 1)


if __name__ == "__main__":
    main()
