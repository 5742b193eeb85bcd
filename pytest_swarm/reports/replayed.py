"""What the terminal tells of a replay: whose answers they are, how old, and which times are recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_swarm.reports.figures import one_line

__all__ = ["age", "replay_line"]

_DAY: Final = 86_400


def replay_line(record: Mapping[str, Any]) -> str:
    """One sentence: nobody may take these figures for measurements of today."""
    replay: Mapping[str, Any] = record["replay"]
    url = record["gateway"]["base_url"]
    where = f" {one_line(url)}" if url else ""
    whose = f"a SIMULATED gateway{where}" if replay["simulated"] else where.strip() or "a gateway"
    asked = f" ({one_line(', '.join(replay['models']))})" if replay["models"] else ""
    recorded = replay["recorded_at"]
    when = f"recorded {recorded[:10]} ({age(replay['age'])})" if recorded else "recorded at an unknown time"
    speed = replay["speed"]
    clock = f"{speed} time" if isinstance(speed, str) else f"{speed:g} times as fast"
    times = "service times as recorded, queueing computed" if replay["timed"] else "without times"
    return f"REPLAY of {whose}{asked}, {when}, from {one_line(replay['cassette'])}; {times}, {clock}"


def age(seconds: float | None) -> str:
    """How long ago something was, in words."""
    if seconds is None:
        return "age unknown"
    days = int(seconds // _DAY)
    return "today" if days == 0 else "1 day ago" if days == 1 else f"{days:,} days ago"
