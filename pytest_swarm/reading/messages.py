"""Anthropic Messages: content blocks that start, grow and stop."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final

from pytest_swarm.reading.complaint import find_complaint
from pytest_swarm.reading.draft import Draft, as_dict, as_list, as_text

__all__ = ["MessagesDraft"]

_TOOL_BLOCKS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Blocks that are the model's own calls; only `tool_use` asks the client for something."""


class MessagesDraft(Draft):
    """One ``message``; its `stop_reason` is the finish reason."""

    wire: ClassVar[str] = "messages"
    end_mark: ClassVar[str] = "message_stop"

    def event(self, offset: float, name: str, data: dict[str, Any]) -> None:
        """Take one event; its `type` counts, the name of the event stands in where there is none."""
        kind = as_text(data.get("type")) or name
        if kind == "content_block_delta":
            self._delta(offset, data.get("index"), as_dict(data.get("delta")))
        elif kind == "content_block_start":
            self._block(offset, data.get("index"), as_dict(data.get("content_block")))
        elif kind == "message_delta":
            self._stop(as_dict(data.get("delta")))
            self._merge_usage(data.get("usage"))
        elif kind == "message_start":
            message = as_dict(data.get("message"))
            self.identify(message)
            self._stop(message)
            self._merge_usage(message.get("usage"))
        elif kind == "message_stop":
            self.ended = True
        elif kind == "error" or data.get("error"):
            self.complaint = self.complaint or find_complaint(data if data.get("error") else {"error": data})

    def document(self, body: dict[str, Any]) -> bool:
        """Take a ``message`` object."""
        self.identify(body)
        self._merge_usage(body.get("usage"))
        if body.get("error") or not isinstance(body.get("content"), list):
            self.complaint = find_complaint(body)
            return self.complaint is not None
        for place, block in enumerate(as_list(body["content"])):
            _, output = self._open(place, as_dict(block))
            self.has_output |= output
        self._stop(body)
        self.ended = True
        return True

    def finished_call(self, fields: dict[str, Any], arguments: str) -> dict[str, Any]:
        """A ``tool_use`` block. An input that is no JSON stays the text that it is."""
        if not arguments:
            return fields
        try:
            return {**fields, "input": json.loads(arguments)}
        except (ValueError, RecursionError):
            return {**fields, "input": arguments}

    def _stop(self, holder: dict[str, Any]) -> None:
        self.finish_reason = as_text(holder.get("stop_reason")) or self.finish_reason

    def _merge_usage(self, usage: object) -> None:
        """Counts are cumulative, and an event repeats, replaces or leaves out what came before: the last one wins."""
        if isinstance(usage, dict):
            self.usage = {**(self.usage or {}), **{key: value for key, value in usage.items() if value is not None}}

    def _block(self, offset: float, index: object, block: dict[str, Any]) -> None:
        generated, output = self._open(index, block)
        if generated:
            self.chunk(offset, output=output)

    def _open(self, index: object, block: dict[str, Any]) -> tuple[bool, bool]:
        """Take what a block holds from its start: whether that is a generated piece, and one that is not reasoning."""
        kind = as_text(block.get("type"))
        if kind in _TOOL_BLOCKS:
            if kind == "tool_use":
                self.open_call(_key(index), {key: block.get(key) for key in ("type", "id", "name", "input")})
            return True, True
        text, thought = as_text(block.get("text")), as_text(block.get("thinking"))
        return self._grow(text if kind == "text" else "", thought if kind == "thinking" else "")

    def _delta(self, offset: float, index: object, delta: dict[str, Any]) -> None:
        kind = delta.get("type")
        if kind == "input_json_delta":
            piece = as_text(delta.get("partial_json"))
            if piece:
                self.call_piece(_key(index), piece)
                self.chunk(offset, output=True)
            return
        generated, output = self._grow(as_text(delta.get("text")), as_text(delta.get("thinking")))
        if generated:
            self.chunk(offset, output=output)

    def _grow(self, text: str, thought: str) -> tuple[bool, bool]:
        if text:
            self.keep(self.text, text)
            return True, True
        if thought:
            self.keep(self.reasoning, thought)
            return True, False
        return False, False


def _key(index: object) -> int:
    return index if isinstance(index, int) else 0
