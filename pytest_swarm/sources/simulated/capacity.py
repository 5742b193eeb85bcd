"""Worker pools: who works on a request, and from when on. Event-driven, first come first served."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Protocol

from pytest_swarm.sources.simulated.cache import PromptCache
from pytest_swarm.sources.simulated.profile import Capacity
from pytest_swarm.sources.simulated.timeline import Timeline

__all__ = ["ElasticPool", "FixedPool", "Pool", "Ticket", "Worker", "make_pool"]


class Worker:
    """One place at which one request at a time is worked on; `cache` is its own prompt cache, or the one of all."""

    __slots__ = ("cache", "idle_since", "number")

    def __init__(self, number: int, cache: PromptCache) -> None:
        self.number = number
        self.cache = cache
        self.idle_since = 0.0


class Ticket:
    """A place in the queue."""

    __slots__ = ("cancelled", "granted")

    def __init__(self, granted: Callable[[Worker], None]) -> None:
        self.granted = granted
        self.cancelled = False


class Pool(Protocol):
    """Hands workers out. `acquire` calls `granted` at once when a worker is free, otherwise when it is its turn."""

    def acquire(self, granted: Callable[[Worker], None], *, first: bool = False) -> Ticket:
        """Ask for a worker, at the end of the queue or as the first in it. Set the ticket's `cancelled` to leave."""

    def release(self, worker: Worker) -> None:
        """Give a worker back."""

    def size(self) -> int:
        """Workers that there are now, busy and idle."""


class _Queue:
    """Those who wait, without those who have left."""

    def __init__(self) -> None:
        self._tickets: deque[Ticket] = deque()

    def add(self, ticket: Ticket, *, first: bool) -> None:
        (self._tickets.appendleft if first else self._tickets.append)(ticket)

    def next(self) -> Ticket | None:
        while self._tickets:
            ticket = self._tickets.popleft()
            if not ticket.cancelled:
                return ticket
        return None

    def length(self, most: int) -> int:
        """How many wait, counted up to `most`."""
        return sum(1 for _ in itertools.islice((t for t in self._tickets if not t.cancelled), most))


class FixedPool:
    """A fixed number of workers."""

    def __init__(self, workers: int, make_cache: Callable[[], PromptCache]) -> None:
        self._idle = deque(Worker(number, make_cache()) for number in range(workers))
        self._workers = workers
        self._queue = _Queue()

    def acquire(self, granted: Callable[[Worker], None], *, first: bool = False) -> Ticket:
        """See `Pool.acquire`."""
        ticket = Ticket(granted)
        if self._idle:
            granted(self._idle.popleft())
        else:
            self._queue.add(ticket, first=first)
        return ticket

    def release(self, worker: Worker) -> None:
        """See `Pool.release`."""
        ticket = self._queue.next()
        if ticket is None:
            self._idle.append(worker)
        else:
            ticket.granted(worker)

    def size(self) -> int:
        """See `Pool.size`."""
        return self._workers


class ElasticPool:
    """Workers that are spawned while requests wait, and end when they have been idle for long.

    A spawn takes its time, and no more workers can be on their way than there are already, so that their number doubles
    at most per spawn time. The worker that was busy last is used first, so the others can end.
    """

    def __init__(self, capacity: Capacity, make_cache: Callable[[], PromptCache], timeline: Timeline) -> None:
        self._capacity = capacity
        self._make_cache = make_cache
        self._timeline = timeline
        self._numbers = itertools.count()
        self._queue = _Queue()
        self._starting = 0
        now = timeline.time()
        self._idle: deque[Worker] = deque()
        for _ in range(capacity.min_workers):
            self._idle.append(self._new_worker(now))
        self._size = capacity.min_workers
        self._curve = [(now, self._size)]

    def acquire(self, granted: Callable[[Worker], None], *, first: bool = False) -> Ticket:
        """See `Pool.acquire`."""
        self._end_idle()
        ticket = Ticket(granted)
        if self._idle:
            granted(self._idle.pop())
        else:
            self._queue.add(ticket, first=first)
            self._spawn()
        return ticket

    def release(self, worker: Worker) -> None:
        """See `Pool.release`."""
        self._end_idle()
        self._employ(worker)

    def size(self) -> int:
        """See `Pool.size`."""
        self._end_idle()
        return self._size

    def curve(self) -> list[tuple[float, int]]:
        """Every change so far of the number of workers: when, on the timeline, and to how many."""
        self._end_idle()
        return list(self._curve)

    def _new_worker(self, now: float) -> Worker:
        worker = Worker(next(self._numbers), self._make_cache())
        worker.idle_since = now
        return worker

    def _employ(self, worker: Worker) -> None:
        ticket = self._queue.next()
        if ticket is None:
            worker.idle_since = self._timeline.time()
            self._idle.append(worker)
        else:
            ticket.granted(worker)

    def _spawn(self) -> None:
        """Start workers for those who wait and have none on its way yet."""
        most = min(self._size, self._capacity.max_workers - self._size) - self._starting
        if most <= 0:
            return
        wanted = min(most, self._queue.length(most + self._starting) - self._starting)
        ready = self._timeline.time() + self._capacity.spawn_seconds
        for _ in range(wanted):
            self._starting += 1
            self._timeline.call_at(ready, self._spawned)

    def _spawned(self) -> None:
        self._end_idle()
        self._starting -= 1
        self._size += 1
        now = self._timeline.time()
        self._curve.append((now, self._size))
        self._employ(self._new_worker(now))
        self._spawn()

    def _end_idle(self) -> None:
        """End the workers whose idle time is over, as of the moment it was: no timer has to run for that."""
        horizon = self._timeline.time() - self._capacity.idle_seconds
        while self._idle and self._idle[0].idle_since <= horizon and self._size > self._capacity.min_workers:
            ended = self._idle.popleft()
            self._size -= 1
            when = max(ended.idle_since + self._capacity.idle_seconds, self._curve[-1][0])
            self._curve.append((when, self._size))


def make_pool(capacity: Capacity, make_cache: Callable[[], PromptCache], timeline: Timeline) -> Pool:
    """The pool that a system's policy names."""
    if capacity.policy == "fixed":
        return FixedPool(capacity.workers, make_cache)
    return ElasticPool(capacity, make_cache, timeline)
