"""Real pytest configs that know this plugin's options and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_swarm.options import register
from pytest_swarm.settings import Settings, read_settings


@pytest.fixture
def read(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    """Settings from arguments, the lines of a pytest.ini, a pyproject.toml and an environment."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.plugins.append(SimpleNamespace(pytest_addoption=register))

    def settings(*args: str, ini: str = "", pyproject: str = "", environ: Mapping[str, str] | None = None) -> Settings:
        if ini:
            Path("pytest.ini").write_text(f"[pytest]\n{ini}\n", encoding="utf-8")
        if pyproject:
            Path("pyproject.toml").write_text(pyproject, encoding="utf-8")
        return read_settings(pytester.parseconfig("--rootdir=.", *args), environ or {})

    return settings
