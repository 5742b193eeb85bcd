"""Anthropic Messages, as `POST /v1/messages` speaks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_swarm.sources.simulated.answers import ANY_OBJECT
from pytest_swarm.sources.simulated.asking import Answer, Ask, Refused, bound_of, model_of, pieces_of
from pytest_swarm.sources.simulated.cache import Piece
from pytest_swarm.sources.simulated.wire import Scribe, encode, named_event, schema_of

__all__ = ["MessagesWire"]


class MessagesWire:
    """See `wire.Wire`."""

    def read(self, body: Mapping[str, Any]) -> Ask:
        """Tools, `system` and messages become the prompt, `output_config.format` the schema."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise Refused(400, "messages: a list that is not empty is required", "invalid_request_error")
        bound = bound_of(body, "max_tokens")
        if bound is None:
            raise Refused(400, "max_tokens: is required", "invalid_request_error")
        pieces = [
            Piece(encode(tool), isinstance(tool, dict) and tool.get("cache_control") is not None)
            for tool in body.get("tools") or ()
        ]
        if body.get("system"):
            pieces += pieces_of("system", body["system"])
        for message in messages:
            if not isinstance(message, dict):
                raise Refused(400, "messages: each must be an object", "invalid_request_error")
            pieces += pieces_of(str(message.get("role")), message.get("content"))
        config = body.get("output_config")
        asked = (config.get("format") if isinstance(config, dict) else None) or body.get("output_format")
        return Ask(
            model_of(body),
            pieces,
            stream=body.get("stream") is True,
            max_tokens=bound,
            schema=schema_of(asked, "output_config.format", ANY_OBJECT),
        )

    def document(self, answer: Answer) -> bytes:
        """A ``message``."""
        text = [{"type": "text", "text": answer.text}]
        return encode(_message(answer, text, _stop_reason(answer), {**_input(answer), **_output(answer)})).encode()

    def scribe(self, answer: Answer) -> Scribe:
        """``message_start`` to ``message_stop``."""
        return _MessagesScribe(answer)

    def error(self, refused: Refused) -> bytes:
        """``{"type": "error", "error": {"type", "message"}}``."""
        return encode(_error(refused)).encode()

    def error_event(self, refused: Refused) -> bytes:
        """The same as an event."""
        return named_event("error", _error(refused))


class _MessagesScribe:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def opening(self) -> bytes:
        usage = {**_input(self._answer), "output_tokens": 1}
        start = named_event(
            "message_start", {"type": "message_start", "message": _message(self._answer, [], None, usage)}
        )
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        return start + named_event("content_block_start", block)

    def piece(self, text: str) -> bytes:
        delta = f'{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{encode(text)}}}}}'
        return f"event: content_block_delta\ndata: {delta}\n\n".encode()

    def closing(self) -> bytes:
        ended = {"stop_reason": _stop_reason(self._answer), "stop_sequence": None}
        return (
            named_event("content_block_stop", {"type": "content_block_stop", "index": 0})
            + named_event("message_delta", {"type": "message_delta", "delta": ended, "usage": _output(self._answer)})
            + named_event("message_stop", {"type": "message_stop"})
        )


def _message(answer: Answer, content: list[Any], stop_reason: str | None, usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def _stop_reason(answer: Answer) -> str:
    return "max_tokens" if answer.cut else "end_turn"


def _input(answer: Answer) -> dict[str, Any]:
    """On this wire, input does not include what was read from or written to the cache."""
    return {
        "input_tokens": answer.input_tokens - answer.cached_tokens - answer.written_tokens,
        "cache_creation_input_tokens": answer.written_tokens,
        "cache_read_input_tokens": answer.cached_tokens,
    }


def _output(answer: Answer) -> dict[str, Any]:
    return {"output_tokens": answer.output_tokens, "cost": answer.cost}


_ERROR_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


def _error(refused: Refused) -> dict[str, Any]:
    usual = "api_error" if refused.status >= 500 else "invalid_request_error"
    return {"type": "error", "error": {"type": _ERROR_TYPES.get(refused.status, usual), "message": refused.message}}
