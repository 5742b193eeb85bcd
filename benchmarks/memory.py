"""How much memory a large run takes: 100,000 calls on virtual time in one pytest run, and a stream of 200 MB.

    python benchmarks/memory.py [--calls 100000] [--megabytes 200]

Prints the peak of each process, and ends with 1 when the pytest run took more than 150 MiB, or when the stream added
more than 64 MiB to the client that read it. No network beside loopback; some two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.processes import ROOT, port_of

RUN_MIB = 150
STREAM_MIB = 64

SUITE = """
import pytest

@pytest.mark.swarm(tasks={calls}, concurrency=200)
@pytest.mark.sla("success_rate >= 50%")
async def test_many_calls(gateway):
    await gateway.chat("hi")
"""

PEAK = """
import sys
sys.path.insert(0, {root!r})
from tests.support.one_call import peak_mib

def pytest_unconfigure():
    with open("peak", "w") as file:
        file.write(str(peak_mib()))
"""


def peak_of_run(calls: int) -> float:
    """MiB that a pytest process held at its worst moment, report and summary included."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
        (place / "test_memory.py").write_text(SUITE.format(calls=calls))
        (place / "conftest.py").write_text(PEAK.format(root=str(ROOT)))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SWARM_")}
        command = [sys.executable, "-m", "pytest", "-q", "--swarm-json=report.json", "--swarm-no-progress"]
        subprocess.run(command, cwd=place, env=environment, stdout=subprocess.DEVNULL, check=True)
        return float((place / "peak").read_text())


def added_by_stream(megabytes: int) -> float:
    """MiB that one streamed reply of this size added to its client."""
    with port_of([sys.executable, "-m", "tests.support.flood_server"]) as port:
        url = f"http://127.0.0.1:{port}/v1"
        command = [sys.executable, "-m", "tests.support.one_call", url, f"stream-{megabytes}"]
        told = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    if told["call"]["outcome"] != "ok":
        raise RuntimeError(f"the stream ended as {told['call']['outcome']}: {told['call']['detail']}")
    return float(told["after_mib"] - told["before_mib"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--megabytes", type=int, default=200)
    args = parser.parse_args()
    run = peak_of_run(args.calls)
    print(f"pytest run of {args.calls:,} calls      peak  {run:6.1f} MiB   (at most {RUN_MIB})")
    stream = added_by_stream(args.megabytes)
    print(f"stream of {args.megabytes:,} MB              added {stream:6.1f} MiB   (at most {STREAM_MIB})")
    sys.exit(run > RUN_MIB or stream > STREAM_MIB)


if __name__ == "__main__":
    main()
