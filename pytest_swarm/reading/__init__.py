"""What an exchange means. Pure, and the same for live, replayed and simulated replies: no I/O, no clock, no loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.exchange import Reader, ReaderFactory
from pytest_swarm.reading.chat import ChatDraft
from pytest_swarm.reading.draft import Draft
from pytest_swarm.reading.messages import MessagesDraft
from pytest_swarm.reading.reader import ReplyReader
from pytest_swarm.reading.responses import ResponsesDraft

__all__ = ["WIRES", "reader_factory", "wire_of"]

_DRAFTS: Final[Mapping[str, Callable[[], Draft]]] = {
    "chat": ChatDraft,
    "messages": MessagesDraft,
    "responses": ResponsesDraft,
}
_SUFFIXES: Final = {"/chat/completions": "chat", "/messages": "messages", "/responses": "responses"}

WIRES: Final = tuple(_DRAFTS)
"""The formats that can be read: OpenAI chat completions, Anthropic Messages, OpenAI Responses."""


def wire_of(url_path: str) -> str | None:
    """The wire that is spoken at a path (a query behind it does not matter), or None where no model call goes to."""
    path = url_path.partition("?")[0].partition("#")[0].rstrip("/")
    return next((wire for suffix, wire in _SUFFIXES.items() if path.endswith(suffix)), None)


def reader_factory(wire: str, *, keep_raw: bool = True) -> ReaderFactory:
    """Makes readers of replies on `wire`; `keep_raw` keeps the parsed body of a reply that was not streamed."""
    draft = _DRAFTS.get(wire)
    if draft is None:
        raise SettingError(f"wire {wire!r} is unknown; allowed are {', '.join(WIRES)}{nearest(wire, WIRES)}")

    def reader(status: int, headers: Mapping[str, str]) -> Reader:
        return ReplyReader(draft(), status, headers, keep_raw=keep_raw)

    return reader
