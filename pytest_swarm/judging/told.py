"""Figures in sentences of a verdict."""

from __future__ import annotations

from decimal import Decimal

from pytest_swarm.judging.catalogue import Dimension

__all__ = ["told"]


def told(value: float, dimension: Dimension, threshold: float) -> str:
    """A figure with as many digits as it takes to tell it from the threshold."""
    scale = 100 if dimension is Dimension.SHARE else 1
    number = next(
        (text for digits in (4, 9) if (text := _plain(value * scale, digits)) != _plain(threshold * scale, digits)),
        _plain(value * scale, 17),
    )
    before = "$" if dimension is Dimension.DOLLARS else ""
    after = {Dimension.SECONDS: "s", Dimension.SHARE: "%", Dimension.PER_SECOND: "/s"}.get(dimension, "")
    return f"{before}{number}{after}"


def _plain(value: float, digits: int) -> str:
    """Without an exponent, and never fewer digits than a whole number has."""
    return f"{Decimal(f'{value:.{max(digits, len(str(int(abs(value)))))}g}'):f}"
