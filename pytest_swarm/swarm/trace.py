"""Arrival traces: files of what once was asked for when, to be replayed.

A CSV file has a header, a JSONL file one object per line. Read are, under any of their usual names, the time of a row
(`offset` in seconds; `timestamp`, a date and time or seconds in CSV, milliseconds in JSONL) and the tokens of the
question and of the answer. So are the public traces of Azure (``TIMESTAMP,ContextTokens,GeneratedTokens``) and of
Mooncake (``{"timestamp", "input_length", "output_length", "hash_ids"}``). Rows may stand in any order.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pytest_swarm.errors import SettingError
from pytest_swarm.records import Arrival
from pytest_swarm.values import shown

__all__ = ["SUFFIXES", "is_trace", "read_trace"]

SUFFIXES: Final = (".csv", ".jsonl")

_INPUT: Final = ("input_tokens", "input_length", "contexttokens", "request tokens", "prompt_tokens")
_OUTPUT: Final = ("output_tokens", "output_length", "generatedtokens", "response tokens", "completion_tokens")
_Row = Mapping[str, Any]


def is_trace(arrival: str) -> bool:
    """Whether an `arrival` names a file."""
    return arrival.lower().endswith(SUFFIXES)


def read_trace(path: Path, what: str) -> tuple[Arrival, ...]:
    """The rows of a trace in the order of their time.

    Offsets count from the start of the run where the file has an `offset`, else from the earliest row.

    Raises:
        SettingError: the file cannot be read or has no rows, or a row is wrong; the sentence begins with `what` and
            names the file and the line.
    """
    try:
        state = path.stat()
        # A test that is parametrised names the same file many times.
        return _read(path, what, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise SettingError(
            f"{what}: the trace {path} cannot be read ({error.strerror}); name a file that can"
        ) from None


@lru_cache(maxsize=8)
def _read(path: Path, what: str, _changed: int, _size: int) -> tuple[Arrival, ...]:
    found: list[tuple[float, int | None, int | None]] = []
    absolute = False
    for line, row in _rows(path, what):
        where = f"{what}: {path} line {line}"
        at, is_offset = _time(row, where, milliseconds=path.suffix.lower() == ".jsonl")
        absolute = absolute or not is_offset
        found.append((at, _tokens(row, _INPUT, where), _tokens(row, _OUTPUT, where)))
    if not found:
        raise SettingError(f"{what}: the trace {path} has no rows; name one that has")
    found.sort(key=lambda row: row[0])
    first = found[0][0] if absolute else 0.0
    return tuple(Arrival(at - first, asked, answered) for at, asked, answered in found)


def _rows(path: Path, what: str) -> Iterator[tuple[int, _Row]]:
    """Rows with their line numbers; names of columns in small letters."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        if path.suffix.lower() == ".csv":
            reader = csv.DictReader(file, restval="", restkey="more")
            for row in reader:
                yield reader.line_num, {str(name).strip().lower(): value for name, value in row.items()}
            return
        for line, text in enumerate(file, 1):
            if text.strip():
                yield line, _object(text, f"{what}: {path} line {line}")


def _object(text: str, where: str) -> _Row:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise SettingError(f"{where}: {shown(text.strip())} is no JSON object; write one per line")
    return {name.lower(): value for name, value in row.items()}


def _time(row: _Row, where: str, *, milliseconds: bool) -> tuple[float, bool]:
    """Seconds, and whether they count from the start of the run."""
    name = next((name for name in ("offset", "timestamp") if row.get(name) not in (None, "")), None)
    if name is None:
        raise SettingError(f"{where}: there is no offset and no timestamp; a row needs one")
    seconds = _number(row[name])
    if seconds is None and name == "timestamp" and isinstance(row[name], str):
        seconds = _moment(row[name])
    elif seconds is not None and name == "timestamp" and milliseconds:
        seconds /= 1000
    if seconds is None or (name == "offset" and seconds < 0):
        allowed = "seconds of 0 or more" if name == "offset" else "a number, or a date such as 2024-05-10 00:00:01.25"
        raise SettingError(f"{where}: {name} {shown(row[name])} is no time; write {allowed}")
    return seconds, name == "offset"


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _moment(text: str) -> float | None:
    """Seconds of a date and time; without a time zone it is UTC, since only differences count."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _tokens(row: _Row, names: tuple[str, ...], where: str) -> int | None:
    name = next((name for name in names if row.get(name) not in (None, "")), None)
    if name is None:
        return None
    number = _number(row[name])
    if number is None or number < 0 or not number.is_integer():
        raise SettingError(f"{where}: {name} {shown(row[name])} is no number of tokens; write a whole number")
    return int(number)
