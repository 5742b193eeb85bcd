"""Numbers as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.errors import SettingError
from pytest_swarm.reports.figures import (
    cells,
    count,
    duration,
    ellipsis_end,
    ellipsis_middle,
    figure,
    money,
    number,
    one_line,
    rate,
    share,
    span,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (0.0004, "0.4ms"),
        (0.00994, "9.9ms"),
        (0.00996, "10ms"),
        (0.84, "840ms"),
        (0.9996, "1.00s"),
        (1.84, "1.84s"),
        (9.996, "10.0s"),
        (12.34, "12.3s"),
        (59.96, "1m00s"),
        (123, "2m03s"),
        (3599.6, "1h00m"),
        (3720, "1h02m"),
        (-1.84, "-1.84s"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(30.0, "30s"), (0.25, "0.25s"), (90.0, "1m30s")])
def test_spans_that_somebody_asked_for(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("dollars", "text"),
    [
        (0, "$0"),
        (0.0004, "$0.0004"),
        (0.00041239, "$0.000412"),
        (0.082, "$0.082"),
        (0.1, "$0.10"),
        (0.9996, "$1.00"),
        (0.9994, "$0.999"),
        (1234.5, "$1,234.50"),
        (-0.5, "-$0.50"),
    ],
)
def test_money(dollars, text):
    assert money(dollars) == text


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(0, "0/s"), (42.31, "42.3/s"), (0.42, "0.42/s"), (0.05, "3/min"), (1234.4, "1,234/s"), (9.996, "10.0/s")],
)
def test_rates(per_second, text):
    assert rate(per_second) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0, "0.0%"),
        (1, "100.0%"),
        (0.96, "96.0%"),
        (0.9996, "99.96%"),
        (0.00001, "0.001%"),
        (0.99999999, "> 99.9999%"),
        (1e-9, "< 0.0001%"),
    ],
)
def test_shares_never_read_whole_when_they_are_not(fraction, text):
    assert share(fraction) == text


@given(st.floats(0, 1))
def test_a_share_reads_100_percent_only_when_nothing_is_missing(fraction):
    assert (share(fraction) == "100.0%") == (fraction == 1)
    assert (share(fraction) == "0.0%") == (fraction == 0)


@pytest.mark.parametrize(
    ("value", "text"), [(7, "7"), (12345, "12,345"), (42.31, "42.3"), (0.42, "0.42"), (1.5, "1.50"), (-0.25, "-0.25")]
)
def test_plain_numbers(value, text):
    assert number(value) == text


@given(st.floats(1e-6, 1e6))
def test_figures_are_never_off_by_more_than_their_last_digit(value):
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=0.006)
    assert float(money(value)[1:].replace(",", "")) == pytest.approx(value, rel=0.006)


def test_counts_have_their_plural():
    assert count(1, "task") == "1 task"
    assert count(1000, "task") == "1,000 tasks"
    assert (count(1, "retry", "retries"), count(2, "retry", "retries")) == ("1 retry", "2 retries")


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("latency.p99.9", 1.84, "1.84s"),
        ("latency.count", 500.0, "500"),
        ("ttft[plan.v1].p95", 0.21, "210ms"),
        ("success_rate", 0.96, "96.0%"),
        ("check.grounded", 0.5, "50.0%"),
        ("throughput", 42.3, "42.3/s"),
        ("cost_per_100", 0.082, "$0.082"),
        ("errors.rate_limited", 3.0, "3"),
        ("output_tokens.mean", 245.1, "245"),
        ("my.score.mean", 0.25, "0.25"),
        ("my.score.p50", None, "unknown"),
    ],
)
def test_a_metric_is_told_in_its_own_unit(metric, value, text):
    assert figure(metric, value) == text


def test_what_is_no_metric_has_no_unit():
    with pytest.raises(SettingError, match="unknown metric 'latncy'"):
        figure("latncy.p99", 1.0)


def test_texts_lose_what_a_terminal_would_obey():
    assert one_line("a\r\n b\x1b[0m\tc\u202e") == "a b?[0m c?"


@given(st.text(), st.integers(2, 30))
def test_cut_texts_fit_and_keep_their_ends(text, width):
    for cut in (ellipsis_end(text, width), ellipsis_middle(text, width)):
        assert cells(cut) <= width
        assert cut == text if cells(text) <= width else "…" in cut


def test_a_long_node_id_keeps_its_beginning_and_its_end():
    assert ellipsis_middle("tests/test_a.py::test_b[model]", 21) == "tests/test…t_b[model]"


def test_wide_characters_take_two_columns_and_accents_none():
    assert (cells("日本"), cells("e\u0301"), cells("abc")) == (4, 1, 3)
