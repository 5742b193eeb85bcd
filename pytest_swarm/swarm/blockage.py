"""Which line of code keeps an event loop from coming round."""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

from pytest_swarm.swarm.pulse import Pulse

__all__ = ["Blockage", "line_of", "watched"]

LOOK_EVERY: Final = 0.04
"""Real seconds between two looks. A loop that has not beaten since the last one is blocked."""

_OURS: Final = str(Path(__file__).parents[1])
_LOOP: Final = str(Path(asyncio.__file__).parent)
_INSTALLED: Final = (str(Path(_LOOP).parent), *{sysconfig.get_path(name) for name in ("purelib", "platlib")})
_CALLERS: Final = frozenset({"_run", "run_forever", "run_until_complete", "run"})
"""Functions of asyncio that call callbacks. What has called these in turn does not block; loops written in C show only
the outer ones."""


class Blockage:
    """Where a loop was found blocked."""

    def __init__(self) -> None:
        self._found: Counter[str] = Counter()

    def look(self, frame: FrameType | None) -> None:
        """Note where the thread of a blocked loop is."""
        where = line_of(frame)
        if where is not None:
            self._found[where] += 1

    @property
    def worst(self) -> str | None:
        """The line at which it was found most often; None when at none."""
        return max(self._found, key=self._found.__getitem__, default=None)


@contextmanager
def watched(pulse: Pulse) -> Iterator[Blockage]:
    """Look after the loop of the calling thread, which lets `pulse` beat, for the length of the block."""
    blockage, over, thread = Blockage(), threading.Event(), threading.get_ident()

    def watch() -> None:
        beats = -1
        while not over.wait(LOOK_EVERY):
            if pulse.beats == beats:
                blockage.look(sys._current_frames().get(thread))
            beats = pulse.beats

    watcher = threading.Thread(target=watch, name="swarm-blockage", daemon=True)
    watcher.start()
    try:
        yield blockage
    finally:
        over.set()
        watcher.join()


def line_of(frame: FrameType | None) -> str | None:
    """Where a callback of the loop is, as ``test_it.py:12 in test_it``: the innermost line that a user wrote.

    Where no line of the callback is the user's, the innermost of a library; None where the loop itself is at work, or
    this package, which has nobody else to blame.
    """
    entered = _entered(frame)
    if not entered or entered[0].f_code.co_filename.startswith((_OURS, _LOOP)):
        return None
    own = (one for one in entered if not one.f_code.co_filename.startswith((*_INSTALLED, _OURS)))
    found = next(own, entered[0])
    return f"{_short(found.f_code)}:{found.f_lineno} in {found.f_code.co_qualname}"


def _entered(frame: FrameType | None) -> list[FrameType]:
    """The frames that a callback has entered, the innermost first; none where the loop itself runs."""
    entered: list[FrameType] = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_LOOP):
            if code.co_name in ("_run_once", "select"):
                return []
            if code.co_name in _CALLERS:
                return entered
        entered.append(frame)
        frame = frame.f_back
    return entered


def _short(code: CodeType) -> str:
    path = Path(code.co_filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else path.name
