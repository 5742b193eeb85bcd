"""The tables ``[tool.pytest_swarm.prices]`` and ``[tool.pytest_swarm.workloads]`` of the project's pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.values import shown

__all__ = ["NAMES", "Tables", "read_tables"]

NAMES: Final = ("prices", "workloads")


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables as they are written; what their entries mean is known where they are used."""

    prices: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By ``provider/model``."""
    workloads: dict[str, Any] = field(default_factory=dict)
    """By name; lists, or tables."""


def read_tables(rootpath: Path) -> Tables:
    """Read ``pyproject.toml`` at `rootpath`; without the file, or the tables in it, they are empty."""
    section = _section(rootpath / "pyproject.toml")
    for name, content in section.items():
        if name not in NAMES:
            options = "" if isinstance(content, dict) else ", and options stand in pytest's own section as swarm_..."
            raise SettingError(
                f"pyproject.toml: [tool.pytest_swarm] has no {shown(name)}; allowed are the tables "
                f"{', '.join(NAMES)}{options}{nearest(name, NAMES)}"
            )
        if not isinstance(content, dict):
            raise SettingError(f"pyproject.toml: tool.pytest_swarm.{name} is {shown(content)}; write a table")
        for entry, fields in content.items():
            # A workload may be a list alone; its own parser says what it may be.
            if name != "workloads" and not isinstance(fields, dict):
                raise SettingError(
                    f"pyproject.toml: [tool.pytest_swarm.{name}] has {shown(entry)} = {shown(fields)}; "
                    f'write each entry as a table of its own, such as [tool.pytest_swarm.{name}."openai/gpt-4o"]'
                )
    return Tables(**section)


def _section(path: Path) -> dict[str, Any]:
    # Parsing costs a millisecond that projects without the file, and test runs without tables, need not pay.
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"pyproject.toml: cannot be read ({_reason(error)}); see {path}") from None
    if "pytest_swarm" not in text:
        return {}
    import tomllib

    try:
        tool = tomllib.loads(text).get("tool", {})
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"pyproject.toml: is not TOML ({_reason(error)}); see {path}") from None
    section = tool.get("pytest_swarm", {}) if isinstance(tool, dict) else {}
    if not isinstance(section, dict):
        raise SettingError(f"pyproject.toml: tool.pytest_swarm is {shown(section)}; write a table")
    return section


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else str(error)
    return " ".join((text or type(error).__name__).split())
