"""What the measured costs come to at so many tasks a month, by model, and what one model saves over another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from pytest_swarm.judging.projection import MONTHS, Saving, monthly
from pytest_swarm.reports.figures import cells, ellipsis_middle, money, one_line, share
from pytest_swarm.reports.groups import Record, every_group
from pytest_swarm.reports.layout import GAP, Line, flow, simulated_lines, table, wrapped

__all__ = ["project", "projection_lines"]

_SHORTEST_NAME: Final = 8
_UNKNOWN: Final = {"monthly": None, "yearly": None, "share": None}


def project(records: Sequence[Record], tasks: int | None) -> dict[str, Any] | None:
    """The `projection` of the JSON report: every test at `tasks` a month; None when nobody asked for one.

    `{"tasks_per_month", "tests": [{"test", "simulated", "models": [...], "savings": [...]}]}`. A model has its
    `cost_per_task`, `cache_hit_rate`, `monthly` and `yearly`, and `without_cache`: the same in a world without prompt
    caches, with the `reason` where that is unknown. A saving is what the cheapest model saves over one of the others.
    """
    if tasks is None:
        return None
    tests = []
    for test, by_model in every_group(records):
        models = [_of_model(model, record, tasks) for model, record in by_model.items()]
        simulated = any(record["simulated"] for record in by_model.values())
        tests.append({"test": test, "simulated": simulated, "models": models, "savings": _savings(models)})
    return {"tasks_per_month": tasks, "tests": tests}


def _of_model(model: str, record: Record, tasks: int) -> dict[str, Any]:
    metrics = record["metrics"]
    without = record["without_cache"] or {"cost_per_task": None, "reason": "it was not worked out"}
    return {
        "model": model,
        **_amounts(metrics.get("cost_per_task"), tasks),
        "cache_hit_rate": metrics.get("cache_hit_rate"),
        "without_cache": {**_amounts(without["cost_per_task"], tasks), "reason": without["reason"]},
    }


def _amounts(cost_per_task: float | None, tasks: int) -> dict[str, float | None]:
    if cost_per_task is None:
        return {"cost_per_task": None, "monthly": None, "yearly": None}
    month = monthly(cost_per_task, tasks)
    return {"cost_per_task": cost_per_task, "monthly": float(month), "yearly": float(month * MONTHS)}


def _savings(models: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    known = sorted((model for model in models if model["monthly"] is not None), key=lambda model: model["monthly"])
    return [
        {
            "model": known[0]["model"],
            "instead_of": other["model"],
            **_saved(known[0], other),
            "without_cache": _saved(known[0]["without_cache"], other["without_cache"]),
        }
        for other in known[1:]
    ]


def _saved(cheap: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, float | None]:
    """By the month, by the year, and as a share of what the other one costs."""
    if cheap["monthly"] is None or other["monthly"] is None:
        return dict(_UNKNOWN)
    saving = Saving(Decimal(repr(other["monthly"])), Decimal(repr(cheap["monthly"])))
    part = None if saving.share is None else float(saving.share)
    return {"monthly": float(saving.monthly), "yearly": float(saving.yearly), "share": part}


# --- for the terminal -------------------------------------------------------------------------------------------------


def projection_lines(projected: Mapping[str, Any], width: int) -> Iterator[Line]:
    """The lines of one test of `project`, none of them wider than `width`."""
    yield Line(ellipsis_middle(one_line(projected["test"]), width), {"bold": True})
    if projected["simulated"]:
        yield from simulated_lines(width)
    rows = [row for model in projected["models"] for row in _model_rows(model)]
    yield from (Line(f"  {line}") for line in _columns(rows, width - 2))
    for text in (*map(_saves, projected["savings"]), *map(_why_unknown, projected["models"])):
        yield from (Line(f"  {line}") for line in wrapped(text, width - 2))


def _columns(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The rows below each other, or each in a line of words where there is not even room for short names."""
    headed = [("", "", "per month", "per year"), *rows]
    figures = zip(*(row[1:] for row in headed), strict=True)
    room = width - sum(len(GAP) + max(map(cells, column)) for column in figures)
    if room < _SHORTEST_NAME:
        worded = [[name, how, f"{month} per month", f"{year} per year"] for name, how, month, year in rows]
        return [line for row in worded for line in flow(list(filter(None, row)), width)]
    return table([(ellipsis_middle(row[0], room), *row[1:]) for row in headed], "<<>>")


def _model_rows(model: Mapping[str, Any]) -> list[list[str]]:
    hits = model["cache_hit_rate"]
    cached = "cache hits unknown" if hits is None else f"{share(hits)} cache hits"
    without = model["without_cache"]
    return [[one_line(model["model"]), cached, *_money(model)], ["", "without a cache", *_money(without)]]


def _saves(saving: Mapping[str, Any]) -> str:
    """`kimi saves $410.00 per month, $4,920.00 per year (50.0%) over gpt; without a cache $420.00 and $5,040.00`."""
    month, year = _money(saving)
    part = "" if saving["share"] is None else f" ({share(saving['share'])})"
    without = saving["without_cache"]
    more = "" if without["monthly"] is None else "; without a cache {} and {}".format(*_money(without))
    return (
        f"{one_line(saving['model'])} saves {month} per month, {year} per year{part} over {saving['instead_of']}{more}"
    )


def _money(amounts: Mapping[str, Any]) -> tuple[str, str]:
    month, year = amounts["monthly"], amounts["yearly"]
    return ("unknown", "unknown") if month is None else (money(month), money(year))


def _why_unknown(model: Mapping[str, Any]) -> str:
    reason = model["without_cache"]["reason"]
    return f"{one_line(model['model'])} without a cache: {reason}" if reason else ""
