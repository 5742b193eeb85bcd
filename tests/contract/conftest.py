"""Real servers on loopback: one whose delays are exact, one that is a real engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.llama_server import LlamaServer, llama_server
from tests.support.servers import c_compiler, compile_exact_delay_server
from tests.support.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def exact_delay_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program; give it to `tests.support.servers.exact_delays`."""
    compiler = c_compiler()
    if compiler is None:
        pytest.skip("no C compiler: the server with exact delays cannot be built")
    return compile_exact_delay_server(compiler, tmp_path_factory.mktemp("exact_delay_server"))


@pytest.fixture(scope="session")
def llama_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """llama.cpp's server with a tiny random model."""
    for package in ("gguf", "xllamacpp"):
        pytest.importorskip(package, reason=f"the package {package} is missing: pip install 'pytest-llm-swarm[engine]'")
    model = tmp_path_factory.mktemp("llama_engine") / "tiny.gguf"
    write_tiny_model(model)
    with llama_server(model) as engine:
        yield engine
