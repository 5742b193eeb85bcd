"""The summary after the run, for whoever sits before the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Protocol

from pytest_swarm.reports.block import block_lines
from pytest_swarm.reports.ceiling import ceiling_lines
from pytest_swarm.reports.choice import choice_lines, choose, measured_models
from pytest_swarm.reports.compare import compare
from pytest_swarm.reports.figures import cells, count, ellipsis_middle, figure, one_line
from pytest_swarm.reports.layout import Line, model_heads, simulated_lines, table, wrapped
from pytest_swarm.reports.projected import project, projection_lines

__all__ = ["TerminalWriter", "write_summary"]

NARROWEST: Final = 50
WIDEST: Final = 120
"""Longer lines are hard to follow with the eye."""
REST_OF_ROW: Final = 46
"""Columns of a row of the comparison that two models' names do not get: label, lead, gaps and stars."""
LABELS: Final = {
    "latency.p50": "p50",
    "latency.p95": "p95",
    "latency.p99": "p99",
    "ttft.p50": "ttft p50",
    "success_rate": "success",
    "throughput": "throughput",
    "steady_throughput": "steady throughput",
    "output_tokens.mean": "tokens out/task",
    "cost_per_100": "cost per 100",
}


class TerminalWriter(Protocol):
    """Where the summary goes; pytest's terminal reporter fits behind a thin adapter."""

    @property
    def width(self) -> int:
        """Columns of the terminal."""

    def section(self, title: str) -> None:
        """Start a part with a title across the terminal."""

    def write_line(self, text: str, **markup: bool) -> None:
        """Write one line; `markup` are flags such as `red` and `bold`, ignored where there are no colours."""


def write_summary(
    writer: TerminalWriter,
    records: Sequence[Mapping[str, Any]],
    *,
    project_to: int | None = None,
    ceiling: Mapping[str, Any] | None = None,
) -> None:
    """Write every test's block, then what the models come to beside each other; nothing at all when there was no swarm.

    `project_to` is a number of tasks a month, for which the costs are then told. `ceiling` is how the cost ceiling of
    the whole pytest run stands.
    """
    width = max(NARROWEST, min(writer.width, WIDEST))
    if records:
        writer.section("LLM swarm")
        whole_run = [[Line("all tests", {"bold": True}), *ceiling_lines(ceiling, width)]] if ceiling is not None else []
        _write(writer, chain((block_lines(record, width) for record in records), whole_run))
    comparison = compare(records)
    if comparison:
        writer.section("LLM swarm: models side by side")
        _write(writer, (comparison_table(compared, width) for compared in comparison))
    projection = project(records, project_to)
    if projection and projection["tests"]:
        writer.section(f"LLM swarm: projected to {projection['tasks_per_month']:,} tasks/month")
        _write(writer, (projection_lines(projected, width) for projected in projection["tests"]))
    _write_choices(writer, choose(records), width)


def _write_choices(writer: TerminalWriter, choices: Sequence[Mapping[str, Any]], width: int) -> None:
    """Which model meets which workload. Where some tests have a choice of models, only these are of interest."""
    several = [choice for choice in choices if len(measured_models(choice)) > 1] or choices
    if several:
        writer.section("LLM swarm: which model for which workload")
        _write(writer, (choice_lines(choice, width) for choice in several))
    if len(several) < len(choices):
        left_out = count(len(choices) - len(several), "test")
        for line in wrapped(f"{left_out} of one model left out here; the JSON report has every test", width - 2):
            writer.write_line(f"  {line}")


def _write(writer: TerminalWriter, blocks: Iterable[Iterable[Line]]) -> None:
    for position, block in enumerate(blocks):
        if position:
            writer.write_line("")
        for line in block:
            writer.write_line(line.text, **line.markup)


def comparison_table(compared: Mapping[str, Any], width: int) -> Iterator[Line]:
    """One table of `compare`: a row per metric, a column per model, the best marked with a star.

    Models whose names are too long for a column are numbered. Those that do not fit beside the others follow below.
    """
    yield Line(ellipsis_middle(one_line(compared["test"]), width), {"bold": True})
    if compared["simulated"]:
        yield from simulated_lines(width)
    models = list(compared["rows"][0]["values"])
    heads, legend = model_heads(models, (width - REST_OF_ROW) // 2, width)
    yield from legend
    while models:
        many = len(models)
        while many > 1 and max(map(cells, _columns(compared, heads, models[:many]))) > width:
            many -= 1
        yield from map(Line, _columns(compared, heads, models[:many]))
        models = models[many:]


def _columns(compared: Mapping[str, Any], heads: Mapping[str, str], models: Sequence[str]) -> list[str]:
    rows = [["", *(f"{heads[model]}  " for model in models), ""]]
    for row in compared["rows"]:
        metric, best = row["metric"], row["best"]
        values = [
            figure(metric, row["values"][model], unknown="-") + (" *" if model == best else "  ") for model in models
        ]
        lead = row["advantage"] if best is None or best in models else ""
        rows.append([LABELS[metric], *values, lead])
    return [f"  {line}" for line in table(rows, "<" + ">" * len(models) + "<")]
