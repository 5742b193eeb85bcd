"""Token usage: every vendor's object read into one `records.Usage`.

The vendors differ in what includes what. Here `input_tokens` always includes tokens read from and written to a cache,
and `output_tokens` always includes reasoning. What an object does not say, or says with something that is no whole
number, is unknown, never 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pytest_swarm.records import Usage

__all__ = ["header_cost", "read_usage"]

TICKS_PER_DOLLAR: Final = 10_000_000_000
"""The unit of xAI's `cost_in_usd_ticks`."""

USUAL_TIERS: Final = frozenset({"auto", "default", "on_demand", "standard"})
"""What the vendors call the processing that their list prices are for."""

_NOTHING: Final = Usage()

_ANTHROPIC_KEYS: Final = ("cache_creation_input_tokens", "cache_read_input_tokens")


def read_usage(raw: object, wire: str = "chat", service_tier: str | None = None) -> Usage | None:
    """The usage object of a reply on `wire`; None when it is none, or says nothing.

    `service_tier` is what stands beside it in the reply; most wires have it there, Anthropic's has it inside.

    The shape is told by the keys, since gateways pass on foreign ones; the wire decides where the keys do not:
    ``messages`` counts its cache tokens beside `input_tokens`, the others inside.
    """
    if not isinstance(raw, dict):
        return None
    counts = _Counts(raw)
    if isinstance(raw.get("usageMetadata"), dict):
        counts = _Counts(raw["usageMetadata"])
    if "promptTokenCount" in counts.raw or "candidatesTokenCount" in counts.raw:
        usage = _gemini(counts)
    elif _is_anthropic(raw, wire):
        usage = _anthropic(counts)
    else:
        usage = _openai(counts)
    usage.reported_cost = _reported_cost(raw)
    usage.notes = tuple(counts.notes)
    if usage == _NOTHING:
        return None
    usage.service_tier = _special(raw.get("service_tier") or service_tier)
    return usage


def header_cost(headers: Mapping[str, str]) -> float | None:
    """US dollars that LiteLLM reports in a header; it is right for replies that were not streamed only."""
    try:
        return _money(float(headers.get("x-litellm-response-cost", "")))
    except ValueError:
        return None


class _Counts:
    """Lookups in a usage object that accept nothing but whole numbers, and note what they do not accept."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.notes: list[str] = []

    def find(self, *path: str) -> int | None:
        """The count at a path of keys."""
        value: object = self.raw.get(path[0])
        for key in path[1:]:
            if value is None:
                return None
            value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        self.notes.append(f"usage: {'.'.join(path)} is no count of tokens")
        return None

    def first(self, *paths: tuple[str, ...]) -> int | None:
        """The first known count among the paths."""
        for path in paths:
            count = self.find(*path)
            if count is not None:
                return count
        return None

    def largest(self, *paths: tuple[str, ...]) -> int | None:
        """The largest known count: where one figure is given twice, gateways leave one of the two at 0."""
        return max([count for path in paths if (count := self.find(*path)) is not None], default=None)

    def unusable(self, key: str) -> bool:
        """Whether there is something at `key` that is no count."""
        return self.raw.get(key) is not None and self.find(key) is None


def _is_anthropic(raw: dict[str, Any], wire: str) -> bool:
    if "prompt_tokens" in raw or "completion_tokens" in raw:
        return False
    return wire == "messages" or (any(key in raw for key in _ANTHROPIC_KEYS) and "input_tokens_details" not in raw)


def _anthropic(counts: _Counts) -> Usage:
    """`input_tokens` leaves out what was read from and written to the cache: the total is the sum of the three."""
    plain = counts.find("input_tokens")
    short, long = (counts.find("cache_creation", f"ephemeral_{life}_input_tokens") for life in ("5m", "1h"))
    written, read = (counts.find(key) for key in _ANTHROPIC_KEYS)
    unknown = any(counts.unusable(key) for key in _ANTHROPIC_KEYS)
    if written is None and short is not None and long is not None:
        written = short + long
    if written is not None and short is not None and long is not None and short + long != written:
        counts.notes.append(f"usage: cache lifetimes {short} + {long} are not the {written} tokens written")
        long = None
    if not unknown and (written is not None or read is not None):
        # Either figure speaks for a server that counts its cache: the one it leaves out is nothing.
        written, read = written or 0, read or 0
    total = None if plain is None or unknown else _sum(plain, read, written)
    reasoning = counts.find("output_tokens_details", "thinking_tokens")
    return Usage(total, counts.find("output_tokens"), read, written, long, reasoning)


def _gemini(counts: _Counts) -> Usage:
    """Google's own shape: thoughts stand beside the candidates, tool prompts beside the prompt."""
    prompt = counts.find("promptTokenCount")
    prompt = None if prompt is None else _sum(prompt, counts.find("toolUsePromptTokenCount"))
    answer, thoughts = counts.find("candidatesTokenCount"), counts.find("thoughtsTokenCount")
    output = None if answer is None and thoughts is None else _sum(answer, thoughts)
    if thoughts and prompt is not None and counts.find("totalTokenCount") == _sum(prompt, answer):
        counts.notes.append("usage: thoughts are counted inside the candidates")
        output = answer
    return Usage(prompt, output, counts.find("cachedContentTokenCount"), reasoning_tokens=thoughts)


def _openai(counts: _Counts) -> Usage:
    """OpenAI's two shapes and what is built after them: details are parts of the totals, with known exceptions."""
    prompt = counts.first(("prompt_tokens",), ("input_tokens",))
    output = counts.first(("completion_tokens",), ("output_tokens",))
    details = ("prompt_tokens_details", "input_tokens_details")
    read = counts.largest(
        *((part, "cached_tokens") for part in details),
        ("cached_tokens",),
        ("prompt_cache_hit_tokens",),
        ("cache_read_input_tokens",),
    )
    written = counts.largest(
        *((part, key) for part in details for key in ("cache_write_tokens", "cache_creation_tokens")),
        ("cache_creation_input_tokens",),
    )
    long = counts.largest(
        ("cache_creation", "ephemeral_1h_input_tokens"),
        ("prompt_tokens_details", "cache_creation_token_details", "ephemeral_1h_input_tokens"),
    )
    reasoning = counts.first(
        ("completion_tokens_details", "reasoning_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
        ("reasoning_tokens",),
    )
    output = _with_reasoning(counts, prompt, output, reasoning)
    if prompt is not None and _sum(read, written) > prompt:
        counts.notes.append(
            f"usage: {_sum(read, written)} cache tokens are not part of the {prompt} prompt tokens: added"
        )
        prompt = _sum(prompt, read, written)
    return Usage(prompt, output, read, written, long, reasoning)


def _with_reasoning(counts: _Counts, prompt: int | None, output: int | None, reasoning: int | None) -> int | None:
    """The output with reasoning in it: the total tells whether it was left out (xAI, Gemini behind a gateway)."""
    total = counts.find("total_tokens")
    if total is None or prompt is None or output is None or total == prompt + output:
        return output
    if reasoning is not None and total == prompt + output + reasoning:
        counts.notes.append("usage: reasoning is reported outside the completion: added")
        return output + reasoning
    counts.notes.append(f"usage: total_tokens {total} is not prompt {prompt} + completion {output}")
    return output


def _special(service_tier: object) -> str | None:
    """The name of a tier that is billed by its own rates; a text that can be no name is none."""
    named = isinstance(service_tier, str) and re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", service_tier.lower())
    return named[0] if named and named[0] not in USUAL_TIERS else None


def _reported_cost(raw: dict[str, Any]) -> float | None:
    ticks = raw.get("cost_in_usd_ticks")
    if isinstance(ticks, int) and not isinstance(ticks, bool):
        return _money(ticks / TICKS_PER_DOLLAR)
    cost = raw.get("cost")
    return _money(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None


def _money(amount: float) -> float | None:
    return float(amount) if math.isfinite(amount) and amount >= 0 else None


def _sum(*counts: int | None) -> int:
    known: Iterable[int] = (count for count in counts if count is not None)
    return sum(known)
