"""Reading cassettes, whole ones and those that a killed process left behind."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pytest_swarm.errors import CassetteError
from pytest_swarm.sources.cassette.interaction import Interaction, from_vcr
from pytest_swarm.sources.cassette.quickly import read_items

__all__ = ["PART", "Cassette", "form_of", "part_files", "read_cassette"]

PART: Final = ".part"
"""What the name of a file ends with as long as it is being recorded, or because its recording never ended."""

_ITEM: Final = re.compile(r"^- request:", re.MULTILINE)
_FORM: Final = re.compile(rf"\.([a-z]+)(?:~[^.]*)?{re.escape(PART)}$")
"""Of a part's name: ``.yaml.part``, or ``.yaml~gw0.part`` of a worker."""


@dataclass(frozen=True)
class Cassette:
    """What a file holds."""

    path: Path
    interactions: tuple[Interaction, ...]
    complete: bool
    """False for a part: the recording was stopped before its end, and a replay would miss something."""

    @property
    def timed(self) -> bool:
        """Whether every interaction has its timing; False for a file that another program recorded."""
        return all(one.timed for one in self.interactions)

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The models that were asked, in order of first use."""
        return tuple(dict.fromkeys(one.model for one in self.interactions if one.model is not None))

    @cached_property
    def base_urls(self) -> tuple[str, ...]:
        """The addresses that were asked, in order of first use."""
        return tuple(dict.fromkeys(one.base_url for one in self.interactions))

    @cached_property
    def recorded_at(self) -> str | None:
        """When the oldest interaction was recorded (ISO 8601, UTC); None where the file does not say."""
        return min((one.recorded_at for one in self.interactions if one.recorded_at), default=None)

    @property
    def simulated(self) -> str | None:
        """What the simulated gateway that was recorded said of itself; None where no interaction is simulated."""
        return next((one.simulated or "-" for one in self.interactions if one.source == "simulated"), None)


def read_cassette(path: Path) -> Cassette:
    """Read a cassette: JSON where the name says so, else YAML. Of a part, a torn last interaction is left out.

    Raises:
        CassetteError: the file cannot be read as a cassette; the text names it and what is wrong.
    """
    complete = not path.name.endswith(PART)
    try:
        text = path.read_text(encoding="utf-8", errors="strict" if complete else "ignore")
    except (OSError, UnicodeDecodeError) as error:
        raise CassetteError(f"cassette {path} cannot be read: {error}") from None
    with _no_collections():
        items = _items(path, text, complete=complete)
        return Cassette(path, tuple(_interactions(path, items)), complete)


def form_of(path: Path) -> str:
    """``json`` or ``yaml``, by the name; a part has the form of what it is to become."""
    found = _FORM.search(path.name) if path.name.endswith(PART) else None
    return "json" if (found[1] if found else path.suffix[1:].lower()) == "json" else "yaml"


def part_files(path: Path) -> list[Path]:
    """The parts beside a cassette's own place, of any worker, oldest first."""
    if not path.parent.is_dir():
        return []
    found = [
        one
        for one in path.parent.iterdir()
        if one.name.startswith((f"{path.name}.", f"{path.name}~")) and one.name.endswith(PART)
    ]
    return sorted(found, key=lambda one: one.stat().st_mtime)


def _interactions(path: Path, items: list[Any]) -> Iterator[Interaction]:
    for number, item in enumerate(items):
        try:
            yield from_vcr(item)
        except CassetteError as error:
            raise CassetteError(f"cassette {path}, interaction {number}: {error}") from None


def _items(path: Path, text: str, *, complete: bool) -> list[Any]:
    """The items of a file's ``interactions``."""
    is_json = form_of(path) == "json"
    try:
        if is_json:
            parsed = json.loads(text) if complete else _json_lines(text)
        else:
            whole = text if complete else _without_torn(text)
            parsed = read_items(whole) or _yaml(whole)
    except ValueError as error:
        what = " ".join(str(error).split())
        raise CassetteError(f"cassette {path} is not {'JSON' if is_json else 'YAML'}: {what}") from None
    items = parsed.get("interactions") if isinstance(parsed, dict) else parsed
    if not isinstance(items, list):
        raise CassetteError(f"cassette {path} has no list of interactions, as vcrpy writes them")
    return items


def _yaml(text: str) -> Any:
    import yaml

    # Not vcrpy's own reader, which in older versions makes whatever Python object a file names.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text, Loader=loader)  # noqa: S506 - both loaders are safe
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _json_lines(text: str) -> list[Any]:
    """The items of a part: one a line, all but the first behind a comma. What has no end of line was torn."""
    lines = (line.lstrip(",") for line in text.split("\n")[1:-1])
    return [json.loads(line) for line in lines if line.startswith('{"request"')]


def _without_torn(text: str) -> str:
    """The items of a part, without the last if it was not written to its end, which is the line of our own data."""
    starts = [found.start() for found in _ITEM.finditer(text)]
    if not starts:
        return "[]"
    last = text[starts[-1] :]
    whole = last.endswith("}\n") and last.rstrip("\n").rpartition("\n")[2].startswith("    x-swarm: {")
    return text if whole else text[: starts[-1]] if len(starts) > 1 else "[]"


@contextmanager
def _no_collections() -> Iterator[None]:
    """Parsing makes many objects that all stay: looking through them for garbage would take most of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
