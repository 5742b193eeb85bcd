"""Which measured model meets which workload, and by what margin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_swarm.reports.figures import cells, ellipsis_middle, figure, one_line
from pytest_swarm.reports.groups import Record, every_group
from pytest_swarm.reports.layout import Line, model_heads, simulated_lines, table, wrapped

__all__ = ["choice_lines", "choose", "margin", "measured_models"]

_REST_OF_ROW: Final = 34
"""Columns of a row that two models' names do not get: a criterion and gaps."""
_LONGEST_CRITERION: Final = 32
_WORDS: Final = {"meets": "MEETS", "fails": "fails", "unknown": "unknown", "not measurable": "not measurable"}
_LEGEND: Final = "margin: how far inside (+) or beyond (-) the threshold, in percent of it"

Markup = Mapping[str, bool]


def choose(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The `workloads` of the JSON report: for every test that ran to its end, every workload by model.

    Each is `{"test", "simulated", "workloads": [{"workload", "note", "models": {model: fit}}]}`; a fit has a
    `verdict` (``meets``, ``fails``, ``unknown``, ``not measurable``), the smallest `margin` and the `criteria`.
    """
    return [
        {
            "test": test,
            "simulated": any(record["simulated"] for record in by_model.values()),
            "workloads": _by_workload({model: record["workloads"] for model, record in by_model.items()}),
        }
        for test, by_model in every_group(records)
        if any(record["workloads"] for record in by_model.values())
    ]


def _by_workload(fits: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for model, of_model in fits.items():
        for fit in of_model:
            rest = {key: fit[key] for key in ("verdict", "margin", "criteria")}
            entry = {"workload": fit["workload"], "note": fit["note"], "models": {}}
            found.setdefault(fit["workload"], entry)["models"][model] = rest
    return list(found.values())


def measured_models(choice: Mapping[str, Any]) -> list[str]:
    """The models of one entry of `choose`."""
    return list(dict.fromkeys(model for workload in choice["workloads"] for model in workload["models"]))


# --- for the terminal -------------------------------------------------------------------------------------------------


def choice_lines(choice: Mapping[str, Any], width: int) -> Iterator[Line]:
    """The lines of one test of `choose`, none of them wider than `width`: a column per model, a row per criterion.

    Models that do not fit beside the others follow below.
    """
    yield Line(ellipsis_middle(one_line(choice["test"]), width), {"bold": True})
    if choice["simulated"]:
        yield from simulated_lines(width)
    yield from (Line(f"  {line}") for line in wrapped(_LEGEND, width - 2))
    models = measured_models(choice)
    heads, legend = model_heads(models, (width - _REST_OF_ROW) // 2, width)
    yield from legend
    while models:
        many = len(models)
        while many > 1 and max(cells(line.text) for line in _rows(choice, heads, models[:many], width)) > width:
            many -= 1
        yield from _rows(choice, heads, models[:many], width)
        models = models[many:]


def _rows(choice: Mapping[str, Any], heads: Mapping[str, str], models: Sequence[str], width: int) -> list[Line]:
    rows: list[tuple[list[str], Markup, str]] = [(["", *(heads[model] for model in models)], {}, "")]
    for workload in choice["workloads"]:
        fits = [workload["models"].get(model) for model in models]
        verdicts = ["-" if fit is None else _WORDS[fit["verdict"]] for fit in fits]
        rows.append(([one_line(workload["workload"]), *verdicts], _markup(fits), ""))
        rows += ((row, {}, "") for row in _criteria(fits))
        rows[-1] = (*rows[-1][:2], workload["note"])
    room = min(_LONGEST_CRITERION, width // 2)
    texts = table([[ellipsis_middle(row[0], room), *row[1:]] for row, _, _ in rows], "<" + ">" * len(models))
    lines: list[Line] = []
    for text, (_, markup, note) in zip(texts, rows, strict=True):
        lines.append(Line(f"  {text}", markup))
        lines += (Line(f"    {part}") for part in wrapped(note, width - 4))
    return lines


def _criteria(fits: Sequence[Mapping[str, Any] | None]) -> list[list[str]]:
    """One row per criterion: what it asks for, then what each model has."""
    asked = next(fit["criteria"] for fit in fits if fit is not None)
    return [
        [
            f"  {one_line(criterion['criterion'])}",
            *("-" if fit is None else _observed(fit["criteria"][position]) for fit in fits),
        ]
        for position, criterion in enumerate(asked)
    ]


def _observed(criterion: Mapping[str, Any]) -> str:
    if criterion["verdict"] == "not measurable":
        return "not measurable"
    text = figure(criterion["metric"], criterion["observed"])
    return text if criterion["margin"] is None else f"{text} {margin(criterion['margin']):>5}"


def margin(fraction: float) -> str:
    """`+12%`, `-0.4%`, `+0%`, `-3.5x`: the sign says on which side of the threshold, whatever it rounds to."""
    sign, size = ("+" if fraction >= 0 else "-"), abs(fraction)
    if size >= 9.995:
        return f"{sign}{size:.0f}x"
    percent = size * 100
    return f"{sign}{percent:.0f}%" if percent >= 9.95 or not percent else f"{sign}{percent:.1f}%"


def _markup(fits: Sequence[Mapping[str, Any] | None]) -> Markup:
    verdicts = {fit["verdict"] for fit in fits if fit is not None}
    if "meets" in verdicts:
        return {"green": True, "bold": True}
    return {"red": True, "bold": True} if verdicts == {"fails"} else {"yellow": True, "bold": True}
