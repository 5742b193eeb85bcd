"""OpenAI chat completions, as `POST /v1/chat/completions` speaks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_swarm.sources.simulated.answers import ANY_OBJECT
from pytest_swarm.sources.simulated.asking import Answer, Ask, Refused, bound_of, model_of, pieces_of
from pytest_swarm.sources.simulated.cache import Piece
from pytest_swarm.sources.simulated.wire import Scribe, encode, event, schema_of

__all__ = ["ChatWire", "error_object"]

DONE: Final = b"data: [DONE]\n\n"


class ChatWire:
    """See `wire.Wire`."""

    def read(self, body: Mapping[str, Any]) -> Ask:
        """Messages become the prompt, `response_format` the schema."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise Refused(400, "messages must be a list that is not empty", "missing_required_parameter")
        if body.get("n") not in (None, 1):
            raise Refused(400, "n must be 1: a simulated system gives one choice", "unsupported_value")
        pieces = [Piece(encode(body["tools"]))] if body.get("tools") else []
        for message in messages:
            if not isinstance(message, dict):
                raise Refused(400, "each of messages must be an object", "invalid_type")
            pieces += pieces_of(str(message.get("role")), message.get("content"))
            if message.get("tool_calls"):
                pieces.append(Piece(encode(message["tool_calls"])))
        options = body.get("stream_options")
        return Ask(
            model_of(body),
            pieces,
            stream=body.get("stream") is True,
            include_usage=isinstance(options, dict) and options.get("include_usage") is True,
            max_tokens=bound_of(body, "max_completion_tokens", "max_tokens"),
            schema=schema_of(body.get("response_format"), "response_format", ANY_OBJECT),
        )

    def document(self, answer: Answer) -> bytes:
        """A ``chat.completion``."""
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": answer.text, "refusal": None},
            "logprobs": None,
            "finish_reason": _finish_reason(answer),
        }
        return encode({**_head(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}).encode()

    def scribe(self, answer: Answer) -> Scribe:
        """``chat.completion.chunk`` events."""
        return _ChatScribe(answer)

    def error(self, refused: Refused) -> bytes:
        """``{"error": {"message", "type", "param", "code"}}``."""
        return encode({"error": error_object(refused)}).encode()

    def error_event(self, refused: Refused) -> bytes:
        """The same as an event."""
        return event(encode({"error": error_object(refused)}))


class _ChatScribe:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        # All chunks of a stream begin alike; there are too many of them to build each from a dictionary.
        self._begin = "data: " + encode(_head(answer, "chat.completion.chunk"))[:-1]

    def opening(self) -> bytes:
        return self._chunk('{"role":"assistant","content":""}')

    def piece(self, text: str) -> bytes:
        return self._chunk(f'{{"content":{encode(text)}}}')

    def closing(self) -> bytes:
        end = self._chunk("{}", f'"{_finish_reason(self._answer)}"')
        if self._answer.ask.include_usage:
            end += f'{self._begin},"choices":[],"usage":{encode(_usage(self._answer))}}}\n\n'.encode()
        return end + DONE

    def _chunk(self, delta: str, finish_reason: str = "null") -> bytes:
        choice = f'{{"index":0,"delta":{delta},"finish_reason":{finish_reason}}}'
        return f'{self._begin},"choices":[{choice}]}}\n\n'.encode()


def error_object(refused: Refused) -> dict[str, Any]:
    """What OpenAI's APIs say about an error."""
    kind = "server_error" if refused.status >= 500 else _ERROR_TYPES.get(refused.status, "invalid_request_error")
    return {"message": refused.message, "type": kind, "param": None, "code": refused.code}


_ERROR_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": answer.created, "model": answer.model}


def _finish_reason(answer: Answer) -> str:
    return "length" if answer.cut else "stop"


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": answer.cached_tokens,
            "cache_write_tokens": answer.written_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        "cost": answer.cost,
    }
