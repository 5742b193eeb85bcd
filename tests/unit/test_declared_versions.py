"""The oldest releases that pyproject.toml allows are those that tox tests with."""

from __future__ import annotations

import configparser
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_tox_pins_every_dependency_to_its_lower_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    allowed = dict(requirement.split(">=") for requirement in project["dependencies"])
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    lowest = [line.partition(":")[2].strip() for line in tox["testenv"]["deps"].splitlines() if "lowest:" in line]
    pinned = dict(requirement.split("==") for requirement in lowest)
    assert {name: pinned[name] for name in allowed} == allowed
