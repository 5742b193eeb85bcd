"""What a request may cost at most, told from its body."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.judging.rates import Rates, Tariff, parse_tariff
from pytest_swarm.records import Usage
from pytest_swarm.traffic.worst_case import ASSUMED_OUTPUT_TOKENS, TOOL_PROMPT_TOKENS, worst_case

PLAIN = parse_tariff({"input": 1, "output": 10}, "here")
MILLION = Decimal(1_000_000)


def body(**fields):
    return json.dumps({"model": "m", **fields}, ensure_ascii=False).encode()


def amount(sent, *tariffs):
    return worst_case(sent, tariffs or (PLAIN,)).amount


def test_the_input_counts_a_token_for_every_byte_and_the_output_what_the_request_allows() -> None:
    sent = body(messages=[{"role": "user", "content": "12345 日本語"}], max_tokens=20)
    worst = worst_case(sent, [PLAIN])
    assert (worst.input_tokens, worst.output_tokens, worst.guesses) == (len(sent), 20, ())
    assert worst.amount == (len(sent) + 200) / MILLION


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_every_wire_has_its_own_name_for_the_bound(key: str) -> None:
    assert worst_case(body(**{key: 7}), [PLAIN]).output_tokens == 7


def test_of_two_bounds_the_larger_one_counts_and_every_choice_is_paid() -> None:
    assert worst_case(body(max_tokens=7, max_completion_tokens=9, n=3), [PLAIN]).output_tokens == 27


@pytest.mark.parametrize("bound", [None, 0, -1, True, "20", 2.5])
def test_what_bounds_nothing_is_a_guess(bound: object) -> None:
    worst = worst_case(body(max_tokens=bound, n=bound), [PLAIN])
    assert worst.output_tokens == ASSUMED_OUTPUT_TOKENS
    assert worst.guesses == ("no max_tokens",)


@pytest.mark.parametrize("sent", [b"", b"\xff", b"[]", b"[" * 100_000])
def test_a_body_that_is_no_object_has_a_worst_case_too(sent: bytes) -> None:
    worst = worst_case(sent, [PLAIN])
    assert (worst.input_tokens, worst.output_tokens) == (len(sent), ASSUMED_OUTPUT_TOKENS)


@pytest.mark.parametrize(
    ("fields", "guess"),
    [
        ({"messages": [{"content": [{"type": "image_url", "image_url": {}}]}]}, "images, sound or files in the prompt"),
        ({"input": [{"content": [{"type": "input_file"}]}]}, "images, sound or files in the prompt"),
        ({"previous_response_id": "r1"}, "a prompt kept at the gateway"),
        ({"tools": [{"type": "web_search"}]}, "tools that may run at the gateway"),
    ],
)
def test_what_the_body_does_not_tell_is_named(fields: dict[str, object], guess: str) -> None:
    assert worst_case(body(max_tokens=1, **fields), [PLAIN]).guesses == (guess,)


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"content": [{"type": "text", "text": "an image"}]}, {"content": "file"}, {"content": None}]},
        {"tools": [{"type": "function"}, {"name": "anthropic's"}, {"type": "custom"}]},
    ],
)
def test_what_the_body_tells_is_no_guess(fields: dict[str, object]) -> None:
    assert worst_case(body(max_tokens=1, **fields), [PLAIN]).guesses == ()


def test_tools_bring_tokens_of_the_vendor() -> None:
    sent = body(tools=[{"type": "function"}], max_tokens=1)
    assert worst_case(sent, [PLAIN]).input_tokens == len(sent) + TOOL_PROMPT_TOKENS


def test_the_dearest_rate_counts() -> None:
    sent = body(max_tokens=100)
    written = Tariff(Rates(Decimal(1), Decimal(10), Decimal("0.1"), Decimal("1.25"), Decimal(2), Decimal(12)))
    assert amount(sent, written) == (len(sent) * Decimal("1.25") + 1200) / MILLION
    cached = body(max_tokens=100, system=[{"cache_control": {"ttl": "1h"}}])
    assert amount(cached, written) == (len(cached) * Decimal(2) + 1200) / MILLION
    assert amount(sent, PLAIN, written) == amount(sent, written, PLAIN) == amount(sent, written)


def test_a_tier_counts_once_the_prompt_may_reach_it() -> None:
    tiered = parse_tariff({"input": 1, "output": 10, "tiers": [{"above": 200, "output": 30}]}, "here")
    assert amount(body(max_tokens=100), tiered) == amount(body(max_tokens=100))
    long = body(max_tokens=100, messages="x" * 200)
    assert amount(long, tiered) == (len(long) + 3000) / MILLION


@pytest.mark.parametrize(
    ("service", "output"), [(None, 10), ("default", 10), ("flex", 10), ("priority", 20), ("auto", 20)]
)
def test_the_way_of_processing_counts_that_the_request_may_get(service: str | None, output: int) -> None:
    tariff = parse_tariff(
        {"input": 1, "output": 10, "priority": {"input": 1, "output": 20}, "flex": {"input": 0.5, "output": 5}}, "here"
    )
    sent = body(max_tokens=100, service_tier=service)
    assert amount(sent, tariff) == (len(sent) + 100 * output) / MILLION


def test_without_a_rate_for_both_directions_nothing_is_known() -> None:
    assert worst_case(body(max_tokens=1), []) is None
    assert worst_case(body(max_tokens=1), [Tariff(Rates(input=Decimal(1)))]) is None
    assert worst_case(body(max_tokens=1), [Tariff(Rates(output=Decimal(1)))]) is None


rate = st.integers(0, 100).map(Decimal)


@st.composite
def replies(draw):
    """A request, rates, and a usage that keeps to what the request allows."""
    allowed = draw(st.integers(1, 50))
    sent = body(max_tokens=allowed, messages=draw(st.text(max_size=30)), system=[{"cache_control": {}}])
    rates = Rates(*(draw(rate) for _ in range(6)))
    tiers = tuple(
        (above, Rates(*(draw(rate) for _ in range(6)))) for above in sorted(draw(st.sets(st.integers(0, 99))))
    )
    given = draw(st.integers(0, len(sent)))
    cached = draw(st.integers(0, given))
    written = draw(st.integers(0, given - cached))
    output = draw(st.integers(0, allowed))
    usage = Usage(given, output, cached, written, draw(st.integers(0, written)), draw(st.integers(0, output)))
    return sent, Tariff(rates, tiers), usage


@given(replies())
def test_no_reply_within_its_bound_costs_more_than_the_worst_case(reply) -> None:
    sent, tariff, usage = reply
    assert tariff.price(usage) <= worst_case(sent, [tariff]).amount
