"""A prompt cache: what a system remembers of the beginnings of prompts.

A prompt is a list of pieces (tool definitions, system text, messages, in order). Each piece is cut into blocks, and the
hash of a block includes everything before it: two prompts share a hash exactly as far as they agree from their start.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_swarm.sources.simulated.profile import Cache
from pytest_swarm.sources.simulated.tokens import CHARACTERS, tokens_in

__all__ = ["Piece", "Prefix", "PromptCache", "prefixes_of"]

ENTRIES: Final = 100_000
"""Prefixes that a cache holds at most; beyond that the one that was used longest ago is dropped."""

_BORDER: Final = b"\xff"
"""Stands between pieces, so that ("ab", "c") and ("a", "bc") are two prompts: no UTF-8 text has this byte."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a prompt. `marked`: the request asks to cache up to its end (``cache_control``)."""

    text: str
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of a prompt: what identifies it, and how many tokens it has."""

    digest: bytes
    tokens: int
    marked: bool


def prefixes_of(pieces: Iterable[Piece], block_tokens: int) -> list[Prefix]:
    """Every prefix of a prompt that ends with a block, shortest first."""
    found: list[Prefix] = []
    size = block_tokens * CHARACTERS
    running = hashlib.blake2b(digest_size=16)
    tokens = 0
    for piece in pieces:
        running.update(_BORDER)
        for begin in range(0, len(piece.text), size):
            block = piece.text[begin : begin + size]
            running.update(block.encode("utf-8", "surrogatepass"))
            tokens += tokens_in(block)
            found.append(Prefix(running.digest(), tokens, piece.marked and begin + size >= len(piece.text)))
    return found


class PromptCache:
    """Prefixes that are remembered until they have not been used for the time to live."""

    def __init__(self, profile: Cache) -> None:
        self._profile = profile
        self._entries: OrderedDict[bytes, tuple[float, float]] = OrderedDict()
        """From when and until when a prefix can be read; the one that was used last stands last."""

    def read(self, prefixes: Sequence[Prefix], now: float) -> int:
        """Tokens of the longest prefix that is remembered; 0 when there is none."""
        for prefix in reversed(prefixes):
            if prefix.tokens < self._profile.min_tokens:
                break
            ready, expires = self._entries.get(prefix.digest, (0.0, 0.0))
            if ready <= now < expires:
                self._remember(prefix, ready, now)
                return prefix.tokens
        return 0

    def write(self, prefixes: Sequence[Prefix], now: float, ready: float) -> None:
        """Remember, from `ready` on, the prefixes that are long enough; where some are marked, these only."""
        for prefix in self.writable(prefixes):
            before, expires = self._entries.get(prefix.digest, (ready, 0.0))
            # One that is there already is not taken away until this request has been worked on.
            self._remember(prefix, min(before, ready) if now < expires else ready, ready)
        while len(self._entries) > ENTRIES:
            self._entries.popitem(last=False)

    def writable(self, prefixes: Sequence[Prefix]) -> list[Prefix]:
        """Those of `prefixes` that `write` remembers, shortest first."""
        marked = [prefix for prefix in prefixes if prefix.marked]
        return [prefix for prefix in marked or prefixes if prefix.tokens >= self._profile.min_tokens]

    def _remember(self, prefix: Prefix, ready: float, used: float) -> None:
        self._entries[prefix.digest] = ready, used + self._profile.ttl_seconds
        self._entries.move_to_end(prefix.digest)
