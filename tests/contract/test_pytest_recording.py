"""Beside pytest-recording: its names are left alone, and what it has recorded is replayed.

Needs the package `pytest-recording`; it is in no extra, since it would be loaded into every run of the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.small_gateway import SmallGateway

pytest.importorskip("pytest_recording", reason="the package pytest-recording is missing: pip install pytest-recording")
pytest.importorskip("httpx")

THEIRS = """
import os
import httpx, pytest

@pytest.mark.vcr
@pytest.mark.asyncio
async def test_ask():
    async with httpx.AsyncClient() as client:
        for number in range(3):
            body = {"model": "echo", "messages": [{"role": "user", "content": f"Hello {number}"}]}
            reply = await client.post(os.environ["GATEWAY"] + "/chat/completions", json=body)
            assert reply.json()["choices"][0]["message"]["content"] == f"Hello {number}"
"""
OURS = """
import os
import pytest

@pytest.mark.swarm(tasks=3)
@pytest.mark.sla("success_rate == 100%", "output_tokens.max <= 5")
async def test_ask(gateway, agent):
    assert (await gateway.chat(f"Hello {agent.index}")).text == f"Hello {agent.index}"
"""


def run(folder: Path, code: str, *options: str, gateway: str = "http://127.0.0.1:9/v1") -> str:
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    (folder / "test_it.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**os.environ, "GATEWAY": gateway},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A directory with a cassette that pytest-recording has written, where it writes it."""
    with SmallGateway() as server:
        run(tmp_path, THEIRS, "--record-mode=once", gateway=server.base_url)
        assert len(server.requests) == 3
    assert (tmp_path / "cassettes" / "test_it" / "test_ask.yaml").is_file()
    # The recording names the address of the server that has gone.
    (tmp_path / "gateway").write_text(server.base_url)
    return tmp_path


def test_its_cassettes_are_replayed_where_they_lie(recorded: Path) -> None:
    run(recorded, OURS, "--swarm-replay", "--swarm-json=out.json")
    test: dict[str, Any] = json.loads((recorded / "out.json").read_text())["tests"][0]
    assert (test["replay"]["recorded"], test["replay"]["missed"], test["replay"]["timed"]) == (3, 0, False)
    assert test["metrics"]["latency.p50"] is None


def test_its_own_tests_go_on_as_before_beside_ours(recorded: Path) -> None:
    address = (recorded / "gateway").read_text()
    run(recorded, THEIRS, gateway=address)
    assert "1 passed" in run(recorded, THEIRS, "--swarm-replay", gateway=address)
