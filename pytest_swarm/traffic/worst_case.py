"""What a request may cost at most, told from its body before it is sent.

The input is bounded and not guessed: a token of the tokenisers in use stands for at least one byte of text, and the
JSON around a message has more bytes than a chat template adds tokens, so that the bytes of the whole body are never
fewer than its tokens. For English text that is some four times too many. The usual guess, characters / 4, is too few
for digits, code and most other scripts, and a ceiling that holds must not be. The output is bounded by what the request
names (`max_tokens`, `max_completion_tokens`, `max_output_tokens`), reasoning included.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pytest_swarm.judging.rates import Rates, Tariff

__all__ = ["ASSUMED_OUTPUT_TOKENS", "TOOL_PROMPT_TOKENS", "WorstCase", "worst_case"]

ASSUMED_OUTPUT_TOKENS: Final = 4096
"""Reserved for a reply that the request does not bound."""
TOOL_PROMPT_TOKENS: Final = 1024
"""Reserved beside the body of a request with tools; vendors add up to some 800 tokens of instructions of their own."""

_BOUNDS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_MEDIA: Final = ("image", "audio", "video", "file", "document")
_OWN_TOOLS: Final = (None, "function", "custom")
"""Types of tools that the client runs itself."""
_ELSEWHERE: Final = ("previous_response_id", "conversation", "prompt")
"""Keys by which a request refers to a prompt that the gateway keeps."""
_USUAL_SERVICE: Final = (None, "default", "standard_only")
_MILLION: Final = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The most that one request may cost, as far as its body tells."""

    amount: Decimal
    """US dollars."""
    input_tokens: int
    output_tokens: int
    """Of all choices (`n`) together."""
    guesses: tuple[str, ...] = ()
    """What the body does not tell, so that the request may cost more; empty when the amount is a bound."""


def worst_case(body: bytes, tariffs: Iterable[Tariff]) -> WorstCase | None:
    """The worst case of a request under whichever of `tariffs` is the dearest.

    None when no tariff has a rate for both input and output: then nothing is known.
    """
    fields = _parsed(body)
    input_tokens = len(body) + (TOOL_PROMPT_TOKENS if fields.get("tools") else 0)
    bound = max((value for name in _BOUNDS if (value := _natural(fields.get(name)))), default=None)
    output_tokens = (bound or ASSUMED_OUTPUT_TOKENS) * (_natural(fields.get("n")) or 1)
    caches_1h = b"cache_control" in body
    amounts = [
        input_tokens * dearest_input + output_tokens * dearest_output
        for tariff in tariffs
        for rates in _reachable(tariff, input_tokens, fields.get("service_tier"))
        if (dearest_input := _dearest_input(rates, caches_1h=caches_1h)) is not None
        and (dearest_output := _dearest(rates.output, rates.reasoning)) is not None
    ]
    if not amounts:
        return None
    return WorstCase(max(amounts) / _MILLION, input_tokens, output_tokens, tuple(_guesses(fields, bound)))


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _natural(value: object) -> int | None:
    """A whole number above 0; some servers take others for no bound at all."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _reachable(tariff: Tariff, input_tokens: int, service: object) -> Iterator[Rates]:
    """Rates that the request may be billed by: of any prompt up to its size, in any way of processing it may get."""
    yield tariff.base
    yield from (rates for above, rates in tariff.tiers if input_tokens > above)
    if service not in _USUAL_SERVICE:
        for name, special in tariff.services:
            if service in (name, "auto"):
                yield from _reachable(special, input_tokens, None)


def _dearest_input(rates: Rates, *, caches_1h: bool) -> Decimal | None:
    if rates.input is None:
        return None
    written_1h = rates.cache_write_1h if caches_1h else None
    return _dearest(rates.input, rates.cache_read, rates.cache_write, written_1h)


def _dearest(rate: Decimal | None, *others: Decimal | None) -> Decimal | None:
    return None if rate is None else max([rate, *(other for other in others if other is not None)])


def _guesses(fields: Mapping[str, Any], bound: int | None) -> Iterator[str]:
    if bound is None:
        yield "no max_tokens"
    if any(_has_media(fields.get(name)) for name in ("messages", "input", "system")):
        yield "images, sound or files in the prompt"
    if any(fields.get(name) is not None for name in _ELSEWHERE):
        yield "a prompt kept at the gateway"
    tools = fields.get("tools")
    if isinstance(tools, list) and any(isinstance(tool, dict) and tool.get("type") not in _OWN_TOOLS for tool in tools):
        yield "tools that may run at the gateway"


def _has_media(value: object) -> bool:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            kind = one.get("type")
            if isinstance(kind, str) and any(media in kind for media in _MEDIA):
                return True
            waiting.extend(one.values())
    return False
