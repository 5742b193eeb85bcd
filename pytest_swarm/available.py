"""What this version carries out. Everything else of the public face is checked, and then refused in one sentence."""

from __future__ import annotations

from typing import Final

from pytest_swarm.errors import NotAvailable

__all__ = ["ARGUMENTS", "OPTIONS", "require"]

OPTIONS: Final = frozenset(
    {
        "abort",
        "api-key-env",
        "base-url",
        "baseline",
        "benchmark",
        "cassette-dir",
        "cassette-format",
        "cassette-max-age",
        "clock",
        "confidence",
        "concurrency",
        "duration",
        "header",
        "hosts",
        "json",
        "match-ignore",
        "max-cost",
        "model",
        "no-progress",
        "plan",
        "prices-date",
        "project",
        "rate",
        "record",
        "record-mode",
        "redact-fields",
        "repeat",
        "replay",
        "replay-speed",
        "seed",
        "sla",
        "systems",
        "tasks",
    }
)
"""Names of options, without ``--swarm-``."""

ARGUMENTS: Final = frozenset(
    {
        "arrival",
        "backlog",
        "concurrency",
        "duration",
        "limit",
        "max_cost",
        "model",
        "rate",
        "repeat",
        "reschedule",
        "retries",
        "seed",
        "stages",
        "task_timeout",
        "tasks",
        "timeout",
        "warmup",
    }
)
"""Arguments of the `swarm` marker."""


def require(name: str, available: frozenset[str], what: str) -> None:
    """Refuse the setting `name` when this version cannot carry it out.

    Raises:
        NotAvailable: it is not among those that are `available`.
    """
    if name not in available:
        raise NotAvailable(f"{what} is not available yet in this version")
