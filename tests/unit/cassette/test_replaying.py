"""The replay of a test: its clock, its age, what it is told to be a replay of."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_swarm.columns import SwarmResult
from pytest_swarm.errors import SettingError
from pytest_swarm.judging.verdict import Judgement, judge
from pytest_swarm.replaying import Replaying, open_replay
from pytest_swarm.settings import Settings
from pytest_swarm.sources.cassette.file import Cassette
from pytest_swarm.sources.cassette.interaction import Interaction
from tests.unit.cassette.cassette_samples import STREAMED, request

DAY = 86_400.0


def replaying(*interactions: Interaction, is_async: bool = True, **settings: Any) -> Replaying:
    cassette = Cassette(Path("/root/cassettes/c.yaml"), interactions or (STREAMED,), complete=True)
    return Replaying(cassette, Settings(root=Path("/root"), **settings), is_async=is_async)


@pytest.mark.parametrize(
    ("settings", "clock"),
    [
        ({}, ("virtual", None)),
        ({"is_async": False}, ("real", None)),
        ({"clock": "real"}, ("real", None)),
        ({"clock": "virtual"}, ("virtual", None)),
        ({"replay_speed": "real"}, ("real", None)),
        ({"replay_speed": 1.0}, ("real", None)),
        ({"replay_speed": 10.0}, ("real", 10.0)),
        ({"replay_speed": 10.0, "is_async": False}, ("real", None)),
    ],
)
def test_clock_and_speed(settings: Any, clock: Any) -> None:
    found = replaying(**settings)
    assert (found.clock, found.speed) == clock
    assert any("takes real time" in note for note in found.notes()) == (not settings.get("is_async", True))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"clock": "virtual", "replay_speed": "real"}, "--swarm-replay-speed real exclude each other; drop one"),
        ({"clock": "virtual", "replay_speed": 2.0}, "--swarm-clock virtual and --swarm-replay-speed 2.0 exclude"),
        ({"clock": "virtual", "is_async": False}, "--swarm-clock virtual needs an async test"),
        ({"match_ignore": ("a..b",)}, "ini option swarm_match_ignore: 'a..b' is no path to a JSON value"),
    ],
)
def test_settings_that_cannot_be(settings: Any, told: str) -> None:
    with pytest.raises(SettingError, match=told.replace("..", r"\.\.")):
        replaying(**settings)


def test_whose_answers_they_are() -> None:
    other = replace(STREAMED, request=request({"model": "n"}, url="https://h.example/api/v1/messages"))
    found = replaying(STREAMED, other, base_url="https://today.example/v1")
    assert (found.base_url, found.model, found.untimed) == ("http://127.0.0.1:8000/v1", "m", None)
    assert found.hosts == {"127.0.0.1", "h.example", "today.example"}
    told = found.to_dict()
    assert (told["cassette"], told["models"], told["recorded"]) == ("cassettes/c.yaml", ["m", "n"], 2)
    inside = replace(STREAMED, request=request(url="http://simulated.localhost/v1/chat/completions"))
    assert replaying(inside).base_url is None


def test_prices_are_those_of_the_day_of_the_recording() -> None:
    assert replaying().public.on == date(2026, 1, 2)
    assert replaying(prices_date=date(2025, 5, 5)).public.on == date(2025, 5, 5)
    assert replaying(replace(STREAMED, recorded_at="")).public.on == datetime.now(UTC).date()


def judged(verdict: str, found: Replaying) -> Judgement:
    nothing = judge(SwarmResult("t", "m", "replay", None, "virtual", {}), ())
    return found.judged(replace(nothing, verdict=verdict, reasons=[] if verdict == "pass" else ["as measured"]))


@pytest.mark.parametrize(
    ("days", "most", "verdict", "noted"),
    [
        (10, None, "pass", False),
        (10, 30, "pass", False),
        (25, 30, "pass", True),
        (31, 30, "invalid", False),
        (None, 30, "invalid", False),
        (None, None, "pass", False),
    ],
)
def test_age(days: int | None, most: int | None, verdict: str, noted: bool) -> None:
    moment = "" if days is None else (datetime.now(UTC) - timedelta(days=days)).isoformat()
    found = replaying(replace(STREAMED, recorded_at=moment), cassette_max_age=most and most * DAY)
    judgement = judged("pass", found)
    assert judgement.verdict == verdict
    assert bool(judgement.reasons) == (verdict != "pass")
    assert any("swarm_cassette_max_age allows 30 days" in note for note in found.notes()) == noted
    assert (found.age is None) == (days is None)


def test_what_failed_outweighs_an_age_and_what_was_skipped_or_stopped_stays_so() -> None:
    found = replaying(replace(STREAMED, recorded_at="2020-01-01T00:00:00"), cassette_max_age=DAY)
    assert judged("fail", found).verdict == "fail"
    assert judged("fail", found).reasons[0] == "as measured"
    assert [judged(verdict, found).verdict for verdict in ("skipped", "interrupted")] == ["skipped", "interrupted"]


def test_what_was_blocked_fails_whatever_was_measured() -> None:
    found = replaying()
    found.blocked += ["a connection to a.example was stopped", "a connection to b.example was stopped"]
    assert found.problem == "a connection to a.example was stopped"
    for verdict in ("pass", "invalid", "skipped", "fail"):
        assert judged(verdict, found).verdict == "fail"
        assert judged(verdict, found).reasons[0] == found.problem
    assert judged("interrupted", found).verdict == "interrupted"


def test_a_test_whose_swarms_are_inside_needs_no_cassette_of_its_own(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path)
    found = open_replay(tmp_path / "cassettes", "t.py::test_a", 0, settings, is_async=True, optional=True)
    assert (found.model, found.base_url, found.to_dict()["recorded"]) == (None, None, 0)
    with pytest.raises(SettingError, match=r"there is no cassette cassettes/t/test_a\.swarm-1\.yaml; record it with"):
        open_replay(tmp_path / "cassettes", "t.py::test_a", 1, settings, is_async=True)


def test_a_closed_replay_holds_nothing() -> None:
    found = replaying()
    found.close()
    assert (found.cassette.interactions, found.to_dict()["unused"]) == ((), 0)
