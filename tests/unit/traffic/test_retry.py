"""When a failed attempt is repeated, and after what wait."""

from __future__ import annotations

import json
import random
import string
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.records import CALL_OUTCOMES, REPLY_OUTCOMES
from pytest_swarm.traffic.retry import BACKOFF_BASE, BACKOFF_CAP, Retry, Stop, decide, parse_retry_after

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC).timestamp()
QUOTA = {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}
RETRY_INFO = {
    "error": {
        "code": 429,
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
            "no object",
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.07s"},
        ],
    }
}


def after(outcome: str, status: int | None, headers: dict[str, str] | None = None, **more: Any) -> Retry | Stop:
    given = {"attempt": 1, "retries": 2, "saw_token": False, "rng": lambda: random.Random(1), "wall_now": NOW, **more}
    return decide(outcome, status, headers or {}, given.pop("body", None), **given)


def waits(headers: dict[str, str], count: int = 200, **more: Any) -> list[float]:
    """The waits that many agents draw in one situation."""
    found = [
        after("rate_limited", 429, headers, rng=lambda seed=seed: random.Random(seed), **more) for seed in range(count)
    ]
    assert all(isinstance(one, Retry) for one in found)
    return [one.wait for one in found if isinstance(one, Retry)]


# --- what is repeated -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529, 599])
def test_statuses_that_are_retried(status: int) -> None:
    assert isinstance(after("server_error", status), Retry)


@pytest.mark.parametrize("status", [200, 301, 400, 401, 402, 403, 404, 413, 422])
def test_statuses_that_are_not_retried(status: int) -> None:
    assert after("client_error", status) == Stop(f"status {status} is not retried")


@pytest.mark.parametrize("outcome", ["connect_error", "connect_timeout", "disconnected"])
def test_a_connection_that_failed_is_tried_again(outcome: str) -> None:
    assert isinstance(after(outcome, None), Retry)


@pytest.mark.parametrize("outcome", ["tls_error", "pool_timeout", "first_token_timeout", "timeout", "cancelled"])
def test_other_ends_without_a_status_are_final(outcome: str) -> None:
    assert after(outcome, None) == Stop(f"{outcome} is not retried")


@pytest.mark.parametrize("outcome", sorted(REPLY_OUTCOMES))
def test_a_reply_needs_no_reason(outcome: str) -> None:
    assert after(outcome, 200) == Stop("")


@given(outcome=st.sampled_from(sorted(set(CALL_OUTCOMES) - REPLY_OUTCOMES)), status=st.none() | st.integers(100, 599))
def test_nothing_is_repeated_after_the_first_token(outcome: str, status: int | None) -> None:
    assert after(outcome, status, {"x-should-retry": "true"}, saw_token=True) == Stop("the reply had begun")


@pytest.mark.parametrize(
    "body",
    [
        QUOTA,
        json.dumps(QUOTA),
        json.dumps(QUOTA).encode(),
        [QUOTA],
        {"error": {"type": "billing_error"}},
        {"error": {"type": "tokens", "code": "billing_hard_limit_reached"}},
    ],
)
def test_without_money_nothing_is_repeated(body: object) -> None:
    advised = {"retry-after": "1", "x-should-retry": "true"}
    assert after("rate_limited", 429, advised, body=body) == Stop("the quota is exhausted")


def test_an_outcome_that_says_the_quota_is_exhausted_is_final() -> None:
    assert after("quota_exhausted", 429) == Stop("the quota is exhausted")


@pytest.mark.parametrize("code", ["rate_limit_exceeded", 429, None])
def test_a_body_about_rates_is_no_reason_to_give_up(code: object) -> None:
    assert isinstance(after("rate_limited", 429, body={"error": {"code": code, "type": "requests"}}), Retry)


def test_the_gateways_advice_is_obeyed() -> None:
    assert after("server_error", 500, {"x-should-retry": "false"}) == Stop("the gateway says x-should-retry: false")
    assert isinstance(after("client_error", 400, {"x-should-retry": " True "}), Retry)
    assert isinstance(after("server_error", 500, {"x-should-retry": "perhaps"}), Retry)


# --- how often --------------------------------------------------------------------------------------------------------


def test_two_retries_make_three_attempts() -> None:
    found = [after("server_error", 500, attempt=attempt) for attempt in (1, 2, 3)]
    assert isinstance(found[0], Retry)
    assert isinstance(found[1], Retry)
    assert found[2] == Stop("no retries left after 3 attempts")


def test_without_retries_there_is_one_attempt() -> None:
    assert after("server_error", 500, retries=0) == Stop("retries=0")


# --- after what wait --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "low", "high"), [("1", 1.0, 1.25), ("0.4", 0.4, 0.5), ("30", 30.0, 30.5)])
def test_the_wait_that_is_asked_for_is_kept_and_spread_a_little(asked: str, low: float, high: float) -> None:
    found = waits({"retry-after": asked})
    assert low <= min(found) < max(found) <= high
    assert max(found) - min(found) > 0.8 * (high - low)


@pytest.mark.parametrize(("attempt", "spread"), [(2, 1.0), (3, 2.0), (9, BACKOFF_CAP)])
def test_who_is_refused_again_spreads_further_behind_the_wait_that_is_asked_for(attempt: int, spread: float) -> None:
    found = waits({"retry-after": "1"}, attempt=attempt, retries=10)
    assert 1.0 <= min(found) < 1.0 + 0.1 * spread
    assert 1.0 + 0.9 * spread < max(found) <= 1.0 + spread


@pytest.mark.parametrize("attempt", [1, 2, 3, 4, 5, 6, 5000])
def test_without_advice_the_wait_is_anything_up_to_a_doubling_cap(attempt: int) -> None:
    cap = min(BACKOFF_CAP, BACKOFF_BASE * 2.0 ** min(attempt - 1, 20))
    found = waits({}, attempt=attempt, retries=10_000)
    assert 0 <= min(found) < 0.1 * cap
    assert 0.9 * cap < max(found) <= cap


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "1e3", "", "9" * 400, "0", "1s"])
def test_advice_that_says_nothing_is_no_advice(text: str) -> None:
    assert max(waits({"retry-after": text})) <= BACKOFF_BASE


def test_the_cap_on_the_wait_that_is_asked_for() -> None:
    assert isinstance(after("rate_limited", 429, {"retry-after": "60"}), Retry)
    assert after("rate_limited", 429, {"retry-after": "3600"}) == Stop(
        "the gateway asks to wait 3600 s, more than the 60 s that are waited"
    )


def test_resets_matter_only_where_a_limit_was_the_reason() -> None:
    resets = {"x-ratelimit-reset-requests": "6m0s"}
    assert isinstance(after("server_error", 500, resets), Retry)
    assert after("rate_limited", 429, resets) == Stop(
        "the gateway asks to wait 360 s, more than the 60 s that are waited"
    )


def test_a_server_error_may_ask_for_a_wait_too() -> None:
    found = after("server_error", 503, {"retry-after": "2"})
    assert isinstance(found, Retry)
    assert 2 <= found.wait <= 2.5


def test_the_same_generator_draws_the_same_wait() -> None:
    assert after("server_error", 500, rng=lambda: random.Random(7)) == after(
        "server_error", 500, rng=lambda: random.Random(7)
    )


# --- what the gateway asks for ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "120", "retry-after": "9"}, 0.12),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": ".5"}, 0.5),
        ({"retry-after": "999999999"}, 999_999_999.0),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:10 GMT"}, 10.0),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:10 -0000"}, 10.0),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Sun, 41 Mar 2026 11:00:00 GMT"}, None),
        ({"retry-after": "-3"}, None),
        ({"x-ratelimit-reset-requests": "1s"}, 1.0),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-tokens": "12ms"}, 0.012),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset-tokens": "7.5"}, 7.5),
        ({"x-ratelimit-reset": str(int(NOW) + 20)}, 20.0),
        ({"x-ratelimit-reset": str(int(NOW) * 1000 + 2500)}, 2.5),
        ({"x-ratelimit-reset": str(int(NOW) - 20)}, 0.0),
        ({"x-ratelimit-reset-tokens": "whenever"}, None),
        ({"x-ratelimit-reset-tokens": "9" * 400 + "h"}, None),
        ({"x-ratelimit-remaining-tokens": "5"}, None),
        ({"anthropic-ratelimit-tokens-reset": "2026-03-01T12:00:30Z"}, 30.0),
        ({"anthropic-ratelimit-tokens-reset": "2026-03-01T14:00:30+02:00"}, 30.0),
        ({"anthropic-ratelimit-tokens-reset": "2026-03-01T12:00:30"}, 30.0),
        ({"anthropic-ratelimit-tokens-reset": "later"}, None),
        ({}, None),
    ],
)
def test_what_headers_ask_for(headers: dict[str, str], seconds: float | None) -> None:
    found = parse_retry_after(headers, None, NOW)
    assert found == (None if seconds is None else pytest.approx(seconds, abs=1e-6))


def test_the_limit_that_ran_out_counts() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "6m0s",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "8s",
    }
    assert parse_retry_after(headers, None, NOW) == 8.0


def test_the_same_goes_for_anthropics_headers() -> None:
    headers = {
        "anthropic-ratelimit-requests-remaining": "59",
        "anthropic-ratelimit-requests-reset": "2026-03-01T12:10:00Z",
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2026-03-01T12:00:08Z",
    }
    assert parse_retry_after(headers, None, NOW) == 8.0


def test_the_latest_reset_counts_when_none_is_known_to_have_run_out() -> None:
    resets = {"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "5s"}
    assert parse_retry_after(resets, None, NOW) == 5.0
    remaining = {"x-ratelimit-remaining-requests": "3", "x-ratelimit-remaining-tokens": "100"}
    assert parse_retry_after(resets | remaining, None, NOW) == 5.0


@pytest.mark.parametrize("body", [RETRY_INFO, [RETRY_INFO], json.dumps(RETRY_INFO), json.dumps(RETRY_INFO).encode()])
def test_what_a_google_body_asks_for(body: object) -> None:
    assert parse_retry_after({}, body, NOW) == pytest.approx(34.07)
    assert parse_retry_after({"retry-after": "2"}, body, NOW) == 2.0


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe\xfa",
        "no json",
        "[" * 100_000,
        "3",
        {"error": "text"},
        {"error": {"details": "text"}},
        {"error": {"details": [{"retryDelay": 3}, {"retryDelay": "soon"}]}},
    ],
)
def test_bodies_that_ask_for_nothing(body: object) -> None:
    assert parse_retry_after({}, body, NOW) is None


@given(seconds=st.integers(0, 10**6))
def test_a_date_is_the_time_until_it(seconds: int) -> None:
    date = format_datetime(datetime.fromtimestamp(NOW + seconds, tz=UTC), usegmt=True)
    assert parse_retry_after({"retry-after": date}, None, NOW) == seconds


TEXTS = st.text(max_size=30) | st.text(alphabet=string.digits + "hms.:-+TZ GMT,", max_size=30)
NAMES = st.sampled_from(
    ["retry-after", "retry-after-ms", "x-ratelimit-reset-tokens", "anthropic-ratelimit-tokens-reset", "x-should-retry"]
)


@given(headers=st.dictionaries(NAMES, TEXTS), body=TEXTS, status=st.integers(400, 599))
def test_no_header_and_no_body_breaks_the_decision(headers: dict[str, str], body: str, status: int) -> None:
    asked = parse_retry_after(headers, body, NOW)
    assert asked is None or asked >= 0
    found = after("rate_limited", status, headers, body=body)
    if isinstance(found, Retry):
        assert 0 <= found.wait <= 60.5
    else:
        assert found.reason
