"""Acting on a module when somebody else imports it."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_swarm.tap.onimport import forget_imports, on_import


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "imported_later.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "imported_later"
    forget_imports()
    sys.modules.pop("imported_later", None)


def test_a_loaded_module_is_acted_on_at_once() -> None:
    seen: list[object] = []
    on_import("json", seen.append)
    assert seen == [sys.modules["json"]]


def test_a_module_is_acted_on_once_it_is_loaded_and_shows_no_trace_of_it(module: str) -> None:
    seen: list[int] = []
    on_import(module, lambda loaded: seen.append(loaded.VALUE))
    assert seen == []
    loaded = importlib.import_module(module)
    assert seen == [1]
    assert type(loaded.__loader__).__module__.startswith("importlib") or "frozen" in type(loaded.__loader__).__module__
    assert loaded.__spec__ is not None
    assert loaded.__spec__.loader is loaded.__loader__
    assert "VALUE" in inspect.getsource(loaded)


def test_a_forgotten_module_is_not_acted_on(module: str) -> None:
    seen: list[object] = []
    on_import(module, seen.append)
    forget_imports()
    importlib.import_module(module)
    assert seen == []


def test_a_module_that_does_not_exist_stays_an_import_error() -> None:
    on_import("no_such_module_anywhere", lambda _: None)
    try:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("no_such_module_anywhere")
    finally:
        forget_imports()
