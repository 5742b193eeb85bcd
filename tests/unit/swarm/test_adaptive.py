"""The controller of a concurrency that adapts, against servers whose capacity is known."""

from __future__ import annotations

import heapq
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from pytest_swarm.columns import LimitStep
from pytest_swarm.swarm.adaptive import Controller, Trouble

Service = Callable[[random.Random], float]


@dataclass
class Server:
    """Serves `workers` at a time, in order of arrival; says that it is too much above `most` in flight."""

    workers: int
    service: Service = lambda rng: 1.0
    most: int | None = None
    fails: Trouble | None = None
    """What becomes of every request."""
    low: int = 8
    high: int = 256
    trace: list[LimitStep] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    """The limit after each ended task."""

    def serve(self, tasks: int, seed: int = 0) -> Server:
        """Run a closed loop under the controller."""
        self.controller = Controller(self.low, self.high, self.trace)
        self.rng, self.now, self.running, self.number = random.Random(seed), 0.0, 0, 0
        self.free = [0.0] * self.workers
        self.ends: list[tuple[float, int, float, Trouble | None]] = []
        while self.running < self.controller.limit:
            self._start()
        while len(self.limits) < tasks:
            self.now, _, began, trouble = heapq.heappop(self.ends)
            self.running -= 1
            self.limits.append(self.controller.ended(self.now, self.now - began, trouble))
            while self.running < self.controller.limit:
                self._start()
        return self

    def _start(self) -> None:
        self.number += 1
        self.running += 1
        if self.most is not None and self.running > self.most:
            heapq.heappush(self.ends, (self.now + 0.05, self.number, self.now, "rate_limited"))
            return
        end = max(self.now, heapq.heappop(self.free)) + self.service(self.rng)
        heapq.heappush(self.free, end)
        heapq.heappush(self.ends, (end, self.number, self.now, self.fails))

    @property
    def usual(self) -> float:
        """The mean limit in the second half."""
        return statistics.fmean(self.limits[len(self.limits) // 2 :])


SERVICES: dict[str, Service] = {
    "constant": lambda rng: 1.0,
    "exponential": lambda rng: rng.expovariate(1),
    "log-normal": lambda rng: rng.lognormvariate(0, 0.8),
}


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("workers", [20, 32, 60, 100])
def test_finds_how_many_a_server_serves_at_a_time(workers: int, service: str) -> None:
    found = [Server(workers, SERVICES[service]).serve(6000, seed).usual for seed in range(3)]
    assert 0.85 * workers <= statistics.median(found) <= 1.4 * workers


def test_goes_to_the_top_where_there_is_room() -> None:
    server = Server(1000, SERVICES["exponential"]).serve(4000)
    assert server.limits[-1] == 256
    assert [step.limit for step in server.trace][:6] == [8, 16, 32, 64, 128, 256]


def test_stays_near_the_bottom_where_there_is_none() -> None:
    server = Server(4).serve(2000)
    assert server.usual < 12
    assert min(server.limits) >= 8


def test_backs_off_when_it_is_told_that_it_is_too_much() -> None:
    server = Server(1000, most=40).serve(4000)
    assert 0.5 * 40 <= server.usual <= 1.25 * 40
    falls = [after.limit / before.limit for before, after in pairwise(server.trace) if after.limit < before.limit]
    assert falls
    assert min(falls) > 0.66


def test_timeouts_are_too_much_and_failures_are_only_no_success() -> None:
    assert Server(1000, fails="timeout").serve(1000).limits[-1] == 8
    failing = Server(1000, fails="failed").serve(1000)
    assert failing.limits[-1] == 8
    assert all(step.throughput is None and step.latency is None for step in failing.trace)


def test_goes_back_up_when_the_system_has_become_slower_and_not_smaller() -> None:
    calls = iter(range(10**9))
    server = Server(32, lambda rng: 1.0 if next(calls) < 2500 else 2.0).serve(8000)
    assert server.usual >= 0.85 * 32


def test_the_trace_tells_every_window() -> None:
    server = Server(1000).serve(600)
    assert server.trace[0] == LimitStep(0.0, 8, None, None)
    assert all(before.time <= after.time for before, after in pairwise(server.trace))
    second = server.trace[1]
    assert second.throughput == pytest.approx(8, rel=0.15)
    assert second.latency == pytest.approx(1)
