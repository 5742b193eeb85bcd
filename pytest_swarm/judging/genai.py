"""Rates of public models from the package `genai-prices`: its data, priced by our own calculator.

Only a name that stands in the data, letter by letter, is a public model: the package's own search takes a house model
``claude-sonnet-4-5-mine`` for Anthropic's.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cached_property
from importlib import metadata
from typing import Any, Final

from pytest_swarm.judging.rates import SERVICE_TIERS, Rates, Tariff

__all__ = ["GenaiRates"]

_KEYS: Final = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "reasoning": "output_reasoning_mtok",
}
"""What our rates are called there."""

_MORE: Final = ("requests_kcount", "output_citation_mtok")
"""What replies cost beside their tokens, and a reply does not tell: a model with one of these is not priced."""

_PREFIXES: Final = {
    "bedrock": "aws",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "mistralai": "mistral",
    "moonshot": "moonshotai",
    "together_ai": "together",
    "vertex_ai": "google",
    "xai": "x-ai",
}
"""How LiteLLM and others spell providers in front of a model."""

_DATED: Final = re.compile(r"(.+)-20\d\d-?[01]\d-?[0-3]\d")
"""The name of a release of a model: it costs what the model costs."""


class GenaiRates:
    """What `genai-prices` knew models to cost on one day, so that a figure does not depend on when it is looked at.

    The data takes some 0.2 s to load: that is done by the first `find`, so ask for a model before anything is timed.
    Where the package is not installed, no model is known.
    """

    name: Final = "genai-prices"

    def __init__(self, on: date, base_url: str | None = None) -> None:
        """`base_url` is where the calls go: at a provider's own address its rates hold, and no others."""
        self.on = on
        self._base_url = base_url
        self._known: dict[str, Tariff | None] = {}

    @property
    def note(self) -> str:
        """The day and the version that the rates are of, for a report."""
        return f"prices of public models as of {self.on.isoformat()} (genai-prices {metadata.version('genai-prices')})"

    def find(self, model: str) -> Tariff | None:
        """The rates of ``provider/model``, or of ``model`` from its own maker; None when it is no known name."""
        if model not in self._known:
            self._known[model] = self._look_up(model.lower())
        return self._known[model]

    @cached_property
    def _providers(self) -> dict[str, Any]:
        try:
            data = importlib.import_module("genai_prices.data_snapshot")
        except ModuleNotFoundError:
            return {}
        return {provider.id: provider for provider in data.get_snapshot().providers}

    @cached_property
    def _at_base_url(self) -> list[Any]:
        url = self._base_url or ""
        return [provider for provider in self._providers.values() if re.match(provider.api_pattern, url)]

    def _look_up(self, model: str) -> Tariff | None:
        for provider, name in self._meant(model):
            found = self._exactly(provider, name)
            if found is not None:
                return self._tariff(found)
        return None

    def _meant(self, model: str) -> Iterator[tuple[Any, str]]:
        """Providers, each with the name that the model would have there, by where it is asked for and how it is named.

        Leading parts of the name that are no provider are those of a proxy; what follows them must name one.
        """
        if self._at_base_url:
            yield from ((provider, model) for provider in self._at_base_url)
            return
        prefix, slash, rest = model.partition("/")
        if not slash:
            makers = (one for one in self._providers.values() if one.model_match and one.model_match.is_match(model))
            yield from ((maker, model) for maker in makers)
        while slash:
            provider = self._providers.get(_PREFIXES.get(prefix, prefix))
            if provider is not None:
                yield provider, rest
                return
            prefix, slash, rest = rest.partition("/")

    def _exactly(self, provider: Any, name: str) -> Any:
        """The model of that very name, at the provider or at those whose models it offers at their prices."""
        others = [self._providers.get(one) for one in provider.fallback_model_providers or ()]
        dated = _DATED.fullmatch(name)
        for spelling in (name, dated[1]) if dated else (name,):
            for one in (provider, *filter(None, others)):
                for model in one.models:
                    if spelling == model.id.lower() or spelling in _spellings(model.match):
                        return model
        return None

    def _tariff(self, model: Any) -> Tariff | None:
        when = datetime.combine(self.on, time(12), tzinfo=UTC)
        usual = model.get_prices(when)
        if any(getattr(usual, key, None) for key in _MORE):
            return None
        services = []
        for tier in SERVICE_TIERS:
            context = {"processing": "batch"} if tier == "batch" else {"service_tier": tier}
            if any(variant.when == context and _active(variant, when) for variant in model.price_variants or ()):
                services.append((tier, _sized(model.get_prices(when, context))))
        plain = _sized(usual)
        return Tariff(plain.base, plain.tiers, tuple(services))


def _active(variant: Any, when: datetime) -> bool:
    return variant.constraint is None or bool(variant.constraint.active(when))


def _spellings(clause: Any) -> Iterator[str]:
    """The names that a clause compares with; one that looks for a part of a name has none."""
    whole = getattr(clause, "equals", None)
    if whole is not None:
        yield whole.lower()
    for inner in getattr(clause, "or_", ()):
        yield from _spellings(inner)


def _sized(prices: Any) -> Tariff:
    """Rates that are a number for every prompt, or a number and steps by the size of the whole prompt."""
    known = {ours: getattr(prices, theirs, None) for ours, theirs in _KEYS.items()}
    figures = {name: figure for name, figure in known.items() if figure is not None}
    steps = sorted({tier.start for figure in figures.values() for tier in getattr(figure, "tiers", ())})

    def at(above: int) -> Rates:
        return Rates(**{name: _figure(figure, above) for name, figure in figures.items()})

    return Tariff(at(0), tuple((step, at(step)) for step in steps))


def _figure(figure: Any, above: int) -> Decimal:
    if isinstance(figure, Decimal):
        return figure
    reached = [tier.price for tier in figure.tiers if tier.start <= above]
    return Decimal(reached[-1] if reached else figure.base)
