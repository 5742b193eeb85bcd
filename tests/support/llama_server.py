"""llama.cpp's own OpenAI-compatible server, in a process of its own.

As a module it starts and ends the server; as a program (`llama_server.py MODEL SLOTS`) it is the server. Needs the
package `xllamacpp` (extra `engine`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import port_of

MODEL = "tiny-random"
"""The name under which the server knows its one model."""
SLOT_CONTEXT = 1024
"""Tokens of context of one slot."""
THREADS = 2


@dataclass(frozen=True)
class LlamaServer:
    """A running engine."""

    port: int

    @property
    def base_url(self) -> str:
        """What a client is pointed at."""
        return f"http://127.0.0.1:{self.port}/v1"

    def counters(self) -> dict[str, float]:
        """What the engine itself has counted since its start, `prompt_tokens_total` for example."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        pairs = (line.split() for line in lines if not line.startswith("#"))
        return {name.removeprefix("llamacpp:"): float(value) for name, value in pairs}


@contextlib.contextmanager
def llama_server(model: Path, *, slots: int = 4, ready_within: float = 30.0) -> Iterator[LlamaServer]:
    """An engine that decodes up to `slots` requests together, and queues the rest. Yields once the model is loaded."""
    deadline = time.monotonic() + ready_within
    with port_of([sys.executable, "-m", __name__, str(model), str(slots)], ready_within=ready_within) as port:
        _wait_until_healthy(f"http://127.0.0.1:{port}/health", deadline)
        yield LlamaServer(port)


def _wait_until_healthy(url: str, deadline: float) -> None:
    while True:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except (urllib.error.URLError, TimeoutError) as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the engine is not healthy: {error}") from error
            time.sleep(0.05)


def main(model: str, slots: int) -> None:
    """Serve until standard input closes."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.model_alias = {MODEL}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_parallel = slots
    parameters.n_ctx = SLOT_CONTEXT * slots
    parameters.n_gpu_layers = 0
    parameters.cpuparams.n_threads = THREADS
    parameters.use_jinja = True
    parameters.endpoint_metrics = True
    parameters.offline = True
    parameters.verbosity = 1
    server = xllamacpp.Server(parameters)
    print(server.listening_address.rpartition(":")[2], flush=True)
    sys.stdin.read()
    # The engine's threads have nothing to save, and joining them takes seconds.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
