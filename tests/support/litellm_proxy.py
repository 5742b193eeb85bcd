"""The LiteLLM proxy, a gateway that many teams use, in a process of its own.

As a module it starts and ends the proxy; as a program (`litellm_proxy.py CONFIG`) it is the proxy, started by its own
command line. Needs `litellm[proxy]`, which is in no extra: some hundred packages come with it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import port_of

MASTER_KEY = "sk-0123456789abcdef0123456789abcdef"
"""The proxy takes none with fewer than 32 characters."""
READY_SECONDS = 120.0
"""Most of its start is the import of its packages; without stored bytecode that takes a slow machine a minute."""


@dataclass(frozen=True)
class LiteLLMProxy:
    """A running proxy."""

    port: int
    log: Path
    """What it has printed."""

    @property
    def base_url(self) -> str:
        """What a client is pointed at."""
        return f"http://127.0.0.1:{self.port}/v1"


def mock_model(name: str, reply: object, *, model: str = "openai/gpt-4o-mini", **parameters: object) -> dict[str, Any]:
    """An entry of `model_list` that answers by itself: with a text, with a whole reply (a dict), or with an error.

    `model` is what the proxy takes the reply to come from, and prices it by; `parameters` are further `litellm_params`.
    """
    known = {"model": model, "api_key": "none", "mock_response": reply}
    return {"model_name": name, "litellm_params": {**known, **parameters}}


def need(*packages: str) -> None:
    """Skip the test module unless all of these packages are there. They are not imported: that takes seconds."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the package {package} is missing: pip install 'litellm[proxy]'", allow_module_level=True)


@contextlib.contextmanager
def litellm_proxy(
    directory: Path, models: list[dict[str, Any]], **sections: Mapping[str, object]
) -> Iterator[LiteLLMProxy]:
    """A proxy with these models, its files in `directory`. Yields once it answers.

    It asks each model once: retries and pauses of its own would hide what the models do. `sections` add to those of
    its configuration.
    """
    config = {
        "model_list": models,
        "general_settings": {"master_key": MASTER_KEY, **sections.get("general_settings", {})},
        "litellm_settings": {"num_retries": 0, **sections.get("litellm_settings", {})},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True, **sections.get("router_settings", {})},
    }
    path = directory / "config.yaml"
    # YAML reads JSON.
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    log = directory / "proxy.log"
    command = [sys.executable, "-m", __name__, str(path), str(log)]
    try:
        with port_of(command, ready_within=READY_SECONDS) as port:
            yield LiteLLMProxy(port, log)
    except RuntimeError as error:
        raise RuntimeError(f"{error}\n{log.read_text(encoding='utf-8')[-4000:] if log.exists() else ''}") from error


def main(config: str, log: str) -> None:
    """Serve until standard input closes."""
    told = os.dup(1)
    # The proxy talks a lot, and nobody reads a pipe to its end.
    with Path(log).open("w", encoding="utf-8") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    port = _free_port()
    threading.Thread(target=_tell_when_ready, args=(port, told), daemon=True).start()
    threading.Thread(target=_end_with_input, daemon=True).start()
    from litellm.proxy.proxy_cli import run_server

    run_server(["--config", config, "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"])


def _free_port() -> int:
    """A port for a command line that must be told one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _tell_when_ready(port: int, to: int) -> None:
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5):
                break
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.1)
    os.write(to, f"{port}\n".encode())
    os.close(to)


def _end_with_input() -> None:
    sys.stdin.read()
    # It has nothing to save, and ending in order takes it seconds.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:3])
