"""The reducer behind `exchange.Reader`: bytes of a body go in, a `records.Reading` comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Final

from pytest_swarm.exchange import Ending
from pytest_swarm.reading.body import Body, Document, EventStream, Failure
from pytest_swarm.reading.complaint import evidence
from pytest_swarm.reading.draft import Draft
from pytest_swarm.reading.usage import header_cost, read_usage
from pytest_swarm.records import Reading, Usage

__all__ = ["ReplyReader"]

_REQUEST_ID_HEADERS: Final = ("x-request-id", "request-id", "x-litellm-call-id", "apim-request-id", "cf-ray")
_BOM: Final = b"\xef\xbb\xbf"
_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")
_BLANKS_HELD: Final = 1024


class ReplyReader:
    """Reads one reply into `draft`. The first bytes say what kind of body it is; the content type where they don't.

    Args:
        draft: an empty draft of the wire.
        status: of the reply.
        headers: of the reply, names in lower case.
        keep_raw: whether the reading keeps the parsed body of a reply that was not streamed.
    """

    def __init__(self, draft: Draft, status: int, headers: Mapping[str, str], *, keep_raw: bool = True) -> None:
        self._draft = draft
        self._status = status
        self._headers = headers
        self._keep_raw = keep_raw
        self._declared = headers.get("content-type", "").lower()
        self._head = bytearray()
        self._body: Body | None = None if 200 <= status < 300 else Failure(draft, status)

    @property
    def first_token(self) -> float | None:
        """Offset of the first generated piece so far, or None."""
        return self._draft.first_token

    @property
    def pieces(self) -> list[str]:
        """The pieces of visible text in order of arrival, as far as they are kept."""
        return self._draft.text.kept

    def feed(self, offset: float, data: bytes) -> None:
        """Take the bytes that arrived `offset` seconds after the send."""
        if self._body is not None:
            self._body.feed(offset, data)
        elif data:
            self._head += data
            self._body = self._choose_body()
            if self._body is not None:
                self._body.feed(offset, bytes(self._head))
                self._head.clear()

    def finish(self, ending: Ending, error: str) -> Reading:
        """The meaning of all that was fed. Call once."""
        body: Body | None = self._body
        if body is None:
            body = EventStream(self._draft) if self._declares_stream else Document(self._draft, self._declared)
            if self._head:
                body.feed(0.0, bytes(self._head))
        outcome, detail = body.outcome(ending, error)
        draft = self._draft
        draft.settle()
        return Reading(
            outcome=outcome,
            detail=detail,
            first_token=draft.first_token,
            first_output=draft.first_output,
            last_content=draft.last_content,
            gaps=draft.gaps,
            text=draft.text.join(),
            reasoning=draft.reasoning.join(),
            refusal=draft.refusal.join(),
            tool_calls=draft.tool_calls(),
            finish_reason=draft.finish_reason,
            usage=self._usage(streamed=isinstance(body, EventStream)),
            model=draft.model,
            request_id=self._request_id(),
            raw=body.raw if self._keep_raw else None,
            notes=tuple(draft.notes),
        )

    @property
    def _declares_stream(self) -> bool:
        return "text/event-stream" in self._declared

    def _choose_body(self) -> Body | None:
        """The kind of body; None as long as it cannot be told."""
        kind = _sniff(self._head, declares_stream=self._declares_stream)
        if kind is _Kind.UNKNOWN:
            if len(self._head) > _BLANKS_HELD and not self._head.strip():
                self._head.clear()
            return None
        if (kind is _Kind.STREAM) is not self._declares_stream and self._declared:
            shown = evidence(self._declared)
            self._draft.notes.append(f"the content type says {shown}, the body is {kind.value}")
        return EventStream(self._draft) if kind is _Kind.STREAM else Document(self._draft, self._declared)

    def _usage(self, *, streamed: bool) -> Usage | None:
        usage = read_usage(self._draft.usage, self._draft.wire, self._draft.service_tier)
        cost = None if streamed else header_cost(self._headers)
        if cost is None or (usage is not None and usage.reported_cost is not None):
            return usage
        return replace(usage or Usage(), reported_cost=cost)

    def _request_id(self) -> str | None:
        named = (self._headers.get(name) for name in _REQUEST_ID_HEADERS)
        return next(filter(None, named), None) or self._draft.id


class _Kind(Enum):
    STREAM = "an event stream"
    DOCUMENT = "no event stream"
    UNKNOWN = "not to be told yet"


def _sniff(head: bytearray, *, declares_stream: bool) -> _Kind:
    """What a body is by its first bytes; the declaration counts where they fit both."""
    start = bytes(head).removeprefix(_BOM).lstrip()
    if not start or (len(head) < len(_BOM) and _BOM.startswith(head)):
        return _Kind.UNKNOWN
    if declares_stream:
        return _Kind.DOCUMENT if start[:1] in (b"{", b"[", b"<") else _Kind.STREAM
    if start.startswith(_FIELDS):
        return _Kind.STREAM
    return _Kind.UNKNOWN if any(field.startswith(start) for field in _FIELDS) else _Kind.DOCUMENT
