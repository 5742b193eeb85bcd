"""One cost ceiling for several processes: the account is a small file, under a lock for as long as it is worked on.

A process that dies takes nothing along: what it had reserved stays reserved for good, which is to say that it counts as
spent. Some of it was, and nobody can tell how much.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Self

from pytest_swarm.errors import SettingError
from pytest_swarm.traffic.budget import Account, BaseBudget

__all__ = ["SharedBudget"]

SIZE: Final = 1024
"""Bytes of the file: its text is padded, so that a write replaces the one before it to the last byte."""
_FIELDS: Final = tuple(item.name for item in fields(Account))


class SharedBudget(BaseBudget):
    """A ceiling for the requests of all processes that name the same file, on one machine."""

    def __init__(self, path: Path, ceiling: float, name: str) -> None:
        """Raises `SettingError` when the file, which `create` made, is not there: on another machine, it is not."""
        super().__init__(ceiling, name)
        if not path.is_file():
            raise SettingError(f"{name}: workers on another machine cannot share the account; run them all on this one")
        self.path: Final = path

    @classmethod
    def create(cls, ceiling: float, name: str) -> Self:
        """A new account in a file of its own, which the caller removes with `remove`."""
        handle, path = tempfile.mkstemp(prefix="pytest-swarm-budget-", suffix=".json")
        os.write(handle, _encoded(Account()))
        os.close(handle)
        return cls(Path(path), ceiling, name)

    def remove(self) -> None:
        """Nobody needs the account any more."""
        self.path.unlink(missing_ok=True)

    @contextmanager
    def _open(self) -> Iterator[Account]:
        # Opened anew each time: the lock is the open file's, and so keeps threads apart too.
        handle = os.open(self.path, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            account = _decoded(os.pread(handle, SIZE, 0))
            before = _encoded(account)
            yield account
            after = _encoded(account)
            if after != before:
                os.pwrite(handle, after, 0)
        finally:
            os.close(handle)


def _encoded(account: Account) -> bytes:
    values = {name: getattr(account, name) for name in _FIELDS}
    text = json.dumps({name: str(value) if isinstance(value, Decimal) else value for name, value in values.items()})
    return text.ljust(SIZE).encode()


def _decoded(data: bytes) -> Account:
    written: dict[str, Any] = json.loads(data)
    values: Any = {name: Decimal(value) if isinstance(value, str) else value for name, value in written.items()}
    return Account(**values)
