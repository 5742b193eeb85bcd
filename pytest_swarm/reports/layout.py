"""Lines of the terminal summary: labelled figures and columns that fit a width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pytest_swarm.reports.figures import cells, ellipsis_end, ellipsis_middle, one_line

__all__ = ["BODY", "GAP", "Line", "ends", "flow", "labelled", "model_heads", "simulated_lines", "table", "wrapped"]

BODY: Final = 12
"""The column in which the text of a labelled line starts."""
GAP: Final = "   "
"""Between columns."""


class Line(NamedTuple):
    """A line of text with the markup flags of a terminal writer (`{"red": True}`)."""

    text: str
    markup: Mapping[str, bool] = {}


def labelled(label: str, lines: Sequence[str], markup: Mapping[str, bool] | None = None) -> Iterator[Line]:
    """Lines under one label, which stands on the first of them."""
    for position, line in enumerate(lines):
        head = f"  {label}" if position == 0 else ""
        yield Line(f"{head:<{BODY}}{line}".rstrip(), markup or {})


def flow(items: Sequence[str], width: int) -> list[str]:
    """Items side by side, on as many lines of `width` as they need; an item is never parted, only cut when alone."""
    lines: list[str] = []
    for item in items:
        if lines and cells(lines[-1]) + len(GAP) + cells(item) <= width:
            lines[-1] += GAP + item
        else:
            lines.append(ellipsis_end(item, width))
    return lines


def wrapped(text: str, width: int, most: int = 4) -> list[str]:
    """Prose on at most `most` lines of `width`."""
    lines: list[str] = []
    words = one_line(text).split()
    while words:
        word = words.pop(0)
        if lines and cells(lines[-1]) + 1 + cells(word) <= width:
            lines[-1] += " " + word
        elif len(lines) == most:
            lines[-1] = ellipsis_end(" ".join([lines[-1], word, *words]), width)
            break
        else:
            lines.append(ellipsis_end(word, width))
    return lines


def table(rows: Sequence[Sequence[str]], aligned: str) -> list[str]:
    """Rows in columns; `aligned` has `<` or `>` for every column."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    return [GAP.join(_padded(*cell) for cell in zip(row, widths, aligned, strict=True)).rstrip() for row in rows]


def _padded(text: str, width: int, align: str) -> str:
    padding = " " * (width - cells(text))
    return padding + text if align == ">" else text + padding


def simulated_lines(width: int) -> Iterator[Line]:
    """What stands over every table of figures that no model has, in capitals and colour."""
    for line in wrapped("SIMULATED: figures of simulated gateways, not of models", width - 2):
        yield Line(f"  {line}", {"yellow": True, "bold": True})


def ends(left: str, right: str, width: int) -> str:
    """Two texts at the two ends of a line."""
    return f"{left}{' ' * max(1, width - cells(left) - cells(right))}{right}"


def model_heads(models: Sequence[str], widest: int, width: int) -> tuple[dict[str, str], list[Line]]:
    """What stands over the column of each model, and lines to read it by.

    A model's name, unless one of them has more than `widest` columns: then all are numbered, with a line of at most
    `width` for each.
    """
    heads = {model: one_line(model) for model in models}
    if max(map(cells, heads.values())) <= widest:
        return heads, []
    numbers = {model: f"({position})" for position, model in enumerate(models, 1)}
    return numbers, [
        Line(f"  {numbers[model]} {ellipsis_middle(name, width - 5 - len(numbers[model]))}")
        for model, name in heads.items()
    ]
