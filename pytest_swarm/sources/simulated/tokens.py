"""How many tokens a request has, and how many a reply gets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Final

from pytest_swarm.judging.rates import Rates, Tariff
from pytest_swarm.sources.simulated.profile import Prices, Tokens

__all__ = ["CHARACTERS", "Length", "cost_of", "draw_length", "tariff_of", "tokens_in"]

CHARACTERS: Final = 4
"""Characters of a token: what vendors give as a rule of thumb for English text. Nothing here depends on a tokeniser."""


def tokens_in(text: str) -> int:
    """An estimate of the tokens of `text`."""
    return math.ceil(len(text) / CHARACTERS)


@dataclass(frozen=True, slots=True)
class Length:
    """How long a reply is: `wanted` output tokens, of which the request allows `given`."""

    wanted: int
    given: int

    @property
    def cut(self) -> bool:
        """Whether the request's bound ends the reply early."""
        return self.given < self.wanted

    @property
    def share(self) -> float:
        """The part of the reply that is given."""
        return self.given / self.wanted

    def cut_text(self, text: str) -> str:
        """The beginning of `text` that fits: never empty, and of a cut reply never the whole."""
        if not self.cut:
            return text
        return text[: min(max(1, round(len(text) * self.share)), max(1, len(text) - 1), self.given * CHARACTERS)]


def draw_length(tokens: Tokens, max_tokens: int | None, random: Random) -> Length:
    """The length of one reply: even over the mean give or take its spread, bounded by `max_tokens`."""
    wanted = max(1, round(tokens.output_mean * (1 + tokens.output_spread * (2 * random.random() - 1))))
    return Length(wanted, wanted if max_tokens is None else min(wanted, max_tokens))


def cost_of(prices: Prices, *, input_tokens: int, cached_tokens: int, written_tokens: int, output_tokens: int) -> float:
    """US dollars. `input_tokens` includes those that were read from the cache and those that were written to it."""
    write = prices.input if prices.cache_write is None else prices.cache_write
    plain = input_tokens - cached_tokens - written_tokens
    million = (
        plain * prices.input
        + cached_tokens * prices.cached_input
        + written_tokens * write
        + output_tokens * prices.output
    )
    return round(million / 1e6, 12)


def tariff_of(prices: Prices) -> Tariff:
    """The same prices as rates that any usage can be priced with."""
    write = prices.input if prices.cache_write is None else prices.cache_write
    figures = {"input": prices.input, "output": prices.output, "cache_read": prices.cached_input, "cache_write": write}
    return Tariff(Rates(**{name: Decimal(repr(figure)) for name, figure in figures.items()}))
