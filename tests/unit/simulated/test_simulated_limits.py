from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.sources.simulated.limits import RateLimiter
from pytest_swarm.sources.simulated.profile import Limits


def test_without_limits_everything_passes_and_nothing_is_told() -> None:
    verdict = RateLimiter(Limits(), 0.0).admit(10**9, 0.0)
    assert (verdict.wait, dict(verdict.headers)) == (0.0, {})


def test_one_minutes_worth_passes_at_once_and_then_as_it_flows_in() -> None:
    limiter = RateLimiter(Limits(requests_per_minute=60), 0.0)
    assert [limiter.admit(1, 0.0).wait for _ in range(60)] == [0.0] * 60
    refused = limiter.admit(1, 0.0)
    assert (refused.wait, refused.unit) == (pytest.approx(1.0), "requests")
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["retry-after-ms"] == "1000"
    assert limiter.admit(1, 1.0).wait == 0.0
    assert limiter.admit(1, 1.0).wait > 0


def test_every_client_is_told_what_is_left() -> None:
    headers = RateLimiter(Limits(requests_per_minute=60, tokens_per_minute=6000), 0.0).admit(1500, 0.0).headers
    assert headers == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1.000s",
        "x-ratelimit-limit-tokens": "6000",
        "x-ratelimit-remaining-tokens": "4500",
        "x-ratelimit-reset-tokens": "15.000s",
    }


def test_a_request_larger_than_the_bucket_passes_a_full_one_and_leaves_a_debt() -> None:
    limiter = RateLimiter(Limits(tokens_per_minute=600), 0.0)
    assert limiter.admit(1200, 0.0).wait == 0.0
    assert limiter.admit(10, 0.0).wait == pytest.approx(61.0)
    assert limiter.admit(10, 0.0).unit == "tokens"


def test_a_refused_request_takes_nothing() -> None:
    limiter = RateLimiter(Limits(requests_per_minute=10, tokens_per_minute=100), 0.0)
    limiter.admit(90, 0.0)
    assert limiter.admit(50, 0.0).wait > 0
    assert limiter.admit(10, 0.0).headers["x-ratelimit-remaining-requests"] == "8"


def test_a_fast_system_tells_the_times_of_its_clients() -> None:
    limiter = RateLimiter(Limits(requests_per_minute=1), 0.0, speed=10)
    limiter.admit(1, 0.0)
    headers = limiter.admit(1, 0.0).headers
    assert headers["retry-after-ms"] == "6000"
    assert headers["x-ratelimit-reset-requests"] == "6.000s"


@given(st.lists(st.floats(0.0, 5.0), max_size=200))
def test_never_more_than_a_minutes_worth_and_what_flowed_in(gaps: list[float]) -> None:
    limiter, now, passed = RateLimiter(Limits(requests_per_minute=30), 0.0), 0.0, 0
    for gap in gaps:
        now += gap
        passed += limiter.admit(1, now).wait == 0.0
        assert passed <= 30 + now * 0.5 + 1e-6
