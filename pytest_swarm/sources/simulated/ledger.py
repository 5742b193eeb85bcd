"""The truth about what a simulated gateway sent: to compare with what a client has measured."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_swarm.exchange import Ending
from pytest_swarm.sources.simulated.visit import Visit

__all__ = ["Entry", "Ledger"]

ENTRIES: Final = 100_000
"""Entries that are kept; beyond that the oldest goes."""


@dataclass(slots=True)
class Entry:
    """One request. Times are real seconds since the server's start."""

    path: str
    received: float
    visit: Visit | None = None
    """None when the request was refused at once."""
    status: int | None = None
    writes: list[float] = field(default_factory=list)
    """When bytes of the body went to the socket."""
    sent_bytes: int = 0
    ended: float | None = None
    ending: Ending | None = None

    def wrote(self, now: float, size: int) -> None:
        """Bytes have gone out."""
        self.writes.append(now)
        self.sent_bytes += size

    def close(self, now: float, ending: Ending) -> None:
        """The reply is over. Only the first ending counts."""
        if self.ending is None:
            self.ended, self.ending = now, ending

    def to_dict(self, speed: float) -> dict[str, Any]:
        """Plain data; the system's own times are turned into real ones."""
        told: dict[str, Any] = {
            "path": self.path,
            "status": self.status,
            "received": self.received,
            "writes": list(self.writes),
            "bytes": self.sent_bytes,
            "ended": self.ended,
            "ending": None if self.ending is None else self.ending.value,
            "cost": 0.0,
        }
        visit = self.visit
        if visit is None:
            return told
        answer, began = visit.plan.answer, visit.started
        # A request that the system failed produced nothing, whatever had been planned for it.
        produced = began is not None and visit.plan.failure is None
        return told | {
            "request_id": f"req_{answer.id}",
            "model": answer.model,
            "stream": answer.ask.stream,
            "fate": visit.plan.journey.fate.value,
            "transient_faults": len(visit.plan.journey.pauses),
            "started": None if began is None else began / speed,
            "worker": visit.worker,
            "input_tokens": answer.input_tokens,
            "cached_tokens": answer.cached_tokens,
            "cache_write_tokens": answer.written_tokens,
            "output_tokens": answer.output_tokens if produced else 0,
            "reasoning_tokens": answer.reasoning_tokens if produced else 0,
            "cost": visit.cost,
        }


class Ledger:
    """All requests of one server, in order of arrival."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._entries: deque[Entry] = deque(maxlen=ENTRIES)
        self._count = 0

    def open(self, path: str, now: float) -> Entry:
        """A request has been read."""
        entry = Entry(path, now)
        self._entries.append(entry)
        self._count += 1
        return entry

    def to_dict(self) -> dict[str, Any]:
        """Plain data: all that is kept, and how many there were."""
        rows = [entry.to_dict(self._speed) for entry in self._entries]
        return {
            "speed": self._speed,
            "count": self._count,
            "cost": sum(row["cost"] for row in rows),
            "requests": rows,
        }
