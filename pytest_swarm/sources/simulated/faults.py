"""What becomes of a request inside a system: how it ends, and which faults it meets on the way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from pytest_swarm.sources.simulated.profile import Faults
from pytest_swarm.sources.simulated.service import Strata

__all__ = ["Fate", "FateDraws", "Journey"]


class Fate(StrEnum):
    """How a request ends, as its client sees it."""

    ANSWERED = "answered"
    DOOMED = "doomed"
    HANG = "hang"
    STALL = "stall"
    CUT = "cut"
    STREAM_ERROR = "stream_error"


@dataclass(frozen=True, slots=True)
class Journey:
    """The way of one request. `pauses`: seconds off any worker, one for each transient fault that it recovers from."""

    fate: Fate
    pauses: tuple[float, ...] = ()


class FateDraws:
    """Draws the journeys of one system, evenly spread: of every 100 requests, as many are doomed as the rate says."""

    def __init__(self, faults: Faults, seed: str) -> None:
        self._faults = faults
        self._fates = Strata(Random(f"{seed}:fate"))
        self._transients = Strata(Random(f"{seed}:transient"))
        self._jitter = Random(f"{seed}:backoff")
        self._ends: list[tuple[float, Fate]] = []
        total = 0.0
        for fate, rate in (
            (Fate.DOOMED, faults.doomed_rate),
            (Fate.HANG, faults.hang_rate),
            (Fate.STALL, faults.stall_rate),
            (Fate.CUT, faults.cut_rate),
            (Fate.STREAM_ERROR, faults.stream_error_rate),
        ):
            total += rate
            self._ends.append((total, fate))

    def draw(self) -> Journey:
        """The journey of the next request."""
        share = self._fates.draw()
        fate = next((fate for end, fate in self._ends if share < end), Fate.ANSWERED)
        if fate in (Fate.DOOMED, Fate.HANG):
            return Journey(fate)
        pauses: list[float] = []
        while self._transients.draw() < self._faults.transient_rate:
            if len(pauses) == self._faults.max_retries:
                return Journey(Fate.DOOMED, tuple(pauses))
            pauses.append(self._pause(len(pauses)))
        return Journey(fate, tuple(pauses))

    def _pause(self, faults_before: int) -> float:
        if self._faults.recovery == "reschedule":
            return 0.0
        # Half of the pause is drawn: clients that failed together do not come back together.
        return float(self._faults.backoff_seconds * 2**faults_before * (0.5 + self._jitter.random()))
