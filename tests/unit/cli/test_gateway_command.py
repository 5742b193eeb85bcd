"""The command `pytest-swarm gateway`, as a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_swarm.cli import main

COMMAND = [sys.executable, "-c", "from pytest_swarm.cli import main; raise SystemExit(main())", "gateway"]
PATIENCE = 30.0
NO_KEY = {name: value for name, value in os.environ.items() if name != "GATEWAY_KEY"}


@contextlib.contextmanager
def gateway(*options: str, environment: dict[str, str] = NO_KEY) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running gateway at a free port, and the line it printed."""
    process = subprocess.Popen(
        [*COMMAND, "--port", "0", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], PATIENCE)[0], "the gateway said nothing"
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def url_in(line: str) -> str:
    found = re.search(r"http://\S+", line)
    assert found is not None, line
    return found[0]


def ask(url: str, **headers: str) -> dict[str, object]:
    body = json.dumps({"model": "kimi-k2.5-swarm", "messages": [{"role": "user", "content": "hi"}]}).encode()
    request = urllib.request.Request(f"{url}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return {**json.load(response), "mark": response.headers["x-swarm-simulated"]}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_answers_and_ends_when_told(number: signal.Signals) -> None:
    with gateway("--speed", "1000", "--seed", "7") as (process, line):
        assert line.startswith("simulated gateway at http://127.0.0.1:")
        assert "(speed 1000, seed 7): gpt-6-agent, kimi-k2.5-swarm" in line
        assert ask(url_in(line))["mark"] == "kimi-k2.5-swarm;1000"
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (0, "")


def test_systems_of_a_file_are_served(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[system]]\nname = "mine"\nextends = "gpt-6-agent"\n')
    with gateway("--systems", str(path)) as (_, line):
        assert line.rstrip().endswith("gpt-6-agent, kimi-k2.5-swarm, mine")


def test_a_key_is_read_from_the_environment() -> None:
    environment = {**NO_KEY, "GATEWAY_KEY": "not-a-real-key"}
    with gateway("--key-env", "GATEWAY_KEY", "--speed", "1000", environment=environment) as (_, line):
        assert "not-a-real-key" not in line
        assert ask(url_in(line), authorization="Bearer not-a-real-key")["object"] == "chat.completion"
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            ask(url_in(line))
        refused.value.close()


def test_an_open_gateway_beyond_loopback_is_warned_of() -> None:
    with gateway("--host", "0.0.0.0") as (process, _):
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE)
        assert errors.strip() == (
            "pytest-swarm: everybody who reaches 0.0.0.0 can use this gateway; ask for a key with --key-env"
        )


def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(
            [*COMMAND, "--port", str(port)], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert f"cannot listen at 127.0.0.1 port {port}" in line
    assert "in use" in line


def test_a_missing_key_or_file_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GATEWAY_KEY", raising=False)
    assert main(["gateway", "--key-env", "GATEWAY_KEY"]) == 2
    assert main(["gateway", "--systems", "/none.toml"]) == 2
    key, file = capsys.readouterr().err.splitlines()
    assert key == "pytest-swarm: --key-env: the environment variable 'GATEWAY_KEY' is not set; set it to the key"
    assert file.startswith("pytest-swarm: /none.toml: cannot be read as TOML")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--port", "x"], "'x' is not a port; write a whole number from 0 to 65535"),
        (["--port", "70000"], "'70000' is not a port"),
        (["--speed", "0"], "'0' is not a speed; write a number above 0 such as 10"),
        (["--speed", "fast"], "'fast' is not a speed"),
        (["--speed", "inf"], "'inf' is not a speed"),
        (["--seed", "x"], "invalid int value: 'x'"),
    ],
)
def test_wrong_options_are_explained(options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["gateway", *options])
    assert complaint in capsys.readouterr().err
