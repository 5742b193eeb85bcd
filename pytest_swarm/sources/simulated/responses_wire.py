"""OpenAI Responses, as `POST /v1/responses` speaks them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from pytest_swarm.sources.simulated.answers import ANY_OBJECT
from pytest_swarm.sources.simulated.asking import Answer, Ask, Refused, bound_of, model_of, pieces_of
from pytest_swarm.sources.simulated.cache import Piece
from pytest_swarm.sources.simulated.chat_wire import error_object
from pytest_swarm.sources.simulated.wire import Scribe, encode, named_event, schema_of

__all__ = ["ResponsesWire"]


class ResponsesWire:
    """See `wire.Wire`."""

    def read(self, body: Mapping[str, Any]) -> Ask:
        """Instructions and `input` become the prompt, `text.format` the schema."""
        given = body.get("input")
        if not given or not isinstance(given, str | list):
            raise Refused(400, "input must be a text or a list that is not empty", "missing_required_parameter")
        pieces = [Piece(encode(body["tools"]))] if body.get("tools") else []
        if body.get("instructions"):
            pieces += pieces_of("system", body["instructions"])
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
            if isinstance(item, dict) and "content" in item:
                pieces += pieces_of(str(item.get("role")), item["content"])
            else:
                pieces.append(Piece(encode(item)))
        text = body.get("text")
        return Ask(
            model_of(body),
            pieces,
            stream=body.get("stream") is True,
            max_tokens=bound_of(body, "max_output_tokens"),
            schema=schema_of(text.get("format") if isinstance(text, dict) else None, "text.format", ANY_OBJECT),
        )

    def document(self, answer: Answer) -> bytes:
        """A ``response``."""
        return encode(_response(answer, _status(answer), [_item(answer)])).encode()

    def scribe(self, answer: Answer) -> Scribe:
        """``response.created`` to ``response.completed``, numbered."""
        return _ResponsesScribe(answer)

    def error(self, refused: Refused) -> bytes:
        """``{"error": {"message", "type", "param", "code"}}``."""
        return encode({"error": error_object(refused)}).encode()

    def error_event(self, refused: Refused) -> bytes:
        """An ``error`` event."""
        said = {"type": "error", "code": refused.code, "message": refused.message, "param": None, "sequence_number": 0}
        return named_event("error", said)


class _ResponsesScribe:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._numbers = itertools.count()
        self._place = {"item_id": f"msg_{answer.id}", "output_index": 0, "content_index": 0}

    def opening(self) -> bytes:
        item = {**_item(self._answer), "status": "in_progress", "content": []}
        return (
            self._event("response.created", {"response": _response(self._answer, "in_progress", [])})
            + self._event("response.output_item.added", {"output_index": 0, "item": item})
            + self._event("response.content_part.added", {**self._place, "part": _part("")})
        )

    def piece(self, text: str) -> bytes:
        return self._event("response.output_text.delta", {**self._place, "delta": text, "logprobs": []})

    def closing(self) -> bytes:
        answer, status = self._answer, _status(self._answer)
        return (
            self._event("response.output_text.done", {**self._place, "text": answer.text, "logprobs": []})
            + self._event("response.content_part.done", {**self._place, "part": _part(answer.text)})
            + self._event("response.output_item.done", {"output_index": 0, "item": _item(answer)})
            + self._event(f"response.{status}", {"response": _response(answer, status, [_item(answer)])})
        )

    def _event(self, name: str, fields: dict[str, Any]) -> bytes:
        return named_event(name, {"type": name, "sequence_number": next(self._numbers), **fields})


def _status(answer: Answer) -> str:
    return "incomplete" if answer.cut else "completed"


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item(answer: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "status": _status(answer),
        "content": [_part(answer.text)],
    }


def _response(answer: Answer, status: str, output: list[Any]) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": answer.created,
        "model": answer.model,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": None,
        "metadata": {},
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None if status == "in_progress" else _usage(answer),
    }


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens, "cache_write_tokens": answer.written_tokens},
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "cost": answer.cost,
    }
