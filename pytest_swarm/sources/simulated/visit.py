"""The way of one request through a system: queue, faults, work, reply. It waits on the timeline and needs no task."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from pytest_swarm.exchange import Ending
from pytest_swarm.sources.simulated.asking import Refused
from pytest_swarm.sources.simulated.capacity import Ticket, Worker
from pytest_swarm.sources.simulated.engine import Engine, Plan
from pytest_swarm.sources.simulated.faults import Fate
from pytest_swarm.sources.simulated.timeline import Timer
from pytest_swarm.sources.simulated.wire import Scribe, Wire

__all__ = ["JSON", "SSE", "Sink", "Visit"]

JSON: Final = "application/json"
SSE: Final = "text/event-stream; charset=utf-8"


class Sink(Protocol):
    """Who takes a reply, at the time at which it comes."""

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Status and headers (lower-case names)."""

    def feed(self, data: bytes) -> None:
        """Bytes of the body."""

    def finish(self, ending: Ending, error: str = "") -> None:
        """Nothing more will come."""


class _Stream:
    """What is left of a streamed answer."""

    def __init__(self, scribe: Scribe, pieces: list[tuple[float, str]], *, breaks: bool) -> None:
        self._scribe = scribe
        self._pieces = pieces
        self._sent = 0
        self._breaks_at = len(pieces) // 2 if breaks else -1

    @property
    def next_at(self) -> float:
        """When the next piece comes, in seconds since the work began."""
        return self._pieces[self._sent][0]

    @property
    def broken(self) -> bool:
        """Whether it breaks here, instead of going on."""
        return self._sent == self._breaks_at

    @property
    def done(self) -> bool:
        """Whether everything was taken."""
        return self._sent == len(self._pieces)

    def take(self) -> bytes:
        """The events of the next piece, those before the first and after the last with it."""
        data = self._scribe.piece(self._pieces[self._sent][1])
        if self._sent == 0:
            data = self._scribe.opening() + data
        self._sent += 1
        return data + self._scribe.closing() if self.done else data


class Visit:
    """One request that a system has taken on. Times are on the system's timeline, unknown ones None."""

    def __init__(self, engine: Engine, plan: Plan, wire: Wire, sink: Sink) -> None:
        self.plan = plan
        self.arrived = engine.timeline.time()
        self.started: float | None = None
        """When a worker began with the answer."""
        self.ended: float | None = None
        self.status: int | None = None
        self.worker: int | None = None
        """The number of the worker that answered."""
        self._engine = engine
        self._wire = wire
        self._sink = sink
        self._pauses = deque(plan.journey.pauses)
        self._ticket: Ticket | None = None
        self._held: Worker | None = None
        self._timer: Timer | None = None
        self._stream: _Stream | None = None

    @property
    def cost(self) -> float:
        """US dollars that the system bills; a request that was not worked on, or failed, is free."""
        return self.plan.answer.cost if self.started is not None and self.plan.failure is None else 0.0

    def begin(self) -> None:
        """Get into the queue."""
        if self.plan.journey.fate is Fate.HANG:
            self._after(self._engine.system.faults.hang_seconds, self._disconnect)
        else:
            self._queue()

    def abandon(self) -> None:
        """The client has gone: leave the queue, or free the worker."""
        if self.ended is None:
            self._leave()

    # --- waiting and working ------------------------------------------------------------------------------------------

    def _after(self, seconds: float, callback: Callable[[], None]) -> None:
        self._timer = self._engine.timeline.call_at(self._engine.timeline.time() + seconds, callback)

    def _queue(self, *, first: bool = False) -> None:
        self._ticket = self._engine.pool.acquire(self._granted, first=first)

    def _granted(self, worker: Worker) -> None:
        self._held = worker
        if self._pauses:
            self._after(self.plan.seconds * self._engine.system.faults.transient_share, self._fault)
        else:
            self._work(worker)

    def _fault(self) -> None:
        """A transient fault: off this worker, and after a pause, or at once, to the next."""
        worker, self._held = self._held, None
        assert worker is not None
        pause = self._pauses.popleft()
        if self._engine.system.faults.recovery == "reschedule":
            # Asked for before this worker is free, so that another one takes over if there is one.
            self._queue(first=True)
        else:
            self._after(pause, self._queue)
        self._engine.pool.release(worker)

    def _work(self, worker: Worker) -> None:
        engine, plan = self._engine, self.plan
        self.started = engine.timeline.time()
        self.worker = worker.number
        if plan.failure is not None:
            self._after(engine.system.faults.doomed_seconds, self._fail)
            return
        engine.start(plan, worker, self.started)
        if not plan.answer.ask.stream:
            self._after(plan.seconds, self._deliver_document)
            return
        breaks = plan.journey.fate in (Fate.CUT, Fate.STREAM_ERROR)
        self._stream = _Stream(self._wire.scribe(plan.answer), engine.pieces(plan), breaks=breaks)
        stall = engine.system.faults.stall_seconds if plan.journey.fate is Fate.STALL else 0.0
        self._after(max(0.0, self._stream.next_at - stall), self._open)

    def _leave(self) -> None:
        """Out of the system: nothing more happens to this request."""
        self.ended = self._engine.timeline.time()
        if self._timer is not None:
            self._timer.cancel()
        if self._ticket is not None:
            self._ticket.cancelled = True
        worker, self._held = self._held, None
        if worker is not None:
            self._engine.pool.release(worker)

    # --- replying -----------------------------------------------------------------------------------------------------

    def _head(self, status: int, content_type: str) -> None:
        self.status = status
        self._sink.head(status, {**self.plan.headers, "content-type": content_type})

    def _fail(self) -> None:
        failure = self.plan.failure
        assert failure is not None
        self._head(failure.status, JSON)
        self._sink.feed(self._wire.error(failure))
        self._finish()

    def _deliver_document(self) -> None:
        document = self._wire.document(self.plan.answer)
        self._head(200, JSON)
        if self.plan.journey.fate is Fate.CUT:
            self._sink.feed(document[: len(document) // 2])
            self._disconnect()
            return
        self._sink.feed(document)
        self._complete()

    def _open(self) -> None:
        self._head(200, SSE)
        if self.plan.journey.fate is Fate.STALL:
            self._wait_for_piece()
        else:
            self._deliver_piece()

    def _wait_for_piece(self) -> None:
        assert self._stream is not None
        assert self.started is not None
        self._timer = self._engine.timeline.call_at(self.started + self._stream.next_at, self._deliver_piece)

    def _deliver_piece(self) -> None:
        stream = self._stream
        assert stream is not None
        if stream.broken:
            self._break()
            return
        self._sink.feed(stream.take())
        if stream.done:
            self._complete()
        else:
            self._wait_for_piece()

    def _break(self) -> None:
        if self.plan.journey.fate is Fate.CUT:
            self._disconnect()
            return
        self._sink.feed(self._wire.error_event(Refused(500, "the stream broke off", "simulated_failure")))
        self._finish()

    def _complete(self) -> None:
        worker = self._held
        assert worker is not None
        self._engine.end(self.plan, worker, self._engine.timeline.time())
        self._finish()

    def _disconnect(self) -> None:
        self._leave()
        self._sink.finish(Ending.DISCONNECTED, "the simulated system closed the connection")

    def _finish(self) -> None:
        self._leave()
        self._sink.finish(Ending.COMPLETE)
