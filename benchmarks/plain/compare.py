"""What plain benchmark scripts tell, what happened, what the plugin tells, and why they differ.

    python benchmarks/plain/compare.py [--speed 1] [--seed 1]

Runs latency.py and prompt_cache.py against the simulated gateway over HTTP on loopback, and the same loads as tests of
the plugin: a minute altogether. A higher speed is quicker, and gives the client's own time more weight. Every run has a
gateway of its own with the same seed, so that all of them meet the same draws and a cold cache; what really happened
stands in its ledger.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import select
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import latency
import reasons

from pytest_swarm.judging.statistics import percentile
from pytest_swarm.sources.simulated.systems import builtin_systems

HERE = Path(__file__).parent
MODEL = "gpt-6-agent"
PATIENCE = 120.0
"""Seconds that a run may take."""


@dataclass(frozen=True)
class Front:
    """A running gateway."""

    base_url: str

    def ledger(self) -> list[dict[str, Any]]:
        """All requests so far."""
        with urllib.request.urlopen(self.base_url.removesuffix("/v1") + "/ledger", timeout=PATIENCE) as reply:
            requests: list[dict[str, Any]] = json.load(reply)["requests"]
        return requests


@dataclass(frozen=True)
class Line:
    """One figure: as the script and the plugin tell it, each beside the ledger of its own run."""

    name: str
    unit: str
    script: float
    script_truth: float
    plugin: float | None
    """None: it has no such figure."""
    plugin_truth: float
    causes: dict[str, float]
    """What makes the script differ, and by how much."""


@contextlib.contextmanager
def gateway(options: argparse.Namespace) -> Iterator[Front]:
    """`pytest-swarm gateway` on a free port of loopback, for as long as it is needed."""
    command = ["-m", "pytest_swarm.cli", "gateway", "--port=0", f"--speed={options.speed}", f"--seed={options.seed}"]
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if not select.select([process.stdout], [], [], PATIENCE)[0]:
            sys.exit("compare.py: the gateway did not start")
        yield Front(process.stdout.readline().split(" at ")[1].split(" ")[0])
    finally:
        process.terminate()
        process.communicate()


def of_script(name: str, front: Front, folder: Path) -> dict[str, Any]:
    """Run a script, and read what it wrote down."""
    written = folder / f"{name}.json"
    command = [sys.executable, str(HERE / f"{name}.py"), front.base_url, MODEL, "--json", str(written)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
    told: dict[str, Any] = json.loads(written.read_text(encoding="utf-8"))
    return told


def of_plugin(test: str, front: Front, folder: Path) -> dict[str, float]:
    """Run a test of the plugin, and read the metrics of its report."""
    written = folder / f"{test}.json"
    options = [f"--swarm-base-url={front.base_url}", f"--swarm-model={MODEL}", f"--swarm-json={written}"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    run = subprocess.run(
        [*command, f"test_same_loads.py::{test}"], cwd=HERE, capture_output=True, text=True, timeout=PATIENCE
    )
    if run.returncode != 0:
        sys.exit(f"compare.py: the test {test} did not pass\n{run.stdout}{run.stderr}")
    (record,) = json.loads(written.read_text(encoding="utf-8"))["tests"]
    metrics: dict[str, float] = record["metrics"]
    return metrics


def latency_lines(
    told: dict[str, Any], ledger: reasons.Rows, metrics: dict[str, float], own: reasons.Rows
) -> list[Line]:
    """Percentiles, throughput and success of the first script. `own` is the ledger of the plugin's run.

    A task is one request here, so the plugin's figure for a request, `call_latency`, stands beside the script's.
    """
    figures, results = told["figures"], told["results"]
    lines = []
    for p in (50, 95, 99):
        name = f"latency.p{p}"
        true, own_true = (percentile(sorted(map(reasons.served, reasons.answered(rows))), p) for rows in (ledger, own))
        causes = reasons.of_percentile(results, ledger, p, figures[name], latency.IN_FLIGHT)
        lines.append(Line(name, "s", figures[name], true, metrics[f"call_{name}"], own_true, causes))
    name = "throughput"
    causes = reasons.of_throughput(results, ledger, told["elapsed"], figures[name])
    true, own_true = reasons.throughput(ledger), reasons.throughput(own)
    lines.append(Line(name, "tasks/s", figures[name], true, metrics[name], own_true, causes))
    true, own_true = (len(reasons.answered(rows)) / len(rows) for rows in (ledger, own))
    lines.append(Line("success_rate", "", figures["success_rate"], true, metrics["success_rate"], own_true, {}))
    return lines


def cost_lines(told: dict[str, Any], ledger: reasons.Rows, metrics: dict[str, float], own: reasons.Rows) -> list[Line]:
    """Cost, saving and hit rate of the second script."""
    listed = builtin_systems()[MODEL].prices
    prices = (listed.input, listed.cached_input, listed.output)
    figures, usages = told["figures"], told["usages"]
    true, own_true = reasons.cost(ledger), reasons.cost(own)
    causes = reasons.of_cost(usages, prices)
    lines = [Line("cost", "$", figures["cost"], true, metrics["cost"], own_true, causes)]
    true, own_true = (1 - reasons.cost(rows) / reasons.full_cost(rows, prices) for rows in (ledger, own))
    causes = {cause: -part / reasons.full_cost(ledger, prices) for cause, part in causes.items()}
    lines.append(Line("saved", "", figures["saved"], true, None, own_true, causes))
    true, own_true = (reasons.cache_hit_rate(rows) for rows in (ledger, own))
    told_rate = figures["cache_hit_rate"]
    causes = {reasons.REQUESTS: told_rate - true}
    lines.append(Line("cache_hit_rate", "", told_rate, true, metrics["cache_hit_rate"], own_true, causes))
    return lines


def show(title: str, lines: list[Line]) -> None:
    """Print the figures of one script, and under each what makes it differ."""
    print(f"\n{title}")
    print(f"  {'':<16} {'script':>9} {'ledger':>9} {'off by':>9}   {'plugin':>9} {'ledger':>9} {'off by':>9}")
    for line in lines:
        left, right = _beside(line.script, line.script_truth), _beside(line.plugin, line.plugin_truth)
        print(f"  {line.name:<16} {left}   {right}  {line.unit}".rstrip())
        for cause, part in line.causes.items():
            print(f"  {'':<16} {'':>9} {'':>9} {part:>+9.4f}     {cause}")


def _beside(told: float | None, true: float) -> str:
    if told is None:
        return f"{'-':>9} {true:>9.4f} {'':>9}"
    return f"{told:>9.4f} {true:>9.4f} {told - true:>+9.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--speed", type=float, default=1.0, help="of the simulated gateway (default: %(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="of the simulated gateway (default: %(default)d)")
    options = parser.parse_args()
    print(f"{MODEL}, simulated over HTTP, speed {options.speed:g}, seed {options.seed}")
    loads = {
        "latency": ("latency.py: 100 tasks, 50 in flight", latency_lines),
        "prompt_cache": ("prompt_cache.py: 100 tasks, 10 in flight, one marked system prompt", cost_lines),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for load, (title, compared) in loads.items():
            with gateway(options) as front:
                told, ledger = of_script(load, front, folder), front.ledger()
            with gateway(options) as front:
                metrics, own = of_plugin(f"test_{load}", front, folder), front.ledger()
            show(title, compared(told, ledger, metrics, own))


if __name__ == "__main__":
    main()
