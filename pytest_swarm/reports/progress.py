"""One live line while a swarm runs: how far it is, and how it is doing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

from pytest_swarm.reports.figures import cells, duration, ellipsis_end, ellipsis_middle, money, one_line

__all__ = ["Progress", "ProgressLine", "progress_text"]

REDRAW_EVERY: Final = 0.2
"""Seconds between two states that are shown."""
SHORTEST_NAME: Final = 12
_SEPARATOR: Final = " · "
_ERASE: Final = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands."""

    name: str
    done: int
    total: int | None
    """None where a duration ends the run."""
    in_flight: int
    p95: float | None = None
    """Task latency so far, seconds."""
    failed: int = 0
    cost: float | None = None
    """US dollars; None where it is not known."""


def progress_text(progress: Progress, width: int) -> str:
    """`test_summarise[gpt] 430/1000 done · 50 in flight · p95 2.1s · 3 failed · $0.12`, at most `width` columns."""
    total = "" if progress.total is None else f"/{progress.total}"
    parts = [f"{progress.done}{total} done", f"{progress.in_flight} in flight"]
    if progress.p95 is not None:
        parts.append(f"p95 {duration(progress.p95)}")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    if progress.cost is not None:
        parts.append(money(progress.cost))
    figures = _SEPARATOR.join(parts)
    name = ellipsis_middle(one_line(progress.name), max(SHORTEST_NAME, width - cells(figures) - 1))
    return ellipsis_end(f"{name} {figures}", width)


class ProgressLine:
    """The line on a terminal; on anything else it is silent.

    `file` is a stream of its own, a duplicate of stderr: pytest captures the usual one. `clock` tells real seconds,
    also while a run has virtual time. A terminal that is gone ends the line and not the run.
    """

    def __init__(self, file: TextIO, clock: Callable[[], float]) -> None:
        self._file = file
        self._clock = clock
        self._next = float("-inf")
        self._drawn = False
        self._on = file.isatty() and os.environ.get("TERM") != "dumb"

    def update(self, state: Callable[[], Progress]) -> None:
        """Show the state, which is asked for only when it is time to draw: at most five times a second."""
        if not self._on or self._clock() < self._next:
            return
        self._next = self._clock() + REDRAW_EVERY
        # One column stays free, or the cursor would wrap to a line that cannot be erased.
        self._write(_ERASE + progress_text(state(), _columns(self._file) - 1))
        self._drawn = True

    def erase(self) -> None:
        """Leave the terminal's line as it was found. The next update draws at once."""
        if self._drawn:
            self._write(_ERASE)
        self._drawn = False
        self._next = float("-inf")

    def _write(self, text: str) -> None:
        try:
            self._file.write(text)
            self._file.flush()
        except (OSError, ValueError):
            self._on = False


def _columns(file: TextIO) -> int:
    try:
        return os.get_terminal_size(file.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
