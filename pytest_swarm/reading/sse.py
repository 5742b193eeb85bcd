"""Server-sent events from bytes, as the WHATWG standard has them (HTML, section 9.2.6), fed in pieces of any size.

Lines end with LF, CRLF or CR and with nothing else: U+2028 and U+0085 are text. Time is linear in the bytes, however
they are split, and memory is bounded by the largest event that is kept.
"""

from __future__ import annotations

from typing import Final, TypeAlias

__all__ = ["EVENT_BYTES", "Event", "EventDecoder"]

EVENT_BYTES: Final = 16 * 2**20
"""The largest event that is kept; a larger one is dropped and counted."""

Event: TypeAlias = tuple[str, str]
"""Name (empty where the stream gives none) and data. A plain tuple: one is made for every chunk of every stream."""

_BOM: Final = b"\xef\xbb\xbf"


class EventDecoder:
    """An incremental decoder. `dropped` counts the events that were larger than `event_bytes`."""

    def __init__(self, event_bytes: int = EVENT_BYTES) -> None:
        self.dropped = 0
        self._limit = event_bytes
        self._pending = bytearray()
        self._pending_size = 0
        """Bytes of the unfinished event; more than are in `_pending` once it is too large to be kept."""
        self._after_cr = False
        self._after_lf = False
        self._at_start = True

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes."""
        if self._after_cr or b"\r" in data:
            data = self._with_lf(data)
        events: list[Event] = []
        if self._pending_size:
            begin = self._finish_pending(data, events)
            if begin < 0:
                return events
            data = data[begin:]
        elif self._at_start and data.startswith(b"\n"):
            self._at_start = False
        blocks = data.split(b"\n\n")
        rest = blocks.pop()
        for block in blocks:
            self._dispatch(block.lstrip(b"\n"), events)
        if rest:
            self._hold(rest.lstrip(b"\n"))
        return events

    def finish(self) -> Event | None:
        """The event that the end of the stream left without its blank line; the standard would discard it."""
        events: list[Event] = []
        if self._pending_size:
            if self._after_lf:
                del self._pending[-1:]
                self._pending_size -= 1
            self._dispatch_pending(events)
        return events[0] if events else None

    def _with_lf(self, data: bytes) -> bytes:
        """`data` with all line ends turned into LF; a CR at the end counts at once, and swallows an LF to come."""
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if data:
            self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _finish_pending(self, data: bytes, events: list[Event]) -> int:
        """Where in `data` the event after the unfinished one begins, or -1 when it goes on beyond `data`."""
        if self._after_lf and data.startswith(b"\n"):
            del self._pending[-1:]
            self._pending_size -= 1
            self._dispatch_pending(events)
            return 1
        end = data.find(b"\n\n")
        if end < 0:
            self._hold(data)
            return -1
        self._hold(data[:end])
        self._dispatch_pending(events)
        return end + 2

    def _hold(self, data: bytes) -> None:
        """Keep `data` as the unfinished event, with room for an LF that may turn out to end its last line."""
        if not data:
            return
        self._pending_size += len(data)
        self._after_lf = data.endswith(b"\n")
        if self._pending_size <= self._limit + 1:
            self._pending += data
        else:
            self._pending.clear()

    def _dispatch_pending(self, events: list[Event]) -> None:
        if self._pending_size > self._limit:
            self.dropped += 1
            self._at_start = False
        else:
            self._dispatch(bytes(self._pending), events)
        self._pending.clear()
        self._pending_size = 0

    def _dispatch(self, block: bytes, events: list[Event]) -> None:
        """Add the event of the lines of `block`, which a blank line follows."""
        at_start, self._at_start = self._at_start, False
        if len(block) > self._limit:
            self.dropped += 1
            return
        if at_start:
            block = block.removeprefix(_BOM)
        if block.startswith(b"data: ") and b"\n" not in block:
            events.append(("", block[6:].decode("utf-8", "replace")))
        elif block:
            _parse(block, events)


def _parse(block: bytes, events: list[Event]) -> None:
    """The general case: any fields in any order. A blank line can only stand at an end of `block`."""
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    if data:
        events.append((name.decode("utf-8", "replace"), b"\n".join(data).decode("utf-8", "replace")))
