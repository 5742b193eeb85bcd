"""How many tokens a request will come to, guessed before it is sent: for limits on tokens, which settle it afterwards.

A cost ceiling needs a bound (`traffic.worst_case`); a limit is kept best with what is likely. The input is taken as a
quarter of the body's bytes, the usual rule for English text. The output is what replies of the same model came to so
far, on average; before the first of them it is what the request allows.
"""

from __future__ import annotations

import json
from typing import Final

__all__ = ["FIRST_OUTPUT_TOKENS", "TokenGuess"]

FIRST_OUTPUT_TOKENS: Final = 512
"""Of a reply that the request does not bound, as long as no other is known."""

_BYTES_PER_TOKEN: Final = 4
_BOUNDS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class TokenGuess:
    """Learns from the replies of one run."""

    def __init__(self) -> None:
        self._seen: dict[str | None, tuple[int, int]] = {}
        """Replies and their output tokens, by model."""

    def tokens(self, model: str | None, body: bytes) -> int:
        """Input and output tokens of a request."""
        bound = _bound(body)
        replies, tokens = self._seen.get(model, (0, 0))
        likely = round(tokens / replies) if replies else bound or FIRST_OUTPUT_TOKENS
        return len(body) // _BYTES_PER_TOKEN + (likely if bound is None else min(likely, bound))

    def learn(self, model: str | None, output_tokens: int) -> None:
        """A reply is there."""
        replies, tokens = self._seen.get(model, (0, 0))
        self._seen[model] = (replies + 1, tokens + output_tokens)


def _bound(body: bytes) -> int | None:
    """The most output that the request allows; None where it does not say."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    named = (fields.get(name) for name in _BOUNDS)
    return max((value for value in named if type(value) is int and value > 0), default=None)
