"""Records the cassettes of the example suites again, from two real servers on this machine.

    python cassettes/record.py

The simulated gateway answers over HTTP, in real time, so this takes some minutes. The engine needs the extra `engine`.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.llama_server import MODEL, llama_server  # noqa: E402 - the repository is no installed package
from tests.support.tiny_model import write_tiny_model  # noqa: E402

SIMULATED = (
    "test_error_recovery.py",
    "test_hybrid_routing.py",
    "test_json_answers.py",
    "test_my_own_agent.py",
    "test_openai_sdk.py",
    "test_roi.py",
)
"""The suites whose recordings are small enough to be kept: some 100 kB for each hundred answers."""
ENGINE = ("test_offline_replay.py",)
READY_SECONDS = 30.0


@contextlib.contextmanager
def simulated_gateway() -> Iterator[str]:
    """The base URL of a simulated gateway that was started."""
    command = [sys.executable, "-m", "pytest_swarm.cli", "gateway", "--port=0"]
    command.append("--systems=example_suites/faulty_systems.toml")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if not select.select([process.stdout], [], [], READY_SECONDS)[0]:
                sys.exit("the simulated gateway does not start")
            yield process.stdout.readline().split(" at ")[1].split(" ")[0]
        finally:
            process.terminate()


def record(suites: tuple[str, ...], base_url: str, model: str) -> None:
    """Run suites against a server, and keep what it answers."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--swarm-base-url={base_url}"]
    command += ["-o", f"swarm_model={model}", "--swarm-record", "--swarm-record-mode=all"]
    command += [f"example_suites/{suite}" for suite in suites]
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    subprocess.run(command, cwd=ROOT, env=environ, check=True)


def main() -> None:
    """Record everything."""
    with simulated_gateway() as base_url:
        record(SIMULATED, base_url, "gpt-6-agent")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "tiny.gguf"
        write_tiny_model(model)
        with llama_server(model) as engine:
            record(ENGINE, engine.base_url, MODEL)


if __name__ == "__main__":
    main()
