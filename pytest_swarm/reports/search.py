"""A capacity search in the terminal summary: what was found, and the curve of all probes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_swarm.reports.figures import count, ellipsis_end, figure
from pytest_swarm.reports.layout import Line, labelled, table, wrapped

__all__ = ["search_lines"]

_WORDS: Final = {"held": "holds", "missed": "fails", "undecided": "undecided"}
_COLUMNS: Final = {
    "throughput": "throughput",
    "p50": "latency.p50",
    "p95": "latency.p95",
    "p99": "latency.p99",
    "success_rate": "success_rate",
}
_HEADS: Final = ("tasks/s", "p50", "p95", "p99", "success")
_LOADS: Final = {"concurrency": "in flight", "rate": "rate"}


def search_lines(search: Mapping[str, Any], width: int) -> Iterator[Line]:
    """What the search found, and a row for each of its probes."""
    probes: Sequence[Mapping[str, Any]] = search["probes"]
    many = f"{count(len(probes), 'run')}, {count(search['tasks'], 'task')}"
    yield from labelled("search", wrapped(f"{_found(search)} ({many})", width), {"bold": True})
    rows = table(
        [
            [_LOADS[search["metric"]], *_HEADS, ""],
            *([_load(search["metric"], probe["load"]), *_figures(probe)] for probe in probes),
        ],
        ">>>>>><",
    )
    for probe, row in zip([None, *probes], rows, strict=True):
        missed = probe is not None and probe["verdict"] == "missed"
        yield from labelled("", [ellipsis_end(row, width)], {"yellow": True} if missed else None)


def _found(search: Mapping[str, Any]) -> str:
    metric, held, missed = search["metric"], search["held"], search["missed"]

    def shown(load: float) -> str:
        return _load(metric, load)

    if held is None:
        return f"{metric} {shown(search['low'])}, the lowest, does not hold" if missed is not None else "no answer"
    if missed is None:
        further = "the highest that was asked for" if held >= search["high"] else "and nothing above it was decided"
        return f"{metric} {shown(held)} holds, {further}"
    return f"{metric} {shown(held)} holds, {shown(missed)} does not"


def _load(metric: str, load: float) -> str:
    return f"{load:,.0f}" if metric == "concurrency" else f"{load:.4g}/s"


def _figures(probe: Mapping[str, Any]) -> list[str]:
    shown = [figure(metric, probe[name], unknown="-") for name, metric in _COLUMNS.items()]
    return [*shown, _WORDS[probe["verdict"]] + (", close" if probe["near"] else "")]
