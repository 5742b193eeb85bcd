"""What the small languages mean."""

from __future__ import annotations

import math
import string
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.errors import SettingError
from pytest_swarm.values import (
    Limit,
    Stage,
    parse_choice,
    parse_concurrency,
    parse_count,
    parse_duration,
    parse_limits,
    parse_money,
    parse_probability,
    parse_project,
    parse_rate,
    parse_speed,
    parse_stages,
    parse_text,
    plain,
    shown,
)

PARSERS = (
    parse_concurrency,
    parse_count,
    parse_duration,
    parse_limits,
    parse_money,
    parse_probability,
    parse_project,
    parse_rate,
    parse_speed,
    parse_stages,
    parse_text,
)
POSITIVE = st.floats(min_value=1e-6, max_value=1e9)
FACTORS = {"": 1, "ms": Fraction(1, 1000), "s": 1, "m": 60, "h": 3600}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (30, 30),
        (0.25, 0.25),
        (Decimal("1.5"), 1.5),
        ("30", 30),
        ("250ms", 0.25),
        ("30s", 30),
        (" 2 m ", 120),
        ("1h", 3600),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1_000s", 1000),
    ],
)
def test_durations(value: object, seconds: float) -> None:
    assert parse_duration(value, "x") == pytest.approx(seconds, rel=1e-15)


@given(number=POSITIVE, unit=st.sampled_from(sorted(FACTORS)))
def test_a_duration_is_its_number_times_its_unit(number: float, unit: str) -> None:
    exact = Fraction(number) * FACTORS[unit]
    assert math.isclose(parse_duration(f"{number!r}{unit}", "x"), exact, rel_tol=1e-15)


@given(number=st.floats() | st.integers() | st.booleans())
def test_a_bare_number_is_seconds_exactly_when_it_is_finite_and_above_zero(number: float) -> None:
    usable = not isinstance(number, bool) and 0 < number <= sys.float_info.max
    if usable:
        assert parse_duration(number, "x") == float(number)
    else:
        with pytest.raises(SettingError):
            parse_duration(number, "x")


@pytest.mark.parametrize(("text", "rate"), [("40/s", 40), ("2400/min", 40), ("0.5 / s", 0.5), ("6k/min", 100)])
def test_rates(text: str, rate: float) -> None:
    assert parse_rate(text, "x") == rate


@pytest.mark.parametrize("value", [10**400, "1__0s", "_1"])
def test_a_number_too_large_or_badly_grouped_is_no_duration(value: object) -> None:
    with pytest.raises(SettingError, match="duration"):
        parse_duration(value, "x")


@given(number=POSITIVE)
def test_a_rate_per_minute_is_a_sixtieth_of_one_per_second(number: float) -> None:
    assert parse_rate(f"{number!r}/s", "x") == number
    assert math.isclose(parse_rate(f"{number!r}/min", "x"), Fraction(number) / 60, rel_tol=1e-15)


@given(number=POSITIVE)
def test_a_number_written_plainly_is_the_same_number(number: float) -> None:
    assert float(plain(number)) == number
    assert parse_rate(f"{plain(number)}/s", "x") == number


@given(
    value=st.one_of(
        st.text(),
        st.text(alphabet=string.digits + "./-+_ esminhkM$%burtokn", max_size=12),
        st.none(),
        st.booleans(),
        st.floats(),
        st.integers(),
        st.lists(st.text(max_size=3) | st.integers(), max_size=3),
        st.lists(st.tuples(st.text(max_size=3), st.integers()), max_size=3),
        st.binary(),
    ),
    parse=st.sampled_from(PARSERS),
)
def test_every_value_is_understood_or_refused_in_one_line(value: object, parse: Any) -> None:
    answer = "--swarm-x: "
    try:
        parse(value, "--swarm-x")
    except SettingError as error:
        answer = str(error)
    assert answer.startswith("--swarm-x: ")
    assert len(answer.splitlines()) == 1
    assert len(answer) < 300


@pytest.mark.parametrize(
    ("value", "dollars"), [("$2", 2), (2, 2), ("2.50", 2.5), ("$0.10", 0.1), (" $ 1_000 ", 1000), (Decimal("0.3"), 0.3)]
)
def test_money(value: object, dollars: float) -> None:
    assert parse_money(value, "x") == dollars


@pytest.mark.parametrize(("value", "share"), [(0.95, 0.95), ("0.95", 0.95), ("95%", 0.95), ("99.9 %", 0.999)])
def test_probabilities(value: object, share: float) -> None:
    assert parse_probability(value, "x") == pytest.approx(share)


@pytest.mark.parametrize("value", [0, 1, -0.5, "0%", "100%", True, "95s", None])
def test_a_probability_is_above_0_and_below_1(value: object) -> None:
    with pytest.raises(SettingError, match="is not a share between 0 and 1"):
        parse_probability(value, "x")


def test_counts_group_digits_and_take_every_kind_of_whole_number() -> None:
    class Seven:
        def __index__(self) -> int:
            return 7

        def __int__(self) -> int:
            return 7

    assert parse_count("1_000", "x") == 1000
    assert parse_count(" 50 ", "x") == 50
    assert parse_count(Seven(), "x") == 7
    assert parse_count("0", "x", minimum=0) == 0


@pytest.mark.parametrize(("value", "speed"), [("virtual", "virtual"), ("real", "real"), ("10", 10.0), (0.5, 0.5)])
def test_replay_speeds(value: object, speed: object) -> None:
    assert parse_speed(value, "x") == speed


@pytest.mark.parametrize("value", [0, "-1", "2s", None])
def test_a_replay_speed_is_a_word_or_a_factor(value: object) -> None:
    with pytest.raises(SettingError, match="write virtual, real, or a number above 0"):
        parse_speed(value, "x")


@pytest.mark.parametrize(
    ("text", "tasks"), [("1_000_000/month", 1_000_000), ("1M / month", 1_000_000), ("2.5k/month", 2500)]
)
def test_projections(text: str, tasks: int) -> None:
    assert parse_project(text, "x") == tasks


@pytest.mark.parametrize("text", ["0/month", "0.5/month", "1e400/month", "10 apples/month", "10/month burst 3"])
def test_a_projection_is_a_whole_number_of_tasks(text: str) -> None:
    with pytest.raises(SettingError, match="is not a number of tasks a month"):
        parse_project(text, "x")


def test_a_limit_on_requests_with_a_burst() -> None:
    (limit,) = parse_limits("40/s burst 50", "x")
    assert limit == Limit("requests", 40, "s", 50)
    assert limit.per_second == 40


def test_a_limit_on_tokens_per_minute() -> None:
    (limit,) = parse_limits("200k tokens/min", "x")
    assert limit == Limit("tokens", 200_000, "min", None)
    assert limit.per_second == pytest.approx(3333.333, abs=0.001)


def test_limits_on_requests_and_tokens_together() -> None:
    limits = parse_limits(["40 requests/s", "2M tokens/min burst 50k"], "x")
    assert [str(limit) for limit in limits] == ["40/s", "2000000 tokens/min burst 50000"]


@given(
    unit=st.sampled_from(["requests", "tokens"]),
    amount=POSITIVE,
    period=st.sampled_from(["s", "min"]),
    burst=st.none() | POSITIVE,
)
def test_a_limit_is_read_back_from_its_text(unit: Any, amount: float, period: Any, burst: float | None) -> None:
    limit = Limit(unit, amount, period, burst)
    assert parse_limits(str(limit), "x") == (limit,)


def test_stages_of_tasks_in_flight_and_stages_of_rates() -> None:
    assert parse_stages([("30s", 50), (60, "100")], "x") == (
        Stage(30, 50, "concurrency"),
        Stage(60, 100, "concurrency"),
    )
    assert parse_stages([["1m", "40/s"]], "x") == (Stage(60, 40.0, "rate"),)


@pytest.mark.parametrize("value", [50, "50", " 50 "])
def test_a_fixed_concurrency(value: object) -> None:
    assert parse_concurrency(value, "x") == 50


@pytest.mark.parametrize("text", ["8..256", " 8 .. 256 "])
def test_a_concurrency_that_adapts(text: str) -> None:
    assert parse_concurrency(text, "x") == (8, 256)


@pytest.mark.parametrize("text", ["8...256", "8..", "..", "1-2-3", "0..4", "a..b"])
def test_a_range_needs_two_ends_in_order(text: str) -> None:
    with pytest.raises(SettingError, match="is not a range of tasks in flight"):
        parse_concurrency(text, "x")


def test_a_negative_concurrency_is_no_range() -> None:
    with pytest.raises(SettingError, match="'-5' is not a whole number"):
        parse_concurrency("-5", "x")


def test_a_choice_that_is_no_text_gets_no_suggestion() -> None:
    with pytest.raises(SettingError) as error:
        parse_choice(3, "x", ("auto", "real"))
    assert str(error.value) == "x: 3 is not allowed; choose one of auto, real"


def test_texts_are_stripped() -> None:
    assert parse_text("  gpt-6-agent ", "x") == "gpt-6-agent"


def test_values_are_shown_on_one_line_and_cut() -> None:
    class Loud:
        def __repr__(self) -> str:
            return "first\n  second"

    assert shown(Loud()) == "first second"
    assert len(shown("x" * 500)) == 60


def test_plain_numbers_lose_nothing() -> None:
    assert [plain(40.0), plain(0.1), plain(1e20), plain(1e-7)] == ["40", "0.1", "1e+20", "1e-07"]
