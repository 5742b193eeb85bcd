"""The steps of a search for the largest load that holds: doubling until one does not, then halving what lies between.

A verdict that is close to its threshold may be chance. It is asked again at the same load, with new draws, until two of
at most three agree. A search narrows its answer to one in twenty of the load, since a step further costs as much as the
first, and tells less than the next run would move it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from pytest_swarm.judging.catalogue import Dimension
from pytest_swarm.judging.sla import Expression
from pytest_swarm.judging.verdict import Judgement, SlaLine

__all__ = ["NARROW", "NEAR", "Search", "is_near"]

NARROW: Final = 0.05
"""Share of the load by which the largest that holds and the smallest that does not may lie apart in the end."""

NEAR: Final = 0.10
"""Share of a threshold by which a figure may miss it, or hold it, and be called close to it."""

_AGREEING: Final = 2


class Search:
    """Asks for one load after the other, from `low` to `high`, and is told whether it held."""

    def __init__(self, low: float, high: float, *, whole: bool) -> None:
        """`whole` for loads that are whole numbers, tasks in flight for example."""
        self._high = high
        self._whole = whole
        self._votes: list[bool] = []
        self.load: float | None = low
        """What to try next; None when the search is over."""
        self.held: float | None = None
        """The largest load that held."""
        self.missed: float | None = None
        """The smallest load that did not."""

    def tell(self, *, held: bool, near: bool) -> None:
        """The load held or did not, and that was close to a threshold or clear."""
        load = self.load
        assert load is not None
        first = not self._votes
        self._votes.append(held)
        if (first and near) or (not first and max(map(self._votes.count, (True, False))) < _AGREEING):
            return
        decided = self._votes.count(True) * 2 > len(self._votes)
        self._votes = []
        if decided:
            self.held = load
        else:
            self.missed = load
        self.load = self._next()

    def _next(self) -> float | None:
        held, missed = self.held, self.missed
        if held is None:
            return None
        if missed is None:
            return None if held >= self._high else min(held * 2, self._high)
        if missed - held <= held * NARROW:
            return None
        middle = (held + missed) / 2
        if not self._whole:
            return middle
        middle = math.floor(middle)
        return middle if middle > held else None


def is_near(judgement: Judgement, expressions: Iterable[Expression]) -> bool:
    """Whether a little more or less would have turned a verdict: of a pass, one line; of a fail, all that failed."""
    dimensions = {str(expression): expression.metric.dimension for expression in expressions}
    if judgement.verdict == "pass":
        return any(_close(line, dimensions.get(line.expression)) for line in judgement.lines)
    failed = [line for line in judgement.lines if line.verdict == "fail"]
    # Any other reason, a task that did not pass for example, is clear.
    if {line.reason for line in failed} != set(judgement.reasons):
        return False
    return all(_close(line, dimensions.get(line.expression)) for line in failed)


def _close(line: SlaLine, dimension: Dimension | None) -> bool:
    if line.observed is None or line.threshold is None or line.op in ("==", "!="):
        return False
    scale = abs(line.threshold)
    if dimension is Dimension.SHARE:
        # What matters in 99 % is the one in a hundred that is missing.
        scale = min(scale, abs(1 - line.threshold))
    return abs(line.observed - line.threshold) <= NEAR * scale
