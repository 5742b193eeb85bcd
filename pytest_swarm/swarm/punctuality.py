"""How well the starts of tasks keep to the times at which they were due."""

from __future__ import annotations

import math
from array import array

__all__ = ["Punctuality"]


class Punctuality:
    """Of the tasks that nothing but this process held up."""

    def __init__(self) -> None:
        self.late = array("d")
        """Seconds from due to start of each."""
        self._due = (math.inf, -math.inf)
        self._start = (math.inf, -math.inf)

    def started(self, due: float, start: float) -> None:
        """A task starts."""
        self.late.append(start - due)
        self._due = (min(self._due[0], due), max(self._due[1], due))
        self._start = (min(self._start[0], start), max(self._start[1], start))

    @property
    def undelivered(self) -> float | None:
        """By which share the starts came at a lower rate than was planned; None with fewer than two times."""
        planned, delivered = self._due[1] - self._due[0], self._start[1] - self._start[0]
        return max(0.0, 1 - planned / delivered) if planned > 0 and delivered > 0 else None
