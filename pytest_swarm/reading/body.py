"""The three kinds of body that a reply can have: a stream of events, one JSON document, the evidence of a failure."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, Final

from pytest_swarm.exchange import Ending
from pytest_swarm.reading.complaint import evidence
from pytest_swarm.reading.draft import Draft
from pytest_swarm.reading.outcome import first_object, parsed_json, reply_outcome, status_outcome
from pytest_swarm.reading.sse import EVENT_BYTES, EventDecoder

__all__ = ["DOCUMENT_BYTES", "FAILURE_BYTES", "Body", "Document", "EventStream", "Failure"]

DOCUMENT_BYTES: Final = 64 * 2**20
"""The largest body that is read as JSON."""

FAILURE_BYTES: Final = 64 * 2**10
"""What is kept of a body whose status is not 2xx."""

_EMPTY: Final = ("empty", "a 2xx status with an empty body")


class Body(ABC):
    """The body of one reply on its way into the draft."""

    raw: dict[str, Any] | None = None
    """The parsed body, when it is one JSON object."""

    @abstractmethod
    def feed(self, offset: float, data: bytes) -> None:
        """Take the bytes that arrived `offset` seconds after the send."""

    @abstractmethod
    def outcome(self, ending: Ending, error: str) -> tuple[str, str]:
        """Nothing more will come: outcome and evidence. Call once."""


class EventStream(Body):
    """A body of server-sent events."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._decoder = EventDecoder()
        self._offset = 0.0
        self._received = False
        self._good = self._bad = 0
        self._example = ""

    def feed(self, offset: float, data: bytes) -> None:
        self._offset = offset
        self._received |= bool(data)
        for name, text in self._decoder.feed(data):
            self._take(name, text)

    def outcome(self, ending: Ending, error: str) -> tuple[str, str]:
        tail = self._decoder.finish()
        bad_before = self._bad
        if tail is not None:
            self._take(*tail)
        draft = self._draft
        cut = self._bad > bad_before
        outcome, detail = reply_outcome(draft, ending, error, self._flaw())
        if tail is not None and not cut:
            draft.notes.append("the last event was not terminated")
        self._note_losses(cut=cut)
        if draft.complete and draft.complaint is None:
            if ending is not Ending.COMPLETE:
                draft.notes.append(f"{ending.value} after the reply was complete")
            elif not draft.ended:
                draft.notes.append(f"a finish reason without {draft.end_mark}")
        return outcome, detail

    def _take(self, name: str, text: str) -> None:
        draft = self._draft
        if draft.ended:
            return
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            if text.strip() == draft.end_mark:
                draft.ended = True
                return
            data = None
        if isinstance(data, dict):
            self._good += 1
            draft.event(self._offset, name, data)
        elif text.strip():
            self._bad += 1
            self._example = self._example or text[:1000]

    def _flaw(self) -> tuple[str, str] | None:
        if not self._received:
            return _EMPTY
        if self._bad and not self._good:
            return "malformed", f"no event of the stream is a JSON object: {evidence(self._example)}"
        return None

    def _note_losses(self, *, cut: bool) -> None:
        notes = self._draft.notes
        bad = self._bad - cut
        if bad:
            notes.append(f"{bad} event{'s' if bad > 1 else ''} without a JSON object: {evidence(self._example)[:80]}")
        if cut:
            notes.append("the last event was cut")
        if self._decoder.dropped:
            noun = "event" if self._decoder.dropped == 1 else "events"
            notes.append(f"{self._decoder.dropped} {noun} of more than {EVENT_BYTES // 2**20} MiB dropped")


class Document(Body):
    """A body that is one JSON object."""

    def __init__(self, draft: Draft, declared: str) -> None:
        self._draft = draft
        self._declared = declared
        self._body = bytearray()
        self._size = 0
        self._offset = 0.0

    def feed(self, offset: float, data: bytes) -> None:
        self._size += len(data)
        self._offset = offset
        if self._size <= DOCUMENT_BYTES:
            self._body += data
        else:
            self._body.clear()

    def outcome(self, ending: Ending, error: str) -> tuple[str, str]:
        draft = self._draft
        flaw = self._read()
        outcome, detail = reply_outcome(draft, ending, error, flaw)
        if draft.ended and draft.complaint is None:
            draft.last_content = self._offset
            if ending is not Ending.COMPLETE:
                draft.notes.append(f"{ending.value} after the reply was complete")
        return outcome, detail

    def _read(self) -> tuple[str, str] | None:
        """Bring the body into the draft; outcome and evidence when it is no reply."""
        if self._size > DOCUMENT_BYTES:
            note = f"a body of more than {DOCUMENT_BYTES // 2**20} MiB was dropped"
            self._draft.notes.append(note)
            return "malformed", note
        if not self._body.strip():
            return _EMPTY
        parsed = parsed_json(self._body)
        self.raw = first_object(parsed)
        if self.raw is not None and self._draft.document(self.raw):
            return None
        shown = evidence(self._body[:FAILURE_BYTES].decode("utf-8", "replace"))
        if parsed is None:
            return "malformed", f"not JSON ({evidence(self._declared) or 'no content type'}): {shown}"
        return "malformed", f"no reply of the {self._draft.wire} wire: {shown}"


class Failure(Body):
    """The body of a reply whose status is not 2xx: evidence. The status decides, however the exchange ended."""

    def __init__(self, draft: Draft, status: int) -> None:
        self._draft = draft
        self._status = status
        self._body = bytearray()

    def feed(self, offset: float, data: bytes) -> None:  # noqa: ARG002 - the signature of Body
        """Keep `data` as far as there is room."""
        self._body += data[: max(0, FAILURE_BYTES - len(self._body))]

    def outcome(self, ending: Ending, error: str) -> tuple[str, str]:  # noqa: ARG002 - the signature of Body
        """Read the evidence."""
        if ending is not Ending.COMPLETE:
            self._draft.notes.append(f"{ending.value} before the end of the error's body")
        outcome, detail, self.raw = status_outcome(self._status, bytes(self._body))
        return outcome, detail
