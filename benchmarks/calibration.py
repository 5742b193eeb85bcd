"""Do the two built-in systems reproduce the figures that they were fitted to? Prints measured | article | deviation.

Run it with ``python benchmarks/calibration.py``: half a minute, no network. Each system is asked in a closed loop with
100 requests in flight, 20,000 tasks, with 5 seeds; every figure is the median of the seeds. Ends with 1 if one is off
by more than its tolerance.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from pytest_swarm.exchange import Ending
from pytest_swarm.sources.simulated.reception import Reception
from pytest_swarm.sources.simulated.systems import System, builtin_systems
from pytest_swarm.sources.simulated.timeline import EventTimeline
from pytest_swarm.sources.simulated.visit import Visit

IN_FLIGHT = 100
TASKS = 20_000
SEEDS = 5

ARTICLE: Mapping[str, Mapping[str, float]] = {
    "gpt-6-agent": {
        "latency.p50": 1.840,
        "latency.p95": 4.720,
        "latency.p99": 8.950,
        "steady_throughput": 42.3,
        "success_rate": 0.96,
        "output_tokens.mean": 2100,
        "cost_per_100": 0.082,
    },
    "kimi-k2.5-swarm": {
        "latency.p50": 2.310,
        "latency.p95": 5.180,
        "latency.p99": 11.420,
        "steady_throughput": 38.7,
        "success_rate": 0.94,
        "output_tokens.mean": 1050,
        "cost_per_100": 0.041,
    },
}
"""What was published for 100 agents in flight: seconds, tasks per second, tokens per task, US dollars."""

TOLERANCE = {"latency.p99": 0.08}
USUAL_TOLERANCE = 0.05


@dataclass
class _Task:
    """One request, and what its client sees."""

    loop: ClosedLoop
    start: float
    visit: Visit | None = None
    status: int = 0

    def head(self, status: int, headers: Mapping[str, str]) -> None:  # noqa: ARG002 - of no interest here
        self.status = status

    def feed(self, data: bytes) -> None:
        pass

    def finish(self, ending: Ending, error: str = "") -> None:  # noqa: ARG002 - of no interest here
        self.loop.ended(self)


@dataclass
class ClosedLoop:
    """`in_flight` clients, each of which asks again as soon as it has been answered; on simulated time."""

    system: System
    seed: str
    tasks: int
    in_flight: int = IN_FLIGHT
    passed: list[tuple[float, float, int]] = field(default_factory=list)
    """Start, end and output tokens of each passed task."""
    ends: list[float] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    cost: float = 0.0

    def run(self) -> dict[str, float]:
        """Ask, wait for the end, and sum up."""
        self.timeline = EventTimeline()
        self.reception = Reception({self.system.name: self.system}, self.seed, self.timeline)
        self.numbers = count()
        for _ in range(self.in_flight):
            self._ask()
        self.timeline.run()
        return self._figures()

    def _ask(self) -> None:
        number = next(self.numbers)
        if number >= self.tasks:
            return
        body = f'{{"model":"{self.system.name}","messages":[{{"role":"user","content":"Summarise report {number}."}}]}}'
        task = _Task(self, self.timeline.time())
        self.starts.append(task.start)
        task.visit = self.reception.receive("/v1/chat/completions", body.encode(), task)

    def ended(self, task: _Task) -> None:
        """A reply is complete."""
        now = self.timeline.time()
        assert task.visit is not None
        self.ends.append(now)
        self.cost += task.visit.cost
        if task.status == 200:
            self.passed.append((task.start, now, task.visit.plan.answer.output_tokens))
        self._ask()

    def _figures(self) -> dict[str, float]:
        latencies = sorted(end - start for start, end, _ in self.passed)
        begin, end = self.ends[len(self.ends) // 10 - 1], self.starts[-1]
        steady = sum(1 for _, ended, _ in self.passed if begin < ended <= end)
        return {
            "latency.p50": percentile(latencies, 0.50),
            "latency.p95": percentile(latencies, 0.95),
            "latency.p99": percentile(latencies, 0.99),
            "steady_throughput": steady / (end - begin),
            "success_rate": len(self.passed) / self.tasks,
            "output_tokens.mean": statistics.fmean(tokens for _, _, tokens in self.passed),
            "cost_per_100": self.cost / self.tasks * 100,
        }


def percentile(ordered: list[float], share: float) -> float:
    """Linear between the two nearest ranks, as numpy has it."""
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def measure(system: System, tasks: int, seeds: int) -> dict[str, float]:
    """Every figure of one system, as the median of the seeds."""
    runs = [ClosedLoop(system, str(seed), tasks).run() for seed in range(seeds)]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def main() -> int:
    """Print the table; 1 when a figure is off."""
    parser = argparse.ArgumentParser(description="Compare the built-in systems with the figures they reproduce.")
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    off = 0
    for name, system in builtin_systems().items():
        print(f"\n{name}: {options.tasks:,} tasks, {IN_FLIGHT} in flight, median of {options.seeds} seeds")
        print(f"  {'':20} {'measured':>10} {'article':>10} {'deviation':>10}")
        measured = measure(system, options.tasks, options.seeds)
        for figure, published in ARTICLE[name].items():
            deviation = measured[figure] / published - 1
            wrong = abs(deviation) > TOLERANCE.get(figure, USUAL_TOLERANCE)
            off += wrong
            print(
                f"  {figure:20} {measured[figure]:10.4g} {published:10.4g} {deviation:+10.1%}{'  OFF' if wrong else ''}"
            )
    return 1 if off else 0


if __name__ == "__main__":
    raise SystemExit(main())
