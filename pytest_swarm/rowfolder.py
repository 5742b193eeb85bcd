"""Where rows of finished calls lie while a session runs: under pytest's cache directory, so that a crash loses none."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from pytest_swarm.rowfile import RowFile

__all__ = ["RowFolder"]

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
NAME_LENGTH: Final = 80
NAMED: Final = "named"
"""File that marks a folder which an earlier session has been told of."""


class RowFolder:
    """One folder per session and process, with one file per test."""

    def __init__(self, config: pytest.Config) -> None:
        self._base = _base(config)
        self._worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self._numbers = itertools.count()
        self._path: Path | None = None

    def open(self, nodeid: str) -> RowFile:
        """A file for the rows of one test."""
        if self._path is None:
            stamp = time.strftime("%Y%m%d-%H%M%S")
            self._path = self._base / f"{stamp}-{os.getpid()}-{self._worker}"
            self._path.mkdir(parents=True, exist_ok=True)
        name = _UNSAFE.sub("_", nodeid.rpartition("/")[2])[:NAME_LENGTH]
        return RowFile(self._path / f"{next(self._numbers):03d}-{name}.jsonl")

    def remove(self, paths: Iterable[str | None]) -> None:
        """The reports are written: the files of rows, those of workers too, are not needed any more."""
        for path in {Path(path).parent for path in paths if path is not None}:
            shutil.rmtree(path, ignore_errors=True)
        self._path = None

    def left_behind(self) -> list[Path]:
        """Folders of earlier sessions that did not end in good order, each named once."""
        found = []
        for path in sorted(self._base.glob("*-*-*-*")) if self._base.is_dir() else []:
            if (path / NAMED).exists() or _alive(path) or not any(path.glob("*.jsonl")):
                continue
            (path / NAMED).touch()
            found.append(path)
        return found


def _base(config: pytest.Config) -> Path:
    """Under pytest's cache; in the temporary directory where there is no cache."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return Path(tempfile.gettempdir()) / f"pytest-swarm-{os.getuid()}"
    return Path(cache.mkdir("swarm"))


def _alive(path: Path) -> bool:
    try:
        os.kill(int(path.name.split("-")[2]), 0)
    except (ValueError, IndexError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
