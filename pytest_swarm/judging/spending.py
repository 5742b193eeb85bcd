"""Who says what the calls of a run cost, and whether two who say it agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from pytest_swarm.columns import RunResult

__all__ = ["NOTABLE", "Divergence", "cost_sources", "divergence"]

NOTABLE: Final = 0.01
"""The share by which two costs of one call may differ without a word: gateways round."""


def cost_sources(run: RunResult) -> Counter[str]:
    """How many calls of a run, warm-up too, were priced by whom: ``table``, ``genai-prices``, ``reported``."""
    texts = run.calls.names.texts
    return Counter({str(texts[code]): many for code, many in Counter(run.calls.cost_source).items() if code})


class Divergence(NamedTuple):
    """US dollars of the calls that both our prices and the gateway put a cost on."""

    calls: int
    differing: int
    """Those whose two costs differ by more than `NOTABLE`."""
    ours: float
    reported: float

    def __str__(self) -> str:
        apart = f" ({(self.ours - self.reported) / self.reported * 100:+.1f} %)" if self.reported else ""
        return (
            f"the gateway reported ${self.reported:.6g}, our prices give ${self.ours:.6g} for the same calls{apart}: "
            f"{self.differing} of {self.calls} differ by more than {NOTABLE:.0%}"
        )


def divergence(runs: Iterable[RunResult]) -> Divergence | None:
    """How our costs and the gateway's differ over the calls of all runs, warm-up too; None where no call's do.

    Calls of several attempts are left out: the gateway's figure is that of one, ours is that of all.
    """
    pairs = [pair for run in runs for pair in _pairs(run)]
    differing = sum(abs(ours - reported) > NOTABLE * reported for ours, reported in pairs)
    if not differing:
        return None
    return Divergence(
        len(pairs), differing, math.fsum(ours for ours, _ in pairs), math.fsum(reported for _, reported in pairs)
    )


def _pairs(run: RunResult) -> Iterable[tuple[float, float]]:
    calls = run.calls
    theirs = calls.names.texts.index("reported") if "reported" in calls.names.texts else -1
    rows = zip(calls.cost, calls.reported_cost, calls.cost_source, calls.attempts, strict=True)
    for ours, reported, source, attempts in rows:
        if source not in (0, theirs) and attempts == 1 and not (math.isnan(ours) or math.isnan(reported)):
            yield ours, reported
