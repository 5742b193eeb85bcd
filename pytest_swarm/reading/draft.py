"""What has been understood of a reply so far: the part of the reading that the three wires share.

Memory is bounded: texts, tool calls and gaps are kept up to a limit, beyond which only timing goes on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from typing import Any, ClassVar, Final

from pytest_swarm.reading.complaint import Complaint

__all__ = ["GAPS_KEPT", "TEXT_KEPT", "Draft", "Pieces", "as_dict", "as_list", "as_text"]

TEXT_KEPT: Final = 8 * 2**20
"""Characters of one reply that are kept: content, reasoning, refusal and tool calls together."""

GAPS_KEPT: Final = 2**18
"""Gaps of one reply that are kept."""

SINGLE_PIECES: Final = 2**16
"""Pieces that are kept one by one; later ones are joined in blocks, since a short string costs ten times its text."""

BLOCK_PIECES: Final = 1024
CALL_COST: Final = 256
"""What one tool call takes of `TEXT_KEPT`, beside its text."""


def as_dict(value: object) -> dict[str, Any]:
    """`value` when it is a JSON object, else an empty one: a reply may hold anything anywhere."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """`value` when it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """`value` when it is a JSON string, else an empty one."""
    return value if isinstance(value, str) else ""


class Pieces:
    """A text that grows in pieces."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self._loose: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.kept)

    def add(self, piece: str) -> None:
        """Put `piece` at the end."""
        if len(self.kept) < SINGLE_PIECES:
            self.kept.append(piece)
            return
        self._loose.append(piece)
        if len(self._loose) >= BLOCK_PIECES:
            self.settle()

    def settle(self) -> None:
        """Bring into `kept` what waits to be joined."""
        if self._loose:
            self.kept.append("".join(self._loose))
            self._loose.clear()

    def join(self) -> str:
        """The whole text."""
        self.settle()
        return "".join(self.kept)


class Draft(ABC):
    """The state of one reply. A wire adds what its events and its documents mean.

    Times are offsets from the send in seconds.
    """

    wire: ClassVar[str]
    """`chat`, `messages` or `responses`."""
    end_mark: ClassVar[str]
    """What the wire calls the event after which nothing comes."""

    def __init__(self) -> None:
        self.first_token: float | None = None
        self.first_output: float | None = None
        self.last_content: float | None = None
        self.gaps: array[float] = array("d")
        self.chunks = 0
        """Chunks that carried at least one generated piece."""
        self.text = Pieces()
        self.reasoning = Pieces()
        self.refusal = Pieces()
        self.has_output = False
        """Whether anything but reasoning was generated."""
        self.finish_reason: str | None = None
        self.ended = False
        """Whether the end mark was seen, or a document was whole."""
        self.complaint: Complaint | None = None
        """An error that stood where a reply should."""
        self.model: str | None = None
        self.id: str | None = None
        self.usage: dict[str, Any] | None = None
        """The latest usage object, as the wire has it."""
        self.service_tier: str | None = None
        """What the reply, beside its usage, calls the way in which it was processed."""
        self.notes: list[str] = []
        self._calls: dict[object, tuple[dict[str, Any], Pieces]] = {}
        self._room = TEXT_KEPT

    @abstractmethod
    def event(self, offset: float, name: str, data: dict[str, Any]) -> None:
        """Take one event of a stream."""

    @abstractmethod
    def document(self, body: dict[str, Any]) -> bool:
        """Take the body of a reply that was not streamed; False when it is no reply of this wire."""

    @property
    def complete(self) -> bool:
        """Whether the model had said all it meant to say."""
        return self.ended or self.finish_reason is not None

    def chunk(self, offset: float, *, output: bool) -> None:
        """A generated piece arrived; `output` is False for a chunk of nothing but reasoning."""
        if self.last_content is None:
            self.first_token = offset
        elif self.chunks <= GAPS_KEPT:
            self.gaps.append(offset - self.last_content)
        self.last_content = offset
        self.chunks += 1
        if output and self.first_output is None:
            self.first_output = offset
            self.has_output = True

    def keep(self, pieces: Pieces, text: str) -> None:
        """Put `text` at the end of `pieces`, as far as there is room."""
        self._room -= len(text)
        if self._room >= 0:
            pieces.add(text)

    def open_call(self, key: object, fields: dict[str, Any]) -> None:
        """A tool call appears under `key`; `fields` is what is known of it beside its arguments."""
        if key not in self._calls and self._makes_room(CALL_COST):
            self._calls[key] = (fields, Pieces())

    def call_piece(self, key: object, arguments: str) -> None:
        """The arguments of the call `key` grow."""
        if key in self._calls and self._makes_room(len(arguments)):
            self._calls[key][1].add(arguments)

    def whole_call(self, key: object, fields: dict[str, Any], arguments: object) -> None:
        """The call `key` is told in one piece, perhaps again."""
        self.open_call(key, fields)
        if key in self._calls and not self._calls[key][1] and arguments and isinstance(arguments, str):
            self.call_piece(key, arguments)

    @property
    def calls_tools(self) -> bool:
        """Whether the reply asks the client to call something."""
        return bool(self._calls)

    def identify(self, data: dict[str, Any]) -> None:
        """Take the id and the model that `data` names, where none was named before."""
        for key in ("id", "model"):
            value = data.get(key)
            if isinstance(value, str) and value and not getattr(self, key):
                setattr(self, key, value[:256])

    def tool_calls(self) -> list[dict[str, Any]]:
        """The tool calls in their order of appearance, arguments joined, as the wire writes them."""
        return [self.finished_call(fields, pieces.join()) for fields, pieces in self._calls.values()]

    @abstractmethod
    def finished_call(self, fields: dict[str, Any], arguments: str) -> dict[str, Any]:
        """One tool call as the wire writes it in a document."""

    def settle(self) -> None:
        """Nothing more will come."""
        self.text.settle()
        if self._room < 0:
            self.notes.append(f"the reply's text was kept up to {TEXT_KEPT // 2**20} MiB and dropped beyond")
        if self.chunks > GAPS_KEPT + 1:
            self.notes.append(f"only the first {GAPS_KEPT} gaps between chunks were kept")

    def _makes_room(self, size: int) -> bool:
        """Take `size` of the room that is left; once something did not fit, nothing does."""
        self._room -= size
        return self._room >= 0
