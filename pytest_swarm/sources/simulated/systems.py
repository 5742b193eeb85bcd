"""Systems: what a simulated gateway is like, as data that a user can write.

A file holds any number of ``[[system]]`` tables; `profiles/gpt-6-agent.toml` beside this module explains every key. A
system may say ``extends = "..."`` and write only what differs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.sources.simulated import profile
from pytest_swarm.sources.simulated.profile import System
from pytest_swarm.sources.simulated.toml_table import build
from pytest_swarm.values import shown

__all__ = ["DEFAULT_SYSTEM", "System", "builtin_systems", "find_system", "load_systems"]

DEFAULT_SYSTEM: Final = "gpt-6-agent"
"""Who answers a request that names no model."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+-]*")


_TABLES: Final[dict[str, Any]] = {
    "service": profile.Service,
    "capacity": profile.Capacity,
    "faults": profile.Faults,
    "tokens": profile.Tokens,
    "prices": profile.Prices,
    "cache": profile.Cache,
    "json": profile.Json,
    "stream": profile.Stream,
    "limits": profile.Limits,
}
_KEYS: Final = ("name", "extends", "description", *_TABLES)

Written = Mapping[str, Mapping[str, Any]]
"""Systems by name as they are written, with what they extend filled in."""


def load_systems(path: Path) -> dict[str, System]:
    """The built-in systems, and those of the user's file, which may replace built-in ones.

    Raises:
        SettingError: the file cannot be read, or says something that is not allowed.
    """
    return {**builtin_systems(), **_checked_file(path, _builtin_tables())}


def builtin_systems() -> dict[str, System]:
    """The systems that come with the package, by name."""
    return {name: _system(table, f"{name}.toml") for name, table in _builtin_tables().items()}


def find_system(model: str | None, systems: Mapping[str, System]) -> System:
    """The system that answers for `model`; the default one when no model is named.

    Raises:
        SettingError: there is no such system.
    """
    name = model or DEFAULT_SYSTEM
    if name not in systems:
        raise SettingError(
            f"no simulated system is called {shown(name)}; there are {', '.join(systems)}{nearest(name, systems)}"
        )
    return systems[name]


@cache
def _builtin_tables() -> Written:
    folder = Path(__file__).with_name("profiles")
    found: dict[str, Mapping[str, Any]] = {}
    for path in sorted(folder.glob("*.toml")):
        found.update(_tables(path, found))
    return found


def _checked_file(path: Path, known: Written) -> dict[str, System]:
    return {name: _system(table, path.name) for name, table in _tables(path, known).items()}


def _tables(path: Path, known: Written) -> dict[str, dict[str, Any]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = " ".join((getattr(error, "strerror", None) or str(error)).split())
        raise SettingError(f"{path}: cannot be read as TOML ({reason})") from None
    entries = content.pop("system", None)
    if content:
        wrong = next(iter(content))
        hint = nearest(wrong, ("system",))
        raise SettingError(f"{path.name} has {shown(wrong)} at its top; write [[system]] tables, nothing else{hint}")
    if not isinstance(entries, list) or not entries:
        raise SettingError(f"{path.name} has no [[system]] table; write one for each system")
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        merged = _extended(entry, path.name, {**known, **found})
        if merged["name"] in found:
            raise SettingError(f"{path.name} has two systems called {shown(merged['name'])}; give each its own name")
        found[merged["name"]] = merged
    return found


def _extended(entry: Any, file: str, known: Written) -> dict[str, Any]:
    """One ``[[system]]`` table with its name checked, on top of the one that it extends."""
    if not isinstance(entry, dict):
        raise SettingError(f"{file}: system is {shown(entry)}; write [[system]] tables")
    name = entry.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SettingError(f"{file}: a [[system]] has the name {shown(name)}; write letters, digits and . _ - + : /")
    for key in entry:
        if key not in _KEYS:
            allowed = ", ".join(_KEYS)
            raise SettingError(
                f"{file}: system {name!r} has no {shown(key)}; allowed are {allowed}{nearest(key, _KEYS)}"
            )
    if "extends" not in entry:
        return dict(entry)
    base = entry["extends"]
    if not isinstance(base, str) or base not in known:
        hint = nearest(base, known) if isinstance(base, str) else ""
        raise SettingError(f"{file}: system {name!r} extends {shown(base)}; choose one of {', '.join(known)}{hint}")
    own = {key: value for key, value in entry.items() if key != "extends"}
    return {**known[base], **own, **dict(_merged(known[base], own))}


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in _TABLES:
        below, above = base.get(key), own.get(key)
        if isinstance(below, Mapping) and isinstance(above, Mapping):
            # The keys of one capacity policy mean nothing under another.
            other_policy = key == "capacity" and above.get("policy", below.get("policy")) != below.get("policy")
            yield key, dict(above) if other_policy else {**below, **above}


def _system(table: Mapping[str, Any], file: str) -> System:
    name = table["name"]
    description = table.get("description", name)
    if not isinstance(description, str) or not description.strip():
        raise SettingError(f"{file}: description of system {name!r} is {shown(description)}; write a text")
    places = {key: f"{file}: [system.{key}] of {name!r}" for key in _TABLES}
    system = System(
        name=name,
        description=description.strip(),
        **{key: build(cls, table.get(key, {}), places[key]) for key, cls in _TABLES.items()},
    )
    _check_service(system.service, places["service"])
    _check_capacity(system.capacity, table["capacity"], places["capacity"])
    _check_rates(system, places)
    return system


def _check_service(service: profile.Service, place: str) -> None:
    shares, seconds = service.shares, service.seconds
    if len(shares) != len(seconds):
        raise SettingError(
            f"{place} has {len(shares)} shares and {len(seconds)} seconds; write one time for each share"
        )
    if shares[0] != 0 or shares[-1] != 1 or any(a >= b for a, b in pairwise(shares)):
        raise SettingError(f"{place}: shares is {shown(list(shares))}; write rising numbers from 0 to 1")
    if any(a > b for a, b in pairwise(seconds)):
        raise SettingError(f"{place}: seconds is {shown(list(seconds))}; write times that never fall")


_POLICY_KEYS: Final = {"fixed": {"workers"}, "elastic": {"min_workers", "max_workers"}}
_ELASTIC_ONLY: Final = {"min_workers", "max_workers", "spawn_seconds", "idle_seconds"}


def _check_capacity(capacity: profile.Capacity, written: Mapping[str, Any], place: str) -> None:
    policy = capacity.policy
    missing = sorted(_POLICY_KEYS[policy] - written.keys())
    if missing:
        raise SettingError(f"{place} misses {' and '.join(missing)}, which policy {policy!r} needs")
    foreign = sorted(written.keys() & (_ELASTIC_ONLY if policy == "fixed" else {"workers"}))
    if foreign:
        raise SettingError(f"{place} has {foreign[0]}, which policy {policy!r} does not know; drop it, or the policy")
    if policy == "elastic" and capacity.min_workers > capacity.max_workers:
        raise SettingError(
            f"{place}: min_workers is {capacity.min_workers} and max_workers {capacity.max_workers}; "
            "write a range that is not empty"
        )


def _check_rates(system: System, places: Mapping[str, str]) -> None:
    for key, table in (("faults", system.faults), ("json", system.json)):
        rates = {
            one.name: getattr(table, one.name)
            for one in fields(table)
            if one.name.endswith("_rate") and one.name != "transient_rate"
        }
        if sum(rates.values()) > 1:
            raise SettingError(f"{places[key]}: {' + '.join(rates)} is more than 1; a request ends in one way only")
