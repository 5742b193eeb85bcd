"""What a model's tokens cost, per million and in tiers; all in decimals, since binary fractions are no money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.records import Usage

__all__ = ["SERVICE_TIERS", "Rates", "Tariff", "Unpriced", "parse_tariff"]

SERVICE_TIERS: Final = ("batch", "fast", "flex", "priority", "scale")
"""Ways of processing that vendors bill by rates of their own."""

_MILLION: Final = Decimal(1_000_000)
_SPOKEN: Final = {"cache_read": "cache", "cache_write": "cache write", "cache_write_1h": "1-hour cache write"}


class Unpriced(Exception):
    """A usage cannot be priced; the text says why.

    Attributes:
        key: what a price table would have to hold; empty when no price would help.
    """

    def __init__(self, text: str, key: str = "") -> None:
        super().__init__(text)
        self.key = key


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars per million tokens; None where a rate is not known."""

    input: Decimal | None = None
    output: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None
    reasoning: Decimal | None = None
    """For reasoning tokens where they do not cost what other output does."""


@dataclass(frozen=True, slots=True)
class Tariff:
    """The rates of one model, and those that hold for a prompt of more than so many input tokens, by that number."""

    base: Rates
    tiers: tuple[tuple[int, Rates], ...] = ()
    services: tuple[tuple[str, Tariff], ...] = ()
    """What holds in place of all this for replies of a service tier, by its name."""

    def price(self, usage: Usage) -> Decimal:
        """US dollars of one reply.

        Raises:
            Unpriced: the usage is not complete, or has tokens of a kind whose rate is not known.
        """
        if usage.input_tokens is None or usage.output_tokens is None:
            raise Unpriced("the reply told no usage")
        if usage.service_tier is not None:
            return self._of_service(usage.service_tier).price(replace(usage, service_tier=None))
        rates = self._at(usage.input_tokens)
        cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
        written_1h = min(usage.cache_write_1h_tokens or 0, written)
        plain = usage.input_tokens - cached - written
        if plain < 0:
            raise Unpriced("the reply told more cached tokens than input tokens")
        reasoning = min(usage.reasoning_tokens or 0, usage.output_tokens) if rates.reasoning is not None else 0
        parts = (
            ("input", rates.input, plain),
            ("cache_read", rates.cache_read, cached),
            ("cache_write", rates.cache_write, written - written_1h),
            ("cache_write_1h", rates.cache_write_1h, written_1h),
            ("output", rates.output, usage.output_tokens - reasoning),
            ("reasoning", rates.reasoning, reasoning),
        )
        total = Decimal(0)
        for kind, rate, tokens in parts:
            if tokens and rate is None:
                raise Unpriced(f"{_SPOKEN.get(kind, kind)} rate unknown", kind)
            total += (rate or Decimal(0)) * tokens
        return total / _MILLION

    def _of_service(self, tier: str) -> Tariff:
        for name, tariff in self.services:
            if name == tier:
                return tariff
        raise Unpriced(f"no rates of the service tier {tier!r}", tier if tier in SERVICE_TIERS else "")

    def _at(self, input_tokens: int) -> Rates:
        """The rates for a prompt of this size: the whole prompt picks the tier."""
        fitting = [rates for above, rates in self.tiers if input_tokens > above]
        return fitting[-1] if fitting else self.base


_RATES: Final = tuple(rate.name for rate in fields(Rates))


def parse_tariff(table: object, where: str) -> Tariff:
    """The rates of one model as a user writes them: per million tokens, with `tiers` that override some.

    A table by the name of one of the `SERVICE_TIERS` holds the rates of replies that were processed in that way; what
    it leaves out is not known.

    Raises:
        SettingError: a key or value is not allowed; the sentence begins with `where`.
    """
    keys = _keys(table, where, (*_RATES, "tiers", *SERVICE_TIERS))
    services = tuple((name, _plain_tariff(keys.pop(name), f"{where} {name}")) for name in SERVICE_TIERS if name in keys)
    return replace(_plain_tariff(keys, where), services=services)


def _plain_tariff(table: object, where: str) -> Tariff:
    keys = _keys(table, where, (*_RATES, "tiers"))
    if not {"input", "output"} <= keys.keys():
        raise SettingError(f"{where} needs input and output, US dollars per million tokens; 0 where it is free")
    base = Rates(**{key: _rate(value, f"{where} {key}") for key, value in keys.items() if key != "tiers"})
    tiers = keys.get("tiers", [])
    if not isinstance(tiers, list | tuple):
        raise SettingError(f"{where} tiers: {tiers!r} is no list; say [{{above = 200000, input = 4, output = 15}}]")
    return Tariff(
        base, tuple(sorted((_tier(tier, base, f"{where} tiers") for tier in tiers), key=lambda tier: tier[0]))
    )


def _tier(table: object, base: Rates, where: str) -> tuple[int, Rates]:
    keys = _keys(table, where, ("above", *_RATES))
    above = keys.pop("above", None)
    if not isinstance(above, int) or isinstance(above, bool) or above < 0:
        raise SettingError(f"{where}: above is {above!r}; say the number of input tokens above which the tier holds")
    if not keys:
        raise SettingError(f"{where}: the tier above {above} changes no rate; allowed are {', '.join(_RATES)}")
    return above, replace(base, **{key: _rate(value, f"{where} {key}") for key, value in keys.items()})


def _keys(table: object, where: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise SettingError(f"{where} is {table!r}; say a table such as {{input = 2.5, output = 10}}")
    for key in table:
        if key not in allowed:
            hint = nearest(str(key), allowed)
            raise SettingError(f"{where}: unknown key {key!r}; allowed are {', '.join(allowed)}{hint}")
    return dict(table)


def _rate(value: object, where: str) -> Decimal:
    if isinstance(value, str | int | float | Decimal) and not isinstance(value, bool):
        try:
            rate = Decimal(str(value))
        except InvalidOperation:
            rate = Decimal("NaN")
        if rate.is_finite() and rate >= 0:
            return rate
    raise SettingError(f"{where} is {value!r}; say US dollars per million tokens, 0 or more, such as 2.5")
