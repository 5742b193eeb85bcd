"""Draw what each load plan releases: when tasks start, and how many are in flight. Writes docs/load-plans.svg.

Run it with ``python benchmarks/plan_pictures.py``: a second, no network. The plans are released by the plugin's own
code, against a system that works on 12 tasks at a time for about a second each. The same picture comes out every time.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate, count
from pathlib import Path
from typing import Final

from pytest_swarm.columns import RunResult
from pytest_swarm.swarm.plan import Layer, Plan, plan_from
from pytest_swarm.swarm.release import phases

TARGET: Final = Path(__file__).parents[1] / "docs" / "load-plans.svg"
WORKERS: Final = 12

PLANS: Final[tuple[tuple[str, dict[str, object]], ...]] = (
    ("closed loop: concurrency=10", {"concurrency": 10, "duration": 25}),
    ("rate='6/s', arrival='constant'", {"rate": "6/s", "duration": 25, "arrival": "constant"}),
    ("rate='6/s' (Poisson)", {"rate": "6/s", "duration": 25}),
    ("rate='6/s', arrival='bursty'", {"rate": "6/s", "duration": 25, "arrival": "bursty"}),
    (
        "stages of a rate: ramp, hold, spike",
        {"stages": [("8s", "6/s"), ("6s", "6/s"), ("1ms", "20/s"), ("3s", "20/s"), ("1ms", "6/s"), ("8s", "1/s")]},
    ),
    ("stages of tasks in flight", {"stages": [("8s", 10), ("9s", 10), ("8s", 2)]}),
    (
        "rate='18/s', concurrency=12, backlog=10",
        {"rate": "18/s", "duration": 25, "concurrency": 12, "backlog": 10, "arrival": "constant"},
    ),
    ("concurrency='4..60'", {"concurrency": "4..60", "duration": 150}),
)


@dataclass(frozen=True)
class _Nothing:
    """No options around the marker."""

    command_line: Layer = field(default_factory=Layer)
    ini: Layer = field(default_factory=Layer)


@dataclass
class Released:
    """What came of a plan: when tasks started and ended, and when one was shed."""

    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    shed: list[float] = field(default_factory=list)

    def in_flight(self) -> list[tuple[float, int]]:
        """Steps of the number in flight; where one task makes way for the next there is none."""
        changes: defaultdict[float, int] = defaultdict(int)
        for times, change in ((self.starts, 1), (self.ends, -1)):
            for at in times:
                changes[at] += change
        times = sorted(at for at, change in changes.items() if change)
        return list(zip(times, accumulate(changes[at] for at in times), strict=True))


def release(plan: Plan) -> Released:
    """Run the plan on a clock that jumps from event to event."""
    rng, done, ends, number = random.Random("picture"), Released(), list[tuple[float, int, float]](), count()
    free, now, run = [0.0] * WORKERS, 0.0, RunResult(0)
    for begin in phases(plan, run):
        tasks = begin(now)
        while True:
            tasks.advance(now, len(ends))
            while tasks.take(now, len(ends)) is not None:
                end = max(now, heapq.heappop(free)) + rng.gammavariate(9, 1 / 9)
                heapq.heappush(free, end)
                heapq.heappush(ends, (end, next(number), now))
                done.starts.append(now)
            done.shed.extend(now for _ in tasks.left(now))
            due = tasks.next_time()
            if due is not None and (not ends or due <= ends[0][0]):
                now = due
            elif ends:
                now, _, began = heapq.heappop(ends)
                done.ends.append(now)
                tasks.ended(now, now - began, None)
            else:
                break
    return done


WIDTH, HEIGHT, LEFT, TOP = 420, 190, 44, 46
"""Of a panel, and where its drawing begins."""
PLOT_WIDTH, TICKS, PLOT_HEIGHT = WIDTH - LEFT - 14, 14, 92


def panel(title: str, done: Released) -> Iterator[str]:
    """The picture of one plan, at the origin."""
    steps = done.in_flight()
    highest = max((level for _, level in steps), default=1)
    seconds = math.ceil(steps[-1][0] / 30) * 30

    def x(at: float) -> float:
        return round(LEFT + at / seconds * PLOT_WIDTH, 1)

    def y(level: float) -> float:
        return round(TOP + TICKS + 8 + PLOT_HEIGHT * (1 - level / highest), 1)

    yield f'<text x="{LEFT}" y="22" class="title">{escape(title)}</text>'
    for times, kind in ((done.starts, "start"), (done.shed, "shed")):
        marks = "".join(f"M{x(at)} {TOP - 10}v{TICKS}" for at in times)
        if marks:
            yield f'<path d="{marks}" class="{kind}"/>'
    line = f"M{x(0)} {y(0)}" + "".join(f"H{x(at)}V{y(level)}" for at, level in steps)
    yield f'<path d="{line}" class="flight"/>'
    yield f'<path d="M{LEFT} {y(highest)}V{y(0)}H{LEFT + PLOT_WIDTH}" class="axis"/>'
    yield f'<text x="{LEFT - 6}" y="{y(highest) + 4}" class="end">{highest}</text>'
    yield f'<text x="{LEFT - 6}" y="{y(0) + 4}" class="end">0</text>'
    for second in range(0, seconds + 1, seconds // 3):
        yield f'<text x="{x(second)}" y="{y(0) + 16}" class="middle">{second}s</text>'


STYLE: Final = (
    "text{font:11px sans-serif;fill:#333}.title{font:bold 13px sans-serif}.end{text-anchor:end}"
    ".middle{text-anchor:middle}path{fill:none}.start{stroke:#2b6cb0;stroke-width:.6}.shed{stroke:#c53030}"
    ".flight{stroke:#2f855a;stroke-width:1.4}.axis{stroke:#888}"
)


def picture() -> str:
    """All plans in two columns."""
    rows = -(-len(PLANS) // 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {rows * HEIGHT + 24}">',
        f"<title>What each load plan releases</title><style>{STYLE}</style>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for position, (title, arguments) in enumerate(PLANS):
        plan = plan_from((), arguments, _Nothing())
        at = f"{position % 2 * WIDTH} {position // 2 * HEIGHT}"
        parts += [f'<g transform="translate({at})">', *panel(title, release(plan)), "</g>"]
    legend = "blue: a task starts, red: one is shed, green: tasks in flight"
    parts += [f'<text x="{LEFT}" y="{rows * HEIGHT + 10}">{legend}; the system works on {WORKERS} at a time</text>']
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
    print(f"wrote {TARGET}")
