"""The Exchange: one HTTP request and what came back, with the time of every piece. Nothing in it is parsed.

A source (the network, a cassette, the simulated gateway) drives an exchange by calling, in this order::

    wrote(now)                    the request's body has been handed to the socket
    feed(now, data) ...           bytes of the body arrived; may come before `head` when they share a read
    head(now, status, headers)    status line and headers are known
    finish(now, ending, error)    nothing more will come

All times are seconds on one monotonic clock; `Exchange` turns them into offsets from the send. Parsing is kept off the
path of arriving bytes: pieces are queued with their offset and given to the reading when enough wait, or when somebody
asks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, NamedTuple, Protocol

from pytest_swarm.clock import Now, real_now
from pytest_swarm.errors import SwarmError
from pytest_swarm.records import Reading
from pytest_swarm.redaction import redact_text

__all__ = ["Asker", "Ending", "Exchange", "Reader", "ReaderFactory", "Recorded", "Request", "Source"]

REDIRECTED = "redirected: the gateway sent the request on to another address"
DRAIN_BYTES = 65536
"""Queued bytes after which they are parsed although the stream goes on: bounds the memory of an endless stream."""


class Ending(StrEnum):
    """How an exchange ended on the wire. Apart from COMPLETE, the value is the outcome of the call."""

    COMPLETE = "complete"
    CONNECT_ERROR = "connect_error"
    TLS_ERROR = "tls_error"
    POOL_TIMEOUT = "pool_timeout"
    CONNECT_TIMEOUT = "connect_timeout"
    FIRST_TOKEN_TIMEOUT = "first_token_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    CANCELLED = "cancelled"
    BUDGET = "budget"
    """It was never sent: the cost ceiling stood before it."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent: method, absolute URL, headers (lower-case names) and the encoded body."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


class Asker(NamedTuple):
    """Who asks, within one test. `agent` is the index of the task; None for what no task asks for."""

    run: int
    warmup: bool
    agent: int | None


NOBODY: Final = Asker(0, False, None)


class Recorded(NamedTuple):
    """What a cassette says of the exchange that it answers with."""

    source: Literal["live", "simulated"]
    """Where the answer came from when it was recorded."""
    timed: bool
    """False where nobody knows when what came: no time of the exchange then means anything."""
    ended: float | None
    """When the recorded exchange ended, in seconds since the epoch; None where the cassette does not say."""


class Reader(Protocol):
    """A reducer over the pieces of one response; see `pytest_swarm.reading`."""

    @property
    def first_token(self) -> float | None:
        """Offset of the first generated piece so far, or None."""

    @property
    def pieces(self) -> list[str]:
        """The pieces of visible text in order of arrival, as far as they are kept."""

    def feed(self, offset: float, data: bytes) -> None:
        """Take the bytes that arrived `offset` seconds after the send."""

    def finish(self, ending: Ending, error: str) -> Reading:
        """The meaning of all that was fed."""


ReaderFactory = Callable[[int, Mapping[str, str]], Reader]
"""Makes the reader once status and headers (lower-case names) are known."""


@dataclass(slots=True)
class Exchange:
    """One attempt on the wire. `started` is when somebody asked for it, `sent` when its body was written."""

    request: Request
    reader_factory: ReaderFactory
    started: float
    clock: Now = real_now
    """The clock of the run that this belongs to: whoever drives the exchange reads it."""
    asker: Asker = NOBODY
    recorded: Recorded | None = None
    """Set by a source that plays what was recorded."""
    refused: SwarmError | None = None
    """Why the source did not answer at all: no failure of the gateway, but one of the test."""
    sent: float | None = None
    connect: float | None = None
    """Seconds spent opening a connection; None when a pooled one was used or it is not known."""
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    head_at: float | None = None
    last_feed: float | None = None
    """Offset of the last bytes that arrived."""
    ended: float | None = None
    """Offset of the end."""
    ending: Ending | None = None
    error: str = ""
    gives_up_at: float | None = None
    """When the client's own timeout ends the whole request, where the tap knows it."""
    notes: list[str] = field(default_factory=list)
    restarts: int = 0
    """How often the send was repeated on another connection."""
    on_finish: Callable[[Exchange], None] | None = None
    on_data: Callable[[bytes], None] | None = None
    """Given every piece of the body as it arrives."""
    kept: list[tuple[float, bytes]] | None = None
    """Every piece with its offset, while somebody records; None otherwise."""
    _queue: list[tuple[float, bytes]] = field(default_factory=list)
    _queued: int = 0
    _reader: Reader | None = None
    _reported: bool = False
    _redirected: bool = False

    def wrote(self, now: float) -> None:
        """The body goes to the socket now: latency counts from here."""
        if self.sent is None or not self._redirected:
            self.sent = now

    def head(self, now: float, status: int, headers: Mapping[str, str]) -> None:
        """Status and headers (lower-case names) are known."""
        self.status = status
        self.headers = headers
        self.head_at = self.offset(now)
        self._reader = self.reader_factory(status, headers)
        if self.ending is not None:
            self._report()

    def feed(self, now: float, data: bytes) -> None:
        """Bytes of the body arrived."""
        offset = self.offset(now)
        self.last_feed = offset
        self._queue.append((offset, data))
        if self.kept is not None:
            self.kept.append((offset, data))
        self._queued += len(data)
        if self.on_data is not None:
            self.on_data(data)
        if self._queued > DRAIN_BYTES:
            self.drain()

    def body_ended(self, now: float, ending: Ending, error: str = "") -> None:
        """The body is over. A short reply arrives whole before its head is known: then it finishes with `head`."""
        self._end(now, ending, error)
        if self.status is not None:
            self._report()

    def finish(self, now: float, ending: Ending, error: str = "") -> None:
        """Nothing more will come. Only the first ending counts."""
        self._end(now, ending, error)
        self._report()

    def _end(self, now: float, ending: Ending, error: str) -> None:
        if self.ending is None:
            self.ended = self.offset(now)
            self.ending = ending
            self.error = error

    def _report(self) -> None:
        if not self._reported:
            self._reported = True
            if self.on_finish is not None:
                self.on_finish(self)

    def restart(self, note: str) -> None:
        """Forget the send: it reached nobody and is repeated on another connection. Only while nothing came back."""
        if self.status is not None or self.last_feed is not None:
            raise RuntimeError("an exchange that was answered cannot be restarted")
        self.sent = self.connect = self.ended = self.ending = None
        self.error = ""
        self._reported = False
        self.restarts += 1
        self.notes.append(note)

    def redirected(self) -> None:
        """Forget what came back: it only told where to send the request, which is sent again. The first send counts."""
        self._redirected = True
        self.notes.append(REDIRECTED)
        self.last_feed = self.ended = self.ending = None
        self.error = ""
        self._queue, self._queued = [], 0
        if self.kept is not None:
            self.kept.clear()

    def offset(self, now: float) -> float:
        """`now` as seconds since the send (since the start, as long as nothing was sent)."""
        return now - (self.started if self.sent is None else self.sent)

    def drain(self) -> Reader | None:
        """Give the queued pieces to the reader, and return it; None as long as there is no head."""
        reader = self._reader
        if reader is not None and self._queue:
            queue, self._queue, self._queued = self._queue, [], 0
            for offset, data in queue:
                reader.feed(offset, data)
        return reader

    def read(self) -> Reading:
        """The meaning of the finished exchange. Call once, after `finish`."""
        if self.ending is None:
            raise RuntimeError("an exchange is read after it has finished")
        reader = self.drain()
        if reader is None:
            outcome = "malformed" if self.ending is Ending.COMPLETE else self.ending.value
            return Reading(outcome=outcome, detail=redact_text(self.error))
        return reader.finish(self.ending, self.error)


class Source(Protocol):
    """Where exchanges come from."""

    def send(self, exchange: Exchange) -> AsyncIterator[None]:
        """Carry `exchange.request` out, driving the exchange; yields whenever it has grown.

        Ends after `Exchange.finish`; failures of the transport finish the exchange and are not raised. When the
        consumer closes the iterator early or is cancelled, the source lets the connection go and finishes the exchange
        as cancelled.
        """
