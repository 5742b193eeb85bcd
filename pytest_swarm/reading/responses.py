"""OpenAI Responses: typed events around the items of one response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from pytest_swarm.reading.complaint import Complaint, find_complaint
from pytest_swarm.reading.draft import Draft, Pieces, as_dict, as_list, as_text

__all__ = ["ResponsesDraft"]

_REASONING_DELTAS: Final = frozenset({"response.reasoning_text.delta", "response.reasoning_summary_text.delta"})
_CALL_DELTAS: Final = frozenset({"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"})
_CLIENT_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items that ask the client for something, and the field that holds what they pass."""

_CALL_FIELDS: Final = frozenset({"type", "id", "call_id", "name"})
_FINAL: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


class ResponsesDraft(Draft):
    """One ``response``.

    This wire has no finish reason. It is the status (``completed``), but ``function_call`` when the response asks for
    calls, and the reason of `incomplete_details` (``max_output_tokens``) when it is incomplete.
    """

    wire: ClassVar[str] = "responses"
    end_mark: ClassVar[str] = "response.completed"

    def event(self, offset: float, name: str, data: dict[str, Any]) -> None:
        """Take one event; its `type` counts, the name of the event stands in where there is none."""
        kind = as_text(data.get("type")) or name
        delta = as_text(data.get("delta"))
        if kind == "response.output_text.delta":
            self._piece(offset, self.text, delta)
        elif kind in _REASONING_DELTAS:
            self._piece(offset, self.reasoning, delta)
        elif kind in _CALL_DELTAS:
            if delta:
                self.call_piece(_key(data.get("output_index")), delta)
                self.chunk(offset, output=True)
        elif kind == "response.refusal.delta":
            self._piece(offset, self.refusal, delta)
        elif kind == "response.output_item.added":
            self._item(offset, data.get("output_index"), as_dict(data.get("item")))
        elif kind == "error" or data.get("error"):
            self.complaint = self.complaint or find_complaint(data if data.get("error") else {"error": data})
        elif isinstance(data.get("response"), dict):
            if kind in _FINAL:
                self._final(offset, data["response"])
            else:
                self._describe(data["response"])

    def document(self, body: dict[str, Any]) -> bool:
        """Take a ``response`` object."""
        if isinstance(body.get("output"), list) or body.get("object") == "response":
            _, output = self._whole(body)
            self.has_output |= output
            self._finish(body)
            return True
        self.complaint = find_complaint(body)
        return self.complaint is not None

    def finished_call(self, fields: dict[str, Any], arguments: str) -> dict[str, Any]:
        """A ``function_call`` item."""
        return {**fields, _CLIENT_CALLS[fields["type"]]: arguments}

    def _piece(self, offset: float, pieces: Pieces, delta: str) -> None:
        if delta:
            self.keep(pieces, delta)
            self.chunk(offset, output=pieces is not self.reasoning)

    def _item(self, offset: float, index: object, item: dict[str, Any]) -> None:
        """An item begins; one that is a call is generated with its name already."""
        if self._call_item(index, item):
            self.chunk(offset, output=True)

    def _call_item(self, index: object, item: dict[str, Any]) -> bool:
        """Take an item if it is a call of the model's, one of the client's functions or of the server's tools."""
        kind = as_text(item.get("type"))
        if not kind.endswith("_call"):
            return False
        if kind in _CLIENT_CALLS:
            fields = {key: value for key, value in item.items() if key in _CALL_FIELDS}
            self.whole_call(_key(index), fields, item.get(_CLIENT_CALLS[kind]))
        return True

    def _final(self, offset: float, response: dict[str, Any]) -> None:
        """The last event repeats the whole response: what was not streamed arrives with it."""
        streamed = self.has_output
        generated, output = self._whole(response)
        if (output and not streamed) or (generated and not self.chunks):
            self.chunk(offset, output=output)
        self._finish(response)

    def _whole(self, response: dict[str, Any]) -> tuple[bool, bool]:
        """Take the items of a response: whether they hold a generated piece, and one that is not reasoning."""
        known = {id(pieces) for pieces in (self.text, self.reasoning, self.refusal) if pieces}
        generated = output = False
        for place, item in enumerate(as_list(response.get("output"))):
            item = as_dict(item)
            output |= self._call_item(place, item)
            for pieces, text in self._texts(item):
                generated = True
                output |= pieces is not self.reasoning
                if id(pieces) not in known:
                    self.keep(pieces, text)
        return generated or output, output

    def _texts(self, item: dict[str, Any]) -> Iterator[tuple[Pieces, str]]:
        kinds = {"output_text": ("text", self.text), "refusal": ("refusal", self.refusal)}
        if item.get("type") == "reasoning":
            kinds = dict.fromkeys(("summary_text", "reasoning_text"), ("text", self.reasoning))
        for part in [*as_list(item.get("summary")), *as_list(item.get("content"))]:
            key, pieces = kinds.get(as_text(as_dict(part).get("type")), ("", self.text))
            text = as_text(as_dict(part).get(key))
            if text:
                yield pieces, text

    def _describe(self, response: dict[str, Any]) -> None:
        self.identify(response)
        self.service_tier = as_text(response.get("service_tier")) or self.service_tier
        if isinstance(response.get("usage"), dict):
            self.usage = response["usage"]

    def _finish(self, response: dict[str, Any]) -> None:
        self._describe(response)
        self.ended = True
        status = as_text(response.get("status"))
        if response.get("error"):
            self.complaint = find_complaint(response)
        elif status in {"failed", "cancelled"}:
            self.complaint = Complaint(code=status)
        if status == "incomplete":
            status = as_text(as_dict(response.get("incomplete_details")).get("reason")) or status
        elif status in {"", "completed"}:
            status = "function_call" if self.calls_tools else "completed"
        self.finish_reason = status


def _key(index: object) -> int:
    return index if isinstance(index, int) else 0
