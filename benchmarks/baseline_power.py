"""How often a level against a baseline fails: after no change, and after slowdowns of everything and of the tail.

Samples are drawn from lognormal distributions of several spreads, 500 tasks then and 500 now. Prints the table of
docs/baseline.md.

    python benchmarks/baseline_power.py [TRIALS]
"""

from __future__ import annotations

import math
import sys

import numpy as np

from pytest_swarm.judging import statistics
from pytest_swarm.judging.regression import of_samples

TASKS = 500
SPREADS = (0.3, 0.45, 0.6)
STATISTICS = ("p50", "p95", "p99")
FACTORS = (1.0, 1.1)
CASES = {"no change": (1.0, 1.0), "all 15 % slower": (1.15, 1.0), "the slowest 5 % three times slower": (1.0, 3.0)}
"""By what factor everything is slower, and the slowest twentieth of the tasks."""


def figure(values: list[float], statistic: str) -> float:
    """One statistic of sorted values."""
    return statistics.mean(values) if statistic == "mean" else statistics.percentile(values, float(statistic[1:]))


def shares(spread: float, everything: float, tail: float, trials: int) -> dict[tuple[str, float], float]:
    """In what share of trials a level with each statistic and factor fails."""
    random = np.random.default_rng(1)
    failed = {(statistic, factor): 0 for statistic in STATISTICS for factor in FACTORS}
    for _ in range(trials):
        before = sorted(random.lognormal(0, spread, TASKS).tolist())
        now = sorted(random.lognormal(0, spread, TASKS) * everything)
        now[-TASKS // 20 :] = [value * tail for value in now[-TASKS // 20 :]]
        for statistic, factor in failed:
            beyond = figure(now, statistic) > factor * figure(before, statistic)
            found = of_samples(statistic, now, before, beyond=beyond, factor=factor, upwards=True, level=0.05)
            failed[statistic, factor] += bool(found and found.found)
    return {key: many / trials for key, many in failed.items()}


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print(f"| p95 / p50 | level | {' | '.join(CASES)} |")
    print(f"|---|---|{'---|' * len(CASES)}")
    for spread in SPREADS:
        found = {case: shares(spread, *slower, trials) for case, slower in CASES.items()}
        for statistic in STATISTICS:
            for factor in FACTORS:
                cells = " | ".join(f"{found[case][statistic, factor]:.1%}" for case in CASES)
                level = f"{statistic} <= baseline" + ("" if factor == 1 else f" * {factor:.2f}")
                print(f"| {math.exp(1.645 * spread):.1f} | `{level}` | {cells} |", flush=True)


if __name__ == "__main__":
    main()
