"""What the user set, from the command line, the ini file, the environment and pyproject.toml, checked and typed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from pytest_swarm import available
from pytest_swarm.credentials import Secret, find_key, parse_base_url
from pytest_swarm.errors import SettingError
from pytest_swarm.judging.workloads import Workload, parse_workloads
from pytest_swarm.options import OPTIONS, Option, register
from pytest_swarm.swarm.plan import Layer
from pytest_swarm.tables import read_tables
from pytest_swarm.values import shown

__all__ = ["BASE_URL_VARIABLE", "Config", "Layer", "Settings", "read_settings", "register"]

BASE_URL_VARIABLE: Final = "SWARM_BASE_URL"
"""The environment variable that names the gateway: above the ini file, below the command line."""


class Config(Protocol):
    """The part of `pytest.Config` that is read."""

    def getoption(self, name: str) -> Any:
        """The value on the command line, or None."""

    def getini(self, name: str) -> Any:
        """The value in the ini file, or None."""

    @property
    def rootpath(self) -> Path:
        """The directory of pyproject.toml."""

    @property
    def inipath(self) -> Path | None:
        """The ini file, from whose directory its relative paths count."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Every option, typed. None, False or () is what was not given, unless a default is named here.

    Options that a marker can say too are in `command_line` and `ini`, because the marker stands between the two.
    Durations are seconds, money is US dollars, paths are absolute.
    """

    command_line: Layer = field(default_factory=Layer)
    ini: Layer = field(default_factory=Layer)
    root: Path = field(default=Path(), compare=False)
    """The directory of the ini file: what relative paths in markers count from."""
    base_url: str | None = None
    """None: the gateway is simulated."""
    api_key: Secret | None = None
    """The key to send to `base_url`."""
    api_key_variable: str | None = None
    """The environment variable that `api_key` came from."""
    headers: tuple[tuple[str, Secret], ...] = ()
    clock: str = "auto"
    systems: Path | None = None
    record: bool = False
    record_mode: str = "missing"
    replay: bool = False
    replay_speed: float | str = "virtual"
    """`virtual`, `real`, or how many times faster than recorded."""
    cassette_dir: Path | None = None
    sla: tuple[str, ...] = ()
    """Expressions for every swarm, as they were written."""
    max_cost: float | None = None
    """Ceiling for the whole pytest run; the marker's `max_cost` is one for its swarm."""
    plan: bool = False
    baseline: Path | None = None
    benchmark: bool = False
    """Whether every run makes entries of pytest-benchmark."""
    json: Path | None = None
    html: Path | None = None
    samples: Path | None = None
    project: int | None = None
    """Tasks a month."""
    no_progress: bool = False
    ray_address: str | None = None
    hosts: tuple[str, ...] = ()
    match_ignore: tuple[str, ...] = ()
    redact_fields: tuple[str, ...] = ()
    """Names of JSON fields whose values are in no cassette."""
    cassette_format: str = "yaml"
    cassette_max_age: float | None = None
    prices_date: date | None = None
    """The day whose prices of public models count; None: that of the run."""
    prices: dict[str, dict[str, Any]] = field(default_factory=dict)
    workloads: tuple[Workload, ...] = ()

    def confidence_of(self, marked: float | None) -> float | None:
        """With which levels must be proven, where their marker says `marked`; None where what is observed decides."""
        return next((one for one in self._layered("confidence", marked) if one is not None), None)

    def abort_of(self, marked: bool | None) -> bool:
        """Whether a run ends once a level is lost whose marker says `marked`."""
        return next((bool(one) for one in self._layered("abort", marked) if one is not None), False)

    def _layered(self, name: str, marked: Any) -> tuple[Any, ...]:
        return getattr(self.command_line, name), marked, getattr(self.ini, name)


def read_settings(config: Config, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read and check everything that was set.

    Raises:
        SettingError: a value cannot be used, or two do not go together.
        NotAvailable: everything is right, and this version cannot do it yet.
    """
    command_line = _command_line(config)
    told = _Told(command_line, _without_other_mode(command_line, _ini(config)))
    tables = read_tables(config.rootpath)
    base_url = told.command_line.get("base-url") or _base_url(environ) or told.ini.get("base-url")
    named = told.value("api-key-env")
    replay = bool(told.value("replay"))
    key, variable = (None, None) if replay else find_key(environ, named, told.place("api-key-env"), base_url)
    told.check_available()
    return Settings(
        command_line=_layer(told.command_line),
        ini=_layer(told.ini),
        root=_base(config),
        base_url=base_url,
        api_key=key,
        api_key_variable=variable,
        headers=told.value("header"),
        prices=tables.prices,
        workloads=_workloads(tables.workloads),
        **{name.replace("-", "_"): told.value(name) for name in _PLAIN},
    )


_BY_NAME: Final[Mapping[str, Option]] = {option.name: option for option in OPTIONS}
_LAYERED: Final = tuple(item.name for item in fields(Layer))
_PLAIN: Final = tuple(name for name in _BY_NAME if name not in {*_LAYERED, "base-url", "api-key-env", "header"})


@dataclass(frozen=True, slots=True)
class _Told:
    """Parsed values by the option's name, for the two places where options stand; what was not given is absent."""

    command_line: dict[str, Any]
    ini: dict[str, Any]

    def value(self, name: str) -> Any:
        """What holds: command line > ini > default."""
        return self.command_line.get(name, self.ini.get(name, _BY_NAME[name].default))

    def place(self, name: str) -> str:
        """Where the value that holds was written."""
        option = _BY_NAME[name]
        return option.flag if name in self.command_line else _ini_place(option)

    def check_available(self) -> None:
        """Refuse what is set, holds, and differs from the default, when this version does not have it."""
        for name, value in {**self.ini, **self.command_line}.items():
            if value not in (_BY_NAME[name].default, False):
                available.require(name, available.OPTIONS, self.place(name))


def _without_other_mode(command_line: Mapping[str, Any], ini: Mapping[str, Any]) -> dict[str, Any]:
    """The ini file's values; recording or replaying on the command line turns off both of them there."""
    if command_line.get("record") and command_line.get("replay"):
        raise SettingError("--swarm-record and --swarm-replay exclude each other; drop one")
    mode = command_line.get("record-mode", "missing")
    if mode != "missing" and not command_line.get("record") and not ini.get("record"):
        raise SettingError(
            f"--swarm-record-mode {mode} says how to record, and nothing is recorded; add --swarm-record"
        )
    if command_line.get("record") or command_line.get("replay"):
        return {name: value for name, value in ini.items() if name not in {"record", "replay"}}
    if ini.get("record") and ini.get("replay"):
        raise SettingError("ini options swarm_record and swarm_replay exclude each other; drop one")
    return dict(ini)


def _layer(values: Mapping[str, Any]) -> Layer:
    return Layer(**{name: values[name] for name in _LAYERED if name in values})


def _workloads(table: Mapping[str, Any]) -> tuple[Workload, ...]:
    try:
        return parse_workloads(table)
    except SettingError as error:
        raise SettingError(f"pyproject.toml: {error}") from None


def _base_url(environ: Mapping[str, str]) -> str | None:
    text = environ.get(BASE_URL_VARIABLE, "").strip()
    return parse_base_url(text, f"environment variable {BASE_URL_VARIABLE}") if text else None


# --- the two places ---------------------------------------------------------------------------------------------------


def _command_line(config: Config) -> dict[str, Any]:
    options = (option for option in OPTIONS if not option.ini_only)
    written = ((option, config.getoption(option.key)) for option in options)
    return {
        option.name: _parse(option, value, option.flag, Path.cwd()) for option, value in written if value is not None
    }


def _ini(config: Config) -> dict[str, Any]:
    base = _base(config)
    return {
        option.name: _parse(option, value, _ini_place(option), base)
        for option, value in _written_in_ini(config)
        if value not in (None, [])
    }


def _base(config: Config) -> Path:
    return config.rootpath if config.inipath is None else config.inipath.parent


def _written_in_ini(config: Config) -> Iterable[tuple[Option, Any]]:
    for option in OPTIONS:
        try:
            yield option, config.getini(option.key)
        except (TypeError, ValueError, pytest.UsageError) as error:
            allowed = {"flag": "true or false", "list": "a list of texts"}.get(option.kind, "a text, in quotes in TOML")
            reason = " ".join(str(error).split())
            raise SettingError(f"{_ini_place(option)}: {reason}; write {allowed}") from None


def _ini_place(option: Option) -> str:
    return f"ini option {option.key}"


def _parse(option: Option, value: Any, what: str, base: Path) -> Any:
    if option.kind == "flag":
        return bool(value)
    if option.kind == "list":
        return tuple(option.parse(item, what) for item in value)
    parsed = option.parse(value, what)
    return parsed if option.kind == "value" else _path(option, parsed, base, what)


def _path(option: Option, written: str, base: Path, what: str) -> Path:
    path = base / written
    try:
        folder, exists = path.is_dir(), path.exists()
    except OSError as error:
        raise SettingError(f"{what}: {shown(written)} cannot be used ({error.strerror}); name another path") from None
    if option.kind == "folder":
        if exists and not folder:
            raise SettingError(f"{what}: {shown(written)} is a file; name a directory")
    elif folder:
        raise SettingError(f"{what}: {shown(written)} is a directory; name a file")
    elif option.kind == "input" and not exists:
        raise SettingError(f"{what}: {shown(written)} does not exist; name a file that does")
    return path
