"""What this process itself does to a run on a real clock, noted while the run goes on."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_swarm.columns import Audit
from pytest_swarm.swarm.blockage import watched
from pytest_swarm.swarm.pulse import TICK, Pulse, pulse_of_loop, pulse_of_threads

if TYPE_CHECKING:
    import asyncio

    from pytest_swarm.swarm.course import Course

__all__ = ["audited_loop", "audited_threads"]


@contextmanager
def audited_loop(course: Course, loop: asyncio.AbstractEventLoop, speed: float = 1.0) -> Iterator[None]:
    """Note it for a run on the running `loop`, of which `speed` seconds pass in one."""
    pulse = Pulse(course.ledger.now, lambda: course.in_flight, TICK * speed)
    with watched(pulse) as blockage:
        try:
            with pulse_of_loop(pulse, loop):
                yield
        finally:
            _note(course, pulse, threads=False, blocked_at=blockage.worst)


@contextmanager
def audited_threads(course: Course) -> Iterator[None]:
    """Note it for a run whose bodies are in threads: which of them holds the others up, none can tell."""
    pulse = Pulse(course.ledger.now, lambda: course.in_flight)
    try:
        with pulse_of_threads(pulse):
            yield
    finally:
        _note(course, pulse, threads=True, blocked_at=None)


def _note(course: Course, pulse: Pulse, *, threads: bool, blocked_at: str | None) -> None:
    punctuality = course.punctuality
    course.ledger.run.audit = Audit(
        lags=array("d", sorted(pulse.lags)),
        late=array("d", sorted(punctuality.late)),
        undelivered=punctuality.undelivered,
        in_flight_mean=pulse.in_flight_mean,
        threads=threads,
        blocked_at=blocked_at,
    )
