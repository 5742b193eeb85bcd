"""What the terminal shows of a capacity search."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_swarm.reports.figures import cells
from pytest_swarm.reports.search import search_lines


def probe(load: float, verdict: str = "held", *, near: bool = False, p95: float | None = 1.5) -> dict[str, Any]:
    figures = {"throughput": 12.34, "p50": 0.4, "p95": p95, "p99": 10.1, "success_rate": 0.9725, "cost": 0.1}
    return {"load": load, "verdict": verdict, "near": near, "tasks": 40, "in_flight_max": 8, "reasons": [], **figures}


def search(*probes: dict[str, Any], **changed: Any) -> dict[str, Any]:
    found = {"metric": "concurrency", "low": 8, "high": 256, "max_tasks": 20_000, "tasks": 1240, "verdict": "pass"}
    return {**found, "held": 32, "missed": 33, "probes": list(probes), **changed}


def shown(found: dict[str, Any], width: int = 68) -> list[str]:
    return [line.text for line in search_lines(found, width)]


def test_the_answer_stands_over_the_curve() -> None:
    lines = shown(search(probe(8), probe(32, near=True), probe(33, "missed", p95=6.02), probe(1024, "undecided")))
    assert lines == [
        "  search    concurrency 32 holds, 33 does not (4 runs, 1,240 tasks)",
        "            in flight   tasks/s     p50     p95     p99   success",
        "                    8    12.3/s   400ms   1.50s   10.1s     97.2%   holds",
        "                   32    12.3/s   400ms   1.50s   10.1s     97.2%   holds, close",
        "                   33    12.3/s   400ms   6.02s   10.1s     97.2%   fails",
        "                1,024    12.3/s   400ms   1.50s   10.1s     97.2%   undecided",
    ]


def test_a_rate_is_told_per_second_and_what_is_unknown_as_a_dash() -> None:
    lines = shown(search(probe(2.5, p95=None), metric="rate", held=2.5, missed=2.625))
    assert "rate 2.5/s holds, 2.625/s does not" in lines[0]
    assert lines[2].split() == ["2.5/s", "12.3/s", "400ms", "-", "10.1s", "97.2%", "holds"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"held": 256, "missed": None}, "concurrency 256 holds, the highest that was asked for"),
        ({"held": 16, "missed": None}, "concurrency 16 holds, and nothing above it was decided"),
        ({"held": None, "missed": 8}, "concurrency 8, the lowest, does not hold"),
        ({"held": None, "missed": None}, "no answer"),
    ],
)
def test_searches_without_a_bracket_say_what_is_known(changed: dict[str, Any], told: str) -> None:
    assert shown(search(probe(8), **changed))[0].startswith(f"  search    {told} (1 run, ")


def test_no_line_is_wider_than_the_terminal() -> None:
    lines = shown(search(probe(8, near=True), probe(10_000, near=True)), width=44)
    assert max(map(cells, lines)) <= 44 + 12
