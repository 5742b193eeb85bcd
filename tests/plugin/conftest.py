"""Pytest runs in which the plugin is used as a user uses it, against a small real gateway."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.small_gateway import SmallGateway

HEADER = "import asyncio, os, sys, pytest\n"
Run = Callable[..., pytest.RunResult]


@pytest.fixture(scope="session")
def small_gateway() -> Iterator[SmallGateway]:
    with SmallGateway() as server:
        yield server


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SWARM_BASE_URL", "SWARM_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def suite(pytester: pytest.Pytester, small_gateway: SmallGateway) -> Run:
    """Write a test file and run pytest on it in a process of its own, pointed at the small gateway."""

    def run(code: str, *options: str, gateway: str | None = small_gateway.base_url, model: str = "echo") -> Any:
        pytester.makepyfile(test_it=HEADER + code)
        live = [] if gateway is None else [f"--swarm-base-url={gateway}", f"--swarm-model={model}"]
        return pytester.runpytest_subprocess("-p", "no:randomly", "--swarm-json=out.json", *live, *options)

    return run


@pytest.fixture
def report(pytester: pytest.Pytester) -> Callable[[], dict[str, Any]]:
    """The JSON report of the latest run."""

    def read() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(Path(pytester.path / "out.json").read_text())
        return found

    return read
