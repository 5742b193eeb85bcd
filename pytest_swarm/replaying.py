"""A test that is replayed: which cassette it plays, on which clock, and what that means for its verdict and report."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pytest_swarm.errors import SettingError
from pytest_swarm.judging.genai import GenaiRates
from pytest_swarm.judging.prices import PriceTable
from pytest_swarm.sources.cassette.file import Cassette, part_files, read_cassette
from pytest_swarm.sources.cassette.jsonpath import parse_json_path
from pytest_swarm.sources.cassette.match import Matcher
from pytest_swarm.sources.cassette.names import FORMS, cassette_path, find_cassette
from pytest_swarm.sources.cassette.redact import Redactor
from pytest_swarm.sources.cassette.replay import CassetteSource, Replay, most_at_once

if TYPE_CHECKING:
    from pytest_swarm.judging.verdict import Judgement, Verdict
    from pytest_swarm.settings import Settings

__all__ = ["Replaying", "open_replay"]

_DAY: Final = 86_400.0
_SOON: Final = 0.8
"""Share of the largest age from which on a note tells that it comes near."""
_MORE: Final = 1.1
"""Requests in flight at once by which a replay may exceed its recording: the two do not start at the same instants."""
_NAMES_LOOKED_AT: Final = 5_000


class Replaying:
    """The replay of one test."""

    def __init__(self, cassette: Cassette, settings: Settings, *, is_async: bool) -> None:
        """Raises `SettingError` when the settings do not go together."""
        self.cassette = cassette
        self.clock, self.speed = _clock(settings, is_async=is_async)
        """`virtual` or `real`, and how many seconds pass in one, if not one."""
        self.blocked: list[str] = []
        """What would have left the machine and was stopped, a sentence each."""
        self.told = False
        """Whether the test has failed already with what is wrong."""
        self._settings = settings
        self._slowed = settings.replay_speed != self.speed and not is_async and settings.replay_speed != "real"
        paths = [parse_json_path(text, "ini option swarm_match_ignore") for text in settings.match_ignore]
        self._replay = Replay(cassette, Matcher(paths, Redactor(settings.redact_fields)), self.place)

    def source(self) -> CassetteSource:
        """The source of one run."""
        return self._replay.source()

    def close(self) -> None:
        """Nothing more is asked for: let go of what was recorded, which may be large."""
        self.cassette = replace(self.cassette, interactions=())
        self._replay.close()

    # --- what was recorded --------------------------------------------------------------------------------------------

    @property
    def base_url(self) -> str | None:
        """The address that was recorded; None for the simulated gateway inside the process, and an empty cassette."""
        return next((url for url in self.cassette.base_urls if not url.startswith("http://simulated.localhost")), None)

    @property
    def hosts(self) -> set[str]:
        """Whose model calls were recorded, and whoever is the gateway today."""
        urls = [*self.cassette.base_urls, *([self._settings.base_url] if self._settings.base_url else [])]
        return {host for url in urls if (host := urlsplit(url).hostname)}

    @property
    def model(self) -> str | None:
        """The model that was asked, the first of several."""
        return next(iter(self.cassette.models), None)

    @property
    def untimed(self) -> str | None:
        """Why no time is known; None where times are."""
        return None if self.cassette.timed else f"the cassette {self.place} was recorded without timing"

    @property
    def place(self) -> str:
        """The cassette's file as seen from the directory of the ini file."""
        path, root = self.cassette.path, self._settings.root
        return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()

    @cached_property
    def public(self) -> GenaiRates:
        """Rates of public models on the day of the recording: it cost what it cost then."""
        recorded = self._recorded_at
        day: date = datetime.now(UTC).date() if recorded is None else recorded.date()
        return GenaiRates(self._settings.prices_date or day, self.base_url)

    @cached_property
    def prices(self) -> PriceTable:
        """What the recording cost."""
        return PriceTable(self._settings.prices, self.public)

    # --- what came of it ----------------------------------------------------------------------------------------------

    @property
    def problem(self) -> str | None:
        """What is wrong with the replay itself: it fails the test whatever a body made of it."""
        found = [one for one in (self._replay.problem, *self.blocked[:1]) if one is not None]
        if self._replay.missed:
            found.append("record it again with --swarm-record --swarm-record-mode all if the test has changed")
        return "; ".join(found) or None

    def judged(self, judgement: Judgement) -> Judgement:
        """The judgement of the measured test, with what is to be said of the replay."""
        if judgement.verdict == "interrupted":
            return judgement
        if self.problem is not None:
            return replace(judgement, verdict="fail", reasons=[self.problem, *judgement.reasons])
        if self._too_old is not None and judgement.verdict != "skipped":
            verdict: Verdict = "fail" if judgement.verdict == "fail" else "invalid"
            return replace(judgement, verdict=verdict, reasons=[*judgement.reasons, self._too_old])
        return judgement

    @property
    def _too_old(self) -> str | None:
        most, age = self._settings.cassette_max_age, self.age
        if most is None or (age is not None and age <= most):
            return None
        if age is None:
            found = "does not say when it was recorded"
        else:
            found = f"is {_days(age)} old, recorded {self.cassette.recorded_at}"
        return f"the cassette {self.place} {found}, and swarm_cassette_max_age allows {_days(most)}: record it again"

    @property
    def age(self) -> float | None:
        """Seconds since the oldest exchange was recorded; None where the cassette does not say."""
        recorded = self._recorded_at
        return None if recorded is None else max(0.0, (datetime.now(UTC) - recorded).total_seconds())

    @property
    def _recorded_at(self) -> datetime | None:
        try:
            found = datetime.fromisoformat(self.cassette.recorded_at or "")
        except ValueError:
            return None
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

    def notes(self) -> Iterator[str]:
        """What a reader of the figures should know."""
        replay, held = self._replay, len(self.cassette.interactions)
        if replay.unused:
            yield f"fewer requests than recorded: {held - replay.unused} of {held} exchanges were asked for"
        if replay.missed:
            yield f"more requests than recorded: {replay.missed} of {replay.asked} found no answer"
        recorded = most_at_once(self.cassette.interactions)
        if recorded is not None and replay.in_flight_max > int(recorded * _MORE):
            yield (
                f"up to {replay.in_flight_max} requests were in flight at once, {recorded} when it was recorded: "
                "how the gateway answers under more load is not in the recording"
            )
        if self.untimed is not None:
            yield f"{self.untimed}: no time and no rate is known"
        if self._slowed:
            yield "a sync body takes real time: it was replayed at the speed of the recording"
        most, age = self._settings.cassette_max_age, self.age
        if most is not None and age is not None and _SOON * most < age <= most:
            yield f"the cassette is {_days(age)} old; swarm_cassette_max_age allows {_days(most)}"

    def to_dict(self) -> dict[str, Any]:
        """What reports tell of the replay, plain data."""
        replay = self._replay
        return {
            "cassette": self.place,
            "recorded_at": self.cassette.recorded_at,
            "age": self.age,
            "simulated": self.cassette.simulated,
            "models": list(self.cassette.models),
            "timed": self.cassette.timed,
            "speed": self.clock if self.speed is None else self.speed,
            "recorded": len(self.cassette.interactions),
            "asked": replay.asked,
            "missed": replay.missed,
            "unused": replay.unused,
            "in_flight_max": replay.in_flight_max,
            "recorded_in_flight_max": most_at_once(self.cassette.interactions),
        }


def open_replay(
    directory: Path, nodeid: str, number: int, settings: Settings, *, is_async: bool, optional: bool = False
) -> Replaying:
    """The replay of a swarm. Where it is `optional`, because the swarms are inside the test, an empty cassette will do.

    Raises:
        SettingError: there is no cassette, or the settings do not go together.
        CassetteError: the cassette cannot be read.
    """
    found = find_cassette(directory, nodeid, number=number)
    if found is None and not optional:
        raise SettingError(_missing(directory, nodeid, number, settings))
    path = cassette_path(directory, nodeid, number=number) if found is None else found
    cassette = Cassette(path, (), complete=True) if found is None else read_cassette(path)
    return Replaying(cassette, settings, is_async=is_async)


def _clock(settings: Settings, *, is_async: bool) -> tuple[str, float | None]:
    speed, clock = settings.replay_speed, settings.clock
    if clock == "virtual" and speed != "virtual":
        raise SettingError(f"--swarm-clock virtual and --swarm-replay-speed {speed} exclude each other; drop one")
    if clock == "virtual" and not is_async:
        raise SettingError("--swarm-clock virtual needs an async test: a sync body runs in threads, on the real clock")
    if speed == "virtual":
        return ("virtual" if is_async and clock != "real" else "real"), None
    return "real", None if speed in ("real", 1) or not is_async else float(speed)


def _missing(directory: Path, nodeid: str, number: int, settings: Settings) -> str:
    """That there is no cassette, how to make it, and what there is instead."""
    path = cassette_path(directory, nodeid, number=number)
    root = settings.root
    place = (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()
    begun = [part for form in FORMS for part in part_files(path.with_suffix(f".{form}"))]
    hint = f"; a recording was begun and not completed ({begun[0].name})" if begun else _near(directory, path)
    return f"nothing to replay: there is no cassette {place}; record it with: pytest --swarm-record '{nodeid}'{hint}"


def _near(directory: Path, path: Path) -> str:
    names = []
    for form in FORMS:
        for one in directory.rglob(f"*.{form}"):
            names.append(one.relative_to(directory).as_posix())
            if len(names) > _NAMES_LOOKED_AT:
                break
    found = difflib.get_close_matches(path.relative_to(directory).as_posix(), names, n=1, cutoff=0.6)
    return f"; nearest is {found[0]!r}" if found else ""


def _days(seconds: float) -> str:
    days = seconds / _DAY
    return f"{days:,.0f} days" if days >= 2 else f"{seconds / 3600:,.0f} hours"
