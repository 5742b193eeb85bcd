"""The file of rows: one JSON object per line, `{"task": {...}}` or `{"call": {...}}`, readable after any crash.

Rows are encoded where they are made and written by a thread of its own, so that neither a slow disk holds up the run
nor a blocked event loop holds back the rows: a killed process loses what was made in its last quarter of a second.
"""

from __future__ import annotations

import json
import math
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Literal, Self

from pytest_swarm.errors import SwarmError

__all__ = ["RowFile", "encode", "read_encoded", "read_rows"]

WRITE_EVERY: Final = 0.25
"""Seconds between two writes of the thread."""

Kind = Literal["task", "call"]
_PREFIX: Final[dict[Kind, bytes]] = {"task": b'{"task": ', "call": b'{"call": '}


def encode(value: Any) -> str:
    """JSON on one line, ASCII only, numbers in full precision; NaN and infinity become null."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        # Walking through every row to look for what is rarely there would cost more than encoding it.
        return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


class RowFile:
    """Appends rows to the file at `path`; parent directories are made.

    What a killed process left of a last line is cut off when its file is opened again. Rows may come from any thread.

    Raises:
        SwarmError: at once when the file cannot be opened, from `close` when rows could not be written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._pending: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: OSError | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b")
            _cut_torn_line(self._file)
        except OSError as error:
            raise SwarmError(f"rows cannot be written to {self.path}: {error.strerror or error}") from error

    def task(self, row: Mapping[str, Any]) -> None:
        """Add the row of a finished task."""
        self._add("task", row)

    def call(self, row: Mapping[str, Any]) -> None:
        """Add the row of a finished call."""
        self._add("call", row)

    def flush(self) -> None:
        """Hand every row so far to the operating system."""
        with self._lock:
            self._write()

    def close(self) -> None:
        """Write what waits, end the thread and close the file. A second time does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()
        try:
            self._file.close()
        except OSError as error:
            self._error = self._error or error
        if self._error is not None:
            reason = self._error.strerror or self._error
            raise SwarmError(f"rows are missing in {self.path}: {reason}") from self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _add(self, kind: Kind, row: Mapping[str, Any]) -> None:
        if self._closing.is_set():
            raise ValueError(f"a row came after {self.path} was closed")
        self._pending.append(_PREFIX[kind] + encode(row).encode("ascii") + b"}\n")
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_now_and_then, name="swarm-rows", daemon=True)
                self._thread.start()

    def _write_now_and_then(self) -> None:
        while not self._closing.wait(WRITE_EVERY):
            self.flush()

    def _write(self) -> None:
        # popleft, since a swapped list could still be appended to by a thread that had just looked it up.
        batch = [self._pending.popleft() for _ in range(len(self._pending))]
        if not batch or self._error is not None:
            return
        try:
            self._file.write(b"".join(batch))
            self._file.flush()
        except OSError as error:
            self._error = error


def _cut_torn_line(file: BinaryIO) -> None:
    """Leave only whole lines in `file`, and its position at the end."""
    end = size = file.seek(0, 2)
    while end > 0:
        start = max(0, end - 65536)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        file.truncate(end)
    file.seek(0, 2)


def read_rows(path: str | Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, each `{"task": {...}}` or `{"call": {...}}`; a torn last line is left out.

    Raises:
        SwarmError: a whole line is not such a row.
        OSError: the file cannot be read.
    """
    for number, line in enumerate(_whole_lines(path), 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or row.keys() not in ({"task"}, {"call"}):
            raise SwarmError(f"{path}, line {number}: expected a row of a task or a call, found {line[:60]!r}")
        yield row


def read_encoded(path: str | Path, kind: Kind) -> Iterator[bytes]:
    """The JSON texts of the rows of one kind, as `RowFile` wrote them, not parsed; a torn last line is left out.

    Raises:
        OSError: the file cannot be read.
    """
    prefix = _PREFIX[kind]
    for line in _whole_lines(path):
        if line.startswith(prefix):
            yield line[len(prefix) : -2]


def _whole_lines(path: str | Path) -> Iterator[bytes]:
    with Path(path).open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line
