"""benchmarks/plain/compare.py: it runs, its causes are the whole difference, and the plugin agrees with the ledger."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.suites import untraced

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "plain" / "compare.py"
PERCENTILES = ["latency.p50", "latency.p95", "latency.p99"]
ROUNDED = 0.0004
"""Figures have four digits behind the point, and up to four of them are added up."""


def test_causes_add_up_and_the_plugin_is_as_the_ledger() -> None:
    run = subprocess.run(
        [sys.executable, str(PROGRAM), "--speed=20"],
        env=untraced(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    figures: dict[str, list[float]] = {}
    causes: dict[str, list[float]] = {}
    for line in run.stdout.splitlines():
        first, *rest = line.split() or [""]
        if first.startswith(("+", "-")):
            causes[list(figures)[-1]].append(float(first))
        elif line.startswith("  ") and first != "script":
            figures[first] = [math.nan if word == "-" else float(word) for word in rest if re.match(r"[-+\d]", word)]
            causes[first] = []
    assert list(figures) == [*PERCENTILES, "throughput", "success_rate", "cost", "saved", "cache_hit_rate"]
    for name, (told, true, off, *_) in figures.items():
        assert off == pytest.approx(told - true, abs=ROUNDED), name
        assert sum(causes[name]) == pytest.approx(off, abs=ROUNDED), name
    for name in ("success_rate", "cost", "cache_hit_rate"):
        _, _, _, plugin, own, _ = figures[name]
        assert plugin == pytest.approx(own, abs=ROUNDED), name
    assert figures["saved"][0] > 10 * figures["saved"][1] > 0
