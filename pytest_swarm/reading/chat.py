"""OpenAI chat completions, and what the many servers that speak it make of it."""

from __future__ import annotations

from typing import Any, ClassVar

from pytest_swarm.reading.complaint import find_complaint
from pytest_swarm.reading.draft import Draft, Pieces, as_dict, as_list, as_text

__all__ = ["ChatDraft"]


class ChatDraft(Draft):
    """Text and finish reason are those of choice 0; timing counts the pieces of every choice."""

    wire: ClassVar[str] = "chat"
    end_mark: ClassVar[str] = "[DONE]"

    def __init__(self) -> None:
        super().__init__()
        self._running: set[int] = set()
        """Other choices than the first that have begun and not finished."""
        self._latest_call: object = 0

    @property
    def complete(self) -> bool:
        """With several choices, all of them must have finished."""
        return self.ended or (self.finish_reason is not None and not self._running)

    def event(self, offset: float, name: str, data: dict[str, Any]) -> None:
        """Take one chunk."""
        if self.id is None or self.model is None:
            self.identify(data)
        choices = data.get("choices")
        if "usage" in data or "x_groq" in data:
            self._take_usage(data)
        if name == "error" or "error" in data or not choices:
            self._look_for_complaint(name, data)
        if not isinstance(choices, list):
            return
        generated = output = False
        for choice in choices:
            if isinstance(choice, dict):
                made, shown = self._choice(choice)
                generated |= made
                output |= shown
        if generated:
            self.chunk(offset, output=output)

    def document(self, body: dict[str, Any]) -> bool:
        """Take a ``chat.completion`` object."""
        self.identify(body)
        self._take_usage(body)
        choices = [choice for choice in as_list(body.get("choices")) if isinstance(choice, dict)]
        if not choices:
            self.complaint = find_complaint(body)
            return self.complaint is not None
        if body.get("error"):
            self.complaint = find_complaint(body)
        for choice in choices:
            _, shown = self._choice({**choice, "delta": _numbered(as_dict(choice.get("message")))})
            self.has_output |= shown
        self.ended = True
        return True

    def finished_call(self, fields: dict[str, Any], arguments: str) -> dict[str, Any]:
        """``{"id", "type", "function": {"name", "arguments"}}``."""
        return {**fields, "function": {**fields["function"], "arguments": arguments}}

    def _choice(self, choice: dict[str, Any]) -> tuple[bool, bool]:
        """Take one choice of a chunk: whether it brought a generated piece, and one that is not reasoning."""
        index = choice.get("index")
        index = index if isinstance(index, int) else 0
        delta = choice.get("delta")
        generated = output = False
        if delta and isinstance(delta, dict):
            generated, output = self._delta(delta, first=index == 0)
        reason = choice.get("finish_reason")
        if reason and index == 0:
            self._finish(str(reason), choice)
        elif reason:
            self._running.discard(index)
        elif generated and index != 0:
            self._running.add(index)
        if choice.get("usage"):
            self._set_usage(choice["usage"])
        return generated, output

    def _delta(self, delta: dict[str, Any], *, first: bool) -> tuple[bool, bool]:
        content, thought = delta.get("content"), None
        if content and not isinstance(content, str):
            content, thought = _parts(content)
        thought = thought or delta.get("reasoning_content") or delta.get("reasoning")
        refusal = delta.get("refusal")
        output = bool(content) and self._grow(self.text, content, first=first)
        generated = bool(thought) and self._grow(self.reasoning, thought, first=first)
        if refusal:
            output |= self._grow(self.refusal, refusal, first=first)
        if delta.get("tool_calls") or delta.get("function_call"):
            output |= self._calls_of(delta, first=first)
        return generated or output, output

    def _grow(self, pieces: Pieces, piece: object, *, first: bool) -> bool:
        """Whether `piece` is a piece of text that is not empty; it is kept when it is of the first choice."""
        if not isinstance(piece, str) or not piece:
            return False
        if first:
            self.keep(pieces, piece)
        return True

    def _calls_of(self, delta: dict[str, Any], *, first: bool) -> bool:
        """Whether the delta calls a tool, in a piece that is not empty."""
        found = False
        for call in as_list(delta.get("tool_calls")):
            if isinstance(call, dict):
                found |= self._tool_call(call, first=first)
        legacy = delta.get("function_call")
        if legacy and isinstance(legacy, dict):
            found |= self._tool_call({"index": 0, "function": legacy}, first=first)
        return found

    def _tool_call(self, call: dict[str, Any], *, first: bool) -> bool:
        function = as_dict(call.get("function") or call.get("custom"))
        name, arguments = function.get("name"), function.get("arguments") or function.get("input")
        arguments = arguments if isinstance(arguments, str) else ""
        if not (name or arguments or call.get("id")):
            return False
        if first:
            # Servers that leave the index out give every call whole, or name it in its first piece.
            index = call.get("index")
            key = index if isinstance(index, int) else call.get("id") or self._latest_call
            self._latest_call = key = key if isinstance(key, int | str) else 0
            kind = call.get("type") or "function"
            self.open_call(key, {"id": call.get("id"), "type": kind, "function": {"name": name}})
            if arguments:
                self.call_piece(key, arguments)
        return True

    def _finish(self, reason: str, choice: dict[str, Any]) -> None:
        self.finish_reason = reason
        if reason == "error" or choice.get("error"):
            self.complaint = find_complaint(choice) or find_complaint({"error": "finish_reason error"})

    def _look_for_complaint(self, name: str, data: dict[str, Any]) -> None:
        found = find_complaint({"error": data} if name == "error" and not data.get("error") else data)
        self.complaint = self.complaint or found

    def _take_usage(self, data: dict[str, Any]) -> None:
        """The usage beside the choices, or where Groq puts it."""
        self._set_usage(data.get("usage") or as_dict(data.get("x_groq")).get("usage"))
        self.service_tier = as_text(data.get("service_tier")) or self.service_tier

    def _set_usage(self, usage: object) -> None:
        if usage and isinstance(usage, dict):
            self.usage = usage


def _numbered(message: dict[str, Any]) -> dict[str, Any]:
    """A whole message as a delta: there, tool calls carry the index that they have by their place here."""
    calls = [{**call, "index": place} for place, call in enumerate(as_list(message.get("tool_calls"))) if as_dict(call)]
    return {**message, "tool_calls": calls}


def _parts(content: object) -> tuple[str, str]:
    """Text and thoughts of a content that comes in parts, as Mistral's reasoning models write it."""
    text, thoughts = [], []
    for part in as_list(content):
        if isinstance(part, dict):
            if isinstance(part.get("text"), str):
                text.append(part["text"])
            thought = part.get("thinking")
            thoughts.append(thought if isinstance(thought, str) else _parts(thought)[0])
    return "".join(text), "".join(thoughts)
