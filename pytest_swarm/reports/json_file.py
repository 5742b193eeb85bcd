"""The JSON report: everything that was measured, for programs. Its form is `pytest-swarm/report/1`."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from pytest_swarm.errors import SettingError
from pytest_swarm.reports.choice import choose
from pytest_swarm.reports.compare import compare
from pytest_swarm.reports.projected import project
from pytest_swarm.rowfile import encode, read_encoded

__all__ = ["SCHEMA", "cost_of", "environment", "exit_of", "write_report"]

SCHEMA: Final = "pytest-swarm/report/1"
PACKAGES: Final = (
    "pytest-llm-swarm",
    "pytest",
    "pytest-asyncio",
    "pytest-benchmark",
    "pytest-xdist",
    "aiohttp",
    "anthropic",
    "genai-prices",
    "httpx",
    "jsonschema",
    "openai",
    "uvloop",
    "vcrpy",
)
"""What can change a figure or its reading."""
_TEST_KEYS: Final = (
    "nodeid",
    "model",
    "gateway",
    "clock",
    "replay",
    "plan",
    "verdict",
    "reasons",
    "sla",
    "metrics",
    "runs",
    "errors",
    "failures",
    "json_errors",
    "cost_sources",
    "ceiling",
    "baseline",
    "in_flight_max",
    "audit",
    "search",
)
"""Keys of a test in the order of the report; `notes`, `tasks` and `calls` follow them."""

Record = Mapping[str, Any]


def environment() -> dict[str, Any]:
    """Where the report was made: Python, packages that matter and are installed, CPUs, platform."""
    packages: dict[str, str] = {}
    for name in PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "packages": packages,
        "cpus": os.cpu_count(),
        "platform": platform.platform(),
    }


def exit_of(records: Sequence[Record], interrupted: bool = False) -> str:
    """`pass`, `fail`, `invalid` or `interrupted` over all tests, the worst of them.

    Without a single test that was judged it is `invalid`: no data is never a pass.
    """
    verdicts = {record["verdict"] for record in records}
    if interrupted or "interrupted" in verdicts:
        return "interrupted"
    if verdicts & {"fail", "error"}:
        return "fail"
    return "pass" if "pass" in verdicts and "invalid" not in verdicts else "invalid"


def cost_of(records: Sequence[Record], ceiling: Record | None = None) -> dict[str, Any]:
    """What all calls cost, those of warm-ups too: `{"total", "by_model", "unpriced_calls", "ceiling"}`.

    A sum with an unpriced call in it is unknown: null for that model and for the total. `ceiling` is how that of the
    whole pytest run stands.
    """
    by_model: dict[str, float | None] = {}
    for record in records:
        for model, cost in record["spent"]["by_model"].items():
            before = by_model.get(model, 0.0)
            by_model[model] = None if before is None or cost is None else before + cost
    unpriced = sum(record["spent"]["unpriced_calls"] for record in records)
    known = [cost for cost in by_model.values() if cost is not None]
    total = sum(known) if len(known) == len(by_model) and not unpriced and by_model else None
    return {"total": total, "by_model": by_model, "unpriced_calls": unpriced, "ceiling": ceiling}


def write_report(
    path: str | Path,
    records: Sequence[Record],
    *,
    exit_status: str,
    environment: Mapping[str, Any],
    cost: Mapping[str, Any],
    created: datetime | None = None,
    project_to: int | None = None,
) -> None:
    """Write the report to `path`, all of it or nothing; parent directories are made.

    Rows are copied from the records' row files, so that memory does not grow with the number of calls. `created` is now
    unless given. `project_to` is a number of tasks a month, for which the costs are then told.

    Raises:
        SettingError: the file cannot be written.
    """
    target = Path(path)
    # Beside the target: only within one file system is a rename atomic.
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    moment = (created or datetime.now(UTC)).astimezone(UTC)
    head = {
        "schema": SCHEMA,
        "created": moment.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "environment": environment,
        "exit": exit_status,
    }
    tail = {
        "comparison": compare(records),
        "projection": project(records, project_to),
        "workloads": choose(records),
        "cost": cost,
    }
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                file.writelines(_report(head, records, tail))
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise SettingError(f"the JSON report cannot be written to {target}: {error.strerror or error}") from error


def _report(head: Record, records: Sequence[Record], tail: Record) -> Iterator[bytes]:
    """The text piece by piece: one key and one row per line."""
    yield b"{\n"
    yield from _members(head)
    yield b'"tests": ['
    for position, record in enumerate(records):
        yield b",\n{\n" if position else b"\n{\n"
        yield from _test(record)
        yield b"}"
    yield b"\n],\n"
    yield b",\n".join(line.removesuffix(b",\n") for line in _members(tail))
    yield b"\n}\n"


def _members(members: Record) -> Iterator[bytes]:
    for key, value in members.items():
        yield f"{encode(key)}: {encode(value)},\n".encode()


def _test(record: Record) -> Iterator[bytes]:
    rows, notes = record["rows"], list(record["notes"])
    if rows is not None and not Path(rows).is_file():
        # The worker that ran the test may have died and taken its files along.
        notes.append("the rows of tasks and calls are lost")
        rows = None
    levels = [{key: value for key, value in line.items() if key != "note"} for line in record["sla"]]
    # Its age is that of now: two reports of one replay shall be the same.
    replay = record["replay"] and {key: value for key, value in record["replay"].items() if key != "age"}
    changed = {"replay": replay, "sla": levels, "notes": notes}
    yield from _members({**{key: record[key] for key in _TEST_KEYS}, **changed})
    yield b'"tasks": ['
    yield from _array(read_encoded(rows, "task") if rows else ())
    yield b'],\n"calls": ['
    yield from _array(read_encoded(rows, "call") if rows else ())
    yield b"]\n"


def _array(texts: Iterable[bytes]) -> Iterator[bytes]:
    position = -1
    for position, text in enumerate(texts):
        yield b",\n" if position else b"\n"
        yield text
    if position >= 0:
        yield b"\n"
