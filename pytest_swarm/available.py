"""What this version carries out. Everything else of the public face is checked, and then refused in one sentence."""

from __future__ import annotations

from typing import Final

from pytest_swarm.errors import NotAvailable

__all__ = ["ARGUMENTS", "OPTIONS", "require"]

OPTIONS: Final = frozenset(
    {
        "api-key-env",
        "base-url",
        "baseline",
        "benchmark",
        "cassette-dir",
        "cassette-format",
        "clock",
        "concurrency",
        "header",
        "hosts",
        "json",
        "max-cost",
        "model",
        "no-progress",
        "prices-date",
        "project",
        "record",
        "record-mode",
        "redact-fields",
        "repeat",
        "seed",
        "sla",
        "systems",
        "tasks",
    }
)
"""Names of options, without ``--swarm-``."""

ARGUMENTS: Final = frozenset(
    {
        "concurrency",
        "limit",
        "max_cost",
        "model",
        "repeat",
        "retries",
        "seed",
        "task_timeout",
        "tasks",
        "timeout",
        "warmup",
    }
)
"""Arguments of the `swarm` marker."""


def require(name: str, value: object, available: frozenset[str], what: str) -> None:
    """Refuse the setting `name` when this version cannot carry it out.

    Raises:
        NotAvailable: neither the setting nor, for a setting that is partly there, the value can be used yet.
    """
    if name == "concurrency" and isinstance(value, tuple):
        raise NotAvailable(f"{what}: {_written(value)} is not available yet in this version")
    if name not in available:
        raise NotAvailable(f"{what} is not available yet in this version")


def _written(value: object) -> str:
    return f"'{value[0]}..{value[1]}'" if isinstance(value, tuple) else repr(value)
