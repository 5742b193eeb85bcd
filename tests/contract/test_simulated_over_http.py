"""The simulated gateway over real sockets: the same figures as inside the process, and the same as its own ledger."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SPEED = 10
TRIES = 3
SUITE = """
import pytest
@pytest.mark.parametrize("model", ["gpt-6-agent", "kimi-k2.5-swarm"])
@pytest.mark.swarm(tasks=200, concurrency=100, repeat=5)
@pytest.mark.sla("success_rate >= 90%")
async def test_it(gateway, model): await gateway.chat("Summarise the report.", model=model)
"""


@pytest.fixture
def front() -> Iterator[str]:
    command = [sys.executable, "-m", "pytest_swarm.cli", "gateway", "--port", "0", "--speed", str(SPEED)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield line.split(" at ")[1].split(" ")[0]
    finally:
        process.terminate()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


def run(directory: Path, *options: str) -> tuple[str, dict[str, Any]]:
    (directory / "test_it.py").write_text(SUITE)
    (directory / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    command = [sys.executable, "-m", "pytest", "-q", "--swarm-json=out.json", *options]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout, json.loads((directory / "out.json").read_text())


def close(over_http: dict[str, Any], virtual: dict[str, Any]) -> list[str]:
    """What is further apart than a tenth, once the speed is taken out."""
    far = []
    for name in ("latency.p50", "latency.p95"):
        ratio = over_http["metrics"][name] * SPEED / virtual["metrics"][name]
        if not 0.9 <= ratio <= 1.1:
            far.append(f"{over_http['model']} {name}: x{ratio:.3f}")
    return far


def test_the_same_suite_over_http_has_the_same_percentiles(tmp_path: Path, front: str) -> None:
    (tmp_path / "virtual").mkdir()
    (tmp_path / "http").mkdir()
    _, virtual = run(tmp_path / "virtual")
    for _ in range(TRIES):
        output, over_http = run(tmp_path / "http", f"--swarm-base-url={front}")
        assert "simulated over HTTP" in output
        far = [line for pair in zip(over_http["tests"], virtual["tests"], strict=True) for line in close(*pair)]
        if not far:
            break
    assert not far
    for found, expected in zip(over_http["tests"], virtual["tests"], strict=True):
        assert found["gateway"] == {"kind": "simulated", "base_url": front}
        assert found["metrics"]["success_rate"] == pytest.approx(expected["metrics"]["success_rate"], abs=0.01)


def test_the_ledger_of_the_front_agrees_with_our_report(tmp_path: Path, front: str) -> None:
    _, report = run(tmp_path, f"--swarm-base-url={front}", "-k", "gpt", "-o", "swarm_repeat=1")
    with urllib.request.urlopen(front.removesuffix("/v1") + "/ledger", timeout=10) as reply:
        ledger = json.load(reply)
    entries = [entry for entry in ledger["requests"] if entry["status"] is not None]
    calls = report["tests"][0]["calls"]
    assert len(entries) == len(calls) == 1000
    assert sum(entry["output_tokens"] or 0 for entry in entries) == sum(call["output_tokens"] or 0 for call in calls)
    told = sum(call["cost"] or 0.0 for call in calls)
    assert sum(entry["cost"] or 0.0 for entry in entries) == pytest.approx(told, rel=1e-9)
