"""Writing a cassette so that no crash loses more than the interaction that was being written.

Interactions are appended to a part file beside the cassette's own place, each in one piece. Only when the recording is
over does the part take that place, in one step, and that of a cassette in the other form: until then an older cassette
stays what it was. Bytes that the operating system was handed survive the process that handed them over; `fsync` before
the step makes them survive the machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_swarm.sources.cassette.file import PART, form_of, read_cassette
from pytest_swarm.sources.cassette.interaction import Interaction, to_vcr
from pytest_swarm.sources.cassette.names import FORMS
from pytest_swarm.sources.cassette.text import json_item, yaml_item

__all__ = ["CassetteWriter"]

_HEADS: Final = {"yaml": "version: 1\n{origin}interactions:\n", "json": '{{"version": 1, {origin}"interactions": [\n'}
_HEAD_BYTES: Final = 400


class CassetteWriter:
    """Appends interactions to the part of the cassette at `path`, from any thread.

    Nothing is on disk before the first of them. `worker` tells parts of several processes apart; `session` is a name
    that all processes of one session share: what another of them has completed at the same place is merged, not lost.
    """

    def __init__(self, path: Path, *, worker: str = "", session: str = "") -> None:
        self.path = path
        self.part = path.with_name(f"{path.name}{f'~{worker}' if worker else ''}{PART}")
        self._origin = {"session": session, "worker": worker} if session else None
        self._form = form_of(path)
        self._lock = threading.Lock()
        self._file: int | None = None
        self._written: set[tuple[int, bool, int | None, int]] = set()

    def append(self, interaction: Interaction) -> None:
        """Write one interaction. Raises `OSError` when that is not possible."""
        with self._lock:
            self._append(interaction)

    def _append(self, interaction: Interaction) -> None:
        item = to_vcr(interaction)
        file = self._opened()
        comma = "," if self.count else ""
        text = yaml_item(item) if self._form == "yaml" else f"{comma}{json_item(item)}\n"
        _write_all(file, text.encode("utf-8", "replace"))
        self._written.add(interaction.identity)

    @property
    def count(self) -> int:
        """Interactions that were written."""
        return len(self._written)

    def complete(self) -> None:
        """The recording is over: the part takes the cassette's place. Raises `OSError` when that is not possible."""
        with self._lock:
            file = self._opened()
            with _locked(self.path.parent) as folder:
                for interaction in self._of_other_processes():
                    self._append(interaction)
                tail = "]}\n" if self._form == "json" else "" if self.count else "  []\n"
                _write_all(file, tail.encode())
                os.fsync(file)
                self._close()
                self.part.replace(self.path)
                for form in FORMS:
                    if form != self._form:
                        self.path.with_suffix(f".{form}").unlink(missing_ok=True)
                os.fsync(folder)

    def _of_other_processes(self) -> list[Interaction]:
        """What another process of this session has completed at the same place, and this one has not seen."""
        other = _origin_of(self.path)
        if self._origin is None or other["session"] != self._origin["session"] or other == self._origin:
            return []
        return [one for one in read_cassette(self.path).interactions if one.identity not in self._written]

    def leave(self) -> None:
        """The recording was stopped: what there is stays in the part, and the cassette as it was."""
        with self._lock:
            self._close()

    def discard(self) -> None:
        """Nothing of this recording may stay."""
        with self._lock:
            self._close()
            self.part.unlink(missing_ok=True)

    def _opened(self) -> int:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
            _write_all(self._file, self._head().encode())
        return self._file

    def _head(self) -> str:
        origin = json.dumps(self._origin)
        line = f"swarm: {origin}\n" if self._form == "yaml" else f'"swarm": {origin}, '
        return _HEADS[self._form].format(origin="" if self._origin is None else line)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _origin_of(path: Path) -> dict[str, str | None]:
    """Which session and worker completed a cassette, where several processes record; unknown for any other file."""
    unknown: dict[str, str | None] = {"session": None, "worker": None}
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES).decode("utf-8", "replace")
        found = json.JSONDecoder().raw_decode(head, head.index('{"session": '))[0]
    except (OSError, ValueError):
        return unknown
    return {name: found.get(name) for name in unknown}


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """No other process completes a cassette in a folder meanwhile. Yields the folder's descriptor."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)
