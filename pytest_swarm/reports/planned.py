"""What ``--swarm-plan`` shows: per test what would be released, and that nothing was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_swarm.reports.figures import cells, count, ellipsis_middle, one_line, span
from pytest_swarm.reports.layout import BODY, Line, ends, flow, labelled, table, wrapped
from pytest_swarm.reports.load import plan_items
from pytest_swarm.reports.terminal import TerminalWriter

__all__ = ["planned_lines", "write_plans"]

Planned = Mapping[str, Any]


def write_plans(terminal: TerminalWriter, planned: Sequence[Planned]) -> None:
    """Write all plans under one title."""
    terminal.section("LLM swarm: planned, nothing was sent")
    for position, one in enumerate(planned):
        if position:
            terminal.write_line("")
        for line in planned_lines(one, terminal.width):
            terminal.write_line(line.text, **line.markup)


def planned_lines(planned: Planned, width: int) -> Iterator[Line]:
    """The lines of one test, none of them wider than `width`."""
    body = width - BODY
    yield Line(ends(ellipsis_middle(one_line(planned["nodeid"]), width - cells("PLANNED") - 2), "PLANNED", width))
    yield from labelled("source", flow([one_line(text) for text in planned["source"]], body))
    if planned["note"]:
        yield from labelled("note", wrapped(planned["note"], body))
    shown = planned["preview"]
    if shown is None:
        return
    yield from labelled("plan", flow(plan_items(shown["plan"], None), body))
    yield from labelled("release", flow(list(_release(shown)), body))
    yield from labelled("stages", _stages(shown["stages"]))
    if shown["plan"]["max_cost"] is not None:
        yield from labelled("cost", [f"at most ${shown['plan']['max_cost']:,.2f}: max_cost"])


def _release(shown: Planned) -> Iterator[str]:
    tasks, runs = shown["tasks"], shown["plan"]["repeat"]
    each = " in each run" if runs > 1 else ""
    if tasks is not None:
        yield f"{count(tasks, 'task')}{each}"
    if shown["seconds"] is not None:
        yield f"no start after {span(shown['seconds'])}"
    if shown["first"] is None:
        yield "the next when one has ended"
    elif shown["first"]:
        first = ", ".join(f"{at:.3f}" for at in shown["first"])
        yield f"first due at {first} s"
        yield f"last at {shown['last']:.3f} s"


def _stages(stages: Sequence[Planned]) -> list[str]:
    rows = [
        (
            f"{span(row['from'])} to {span(row['to'])}" if row["from"] else f"0s to {span(row['to'])}",
            f"{row['start']} to {row['end']}",
            "" if row["due"] is None else count(row["due"], "task"),
        )
        for row in stages
    ]
    return table(rows, "<<>") if rows else []
