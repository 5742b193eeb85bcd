"""How many tasks may be in flight: a fixed number, one that follows stages, or one that adapts. Without a clock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytest_swarm.swarm.adaptive import Controller, Trouble
    from pytest_swarm.values import Stage

__all__ = ["AdaptiveCap", "Cap", "FixedCap", "SteppedCap", "steps_of"]


class Cap(Protocol):
    """The most tasks that may be in flight at a time."""

    @property
    def limit(self) -> float:
        """What holds now; infinite where nothing caps."""

    def advance(self, now: float) -> None:
        """It is `now`."""

    def next_time(self) -> float | None:
        """When the limit changes next by itself; None if it never does."""

    def ended(self, now: float, latency: float, trouble: Trouble | None) -> None:
        """A task has ended; the limit may have changed."""


class FixedCap:
    """Always the same number."""

    def __init__(self, limit: float | None) -> None:
        self.limit = math.inf if limit is None else limit

    def advance(self, now: float) -> None:
        """Time changes nothing."""

    def next_time(self) -> float | None:
        """Never."""
        return None

    def ended(self, now: float, latency: float, trouble: Trouble | None) -> None:
        """Nor does anything else."""


class SteppedCap:
    """Follows steps, pairs of a time and the limit from then on; never above `highest`."""

    def __init__(self, steps: Sequence[tuple[float, int]], start: float, highest: float | None = None) -> None:
        self.limit: float = 0
        self._steps = iter(steps)
        self._next = next(self._steps, None)
        self._start = start
        self._highest = math.inf if highest is None else highest

    def advance(self, now: float) -> None:
        """Take the steps that are due."""
        while self._next is not None and self._start + self._next[0] <= now + TOLERANCE:
            self.limit = min(self._next[1], self._highest)
            self._next = next(self._steps, None)

    def next_time(self) -> float | None:
        """When the next step is due."""
        return None if self._next is None else self._start + self._next[0]

    def ended(self, now: float, latency: float, trouble: Trouble | None) -> None:
        """Steps know the time only."""


class AdaptiveCap:
    """What a controller finds out."""

    def __init__(self, controller: Controller, start: float) -> None:
        self._controller = controller
        self._start = start
        self.limit: float = controller.limit

    def advance(self, now: float) -> None:
        """Only ended tasks teach it anything."""

    def next_time(self) -> float | None:
        """Nobody knows."""
        return None

    def ended(self, now: float, latency: float, trouble: Trouble | None) -> None:
        """A task has ended: the controller may change its mind."""
        self.limit = self._controller.ended(now - self._start, latency, trouble)


TOLERANCE = 1e-6
"""Seconds by which a timer may be early: what is due so soon is due."""


def steps_of(stages: Iterable[Stage]) -> list[tuple[float, int]]:
    """When the number of tasks in flight changes to what, for stages that ramp from 0 to the first target and so on.

    On the way up the next lane opens as soon as the straight line leaves the number before it, on the way down one
    closes when the line reaches the number below.
    """
    steps: list[tuple[float, int]] = []
    began, level = 0.0, 0
    for stage in stages:
        target = int(stage.target)
        span = abs(target - level)
        for passed in range(span):
            if target > level:
                steps.append((began + stage.seconds * passed / span, level + passed + 1))
            else:
                # Rounding must not carry the last one beyond the stage.
                steps.append((began + min(stage.seconds, stage.seconds * (passed + 1) / span), level - passed - 1))
        began, level = began + stage.seconds, target
    return steps
