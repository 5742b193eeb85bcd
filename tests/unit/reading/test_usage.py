"""Usage objects of many vendors become one shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.reading.usage import header_cost, read_usage
from pytest_swarm.records import Usage

SHAPES: dict[str, tuple[str, dict[str, Any], tuple[int | None, int | None, int | None, int | None]]] = {
    "openai chat": (
        "chat",
        {
            "prompt_tokens": 2006,
            "completion_tokens": 300,
            "total_tokens": 2306,
            "prompt_tokens_details": {"cached_tokens": 1920},
            "completion_tokens_details": {"reasoning_tokens": 192},
        },
        (2006, 1920, None, 300),
    ),
    "responses with a cache write": (
        "responses",
        {
            "input_tokens": 2600,
            "input_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 400},
            "output_tokens": 10,
            "total_tokens": 2610,
        },
        (2600, 2000, 400, 10),
    ),
    "details null": (
        "chat",
        {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6, "prompt_tokens_details": None},
        (5, None, None, 1),
    ),
    "anthropic": (
        "messages",
        {
            "input_tokens": 3,
            "cache_creation_input_tokens": 12304,
            "cache_read_input_tokens": 0,
            "output_tokens": 550,
        },
        (12307, 0, 12304, 550),
    ),
    "anthropic with lifetimes": (
        "messages",
        {
            "input_tokens": 100,
            "cache_creation_input_tokens": 3000,
            "cache_read_input_tokens": 4000,
            "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2000},
            "output_tokens": 50,
        },
        (7100, 4000, 3000, 50),
    ),
    "anthropic's shape on the chat wire": (
        "chat",
        {"input_tokens": 3, "cache_creation_input_tokens": 7, "output_tokens": 5},
        (10, 0, 7, 5),
    ),
    "anthropic without a cache": ("messages", {"input_tokens": 3, "output_tokens": 5}, (3, None, None, 5)),
    "anthropic with null": (
        "messages",
        {"input_tokens": 3, "cache_read_input_tokens": None, "cache_creation_input_tokens": 4, "output_tokens": 5},
        (7, 0, 4, 5),
    ),
    "anthropic with lifetimes alone": (
        "messages",
        {
            "input_tokens": 1,
            "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 3},
            "output_tokens": 5,
        },
        (6, 0, 5, 5),
    ),
    "anthropic with a broken count": (
        "messages",
        {"input_tokens": 3, "cache_read_input_tokens": "9", "cache_creation_input_tokens": 4, "output_tokens": 5},
        (None, None, 4, 5),
    ),
    "moonshot at the top": (
        "chat",
        {"prompt_tokens": 19, "completion_tokens": 21, "total_tokens": 40, "cached_tokens": 10},
        (19, 10, None, 21),
    ),
    "moonshot twice": (
        "chat",
        {
            "prompt_tokens": 1336,
            "completion_tokens": 31,
            "total_tokens": 1367,
            "cached_tokens": 1280,
            "prompt_tokens_details": {"cached_tokens": 1280},
        },
        (1336, 1280, None, 31),
    ),
    "deepseek": (
        "chat",
        {
            "prompt_tokens": 1000,
            "completion_tokens": 50,
            "total_tokens": 1050,
            "prompt_cache_hit_tokens": 900,
            "prompt_cache_miss_tokens": 100,
        },
        (1000, 900, None, 50),
    ),
    "gemini": (
        "chat",
        {
            "usageMetadata": {
                "promptTokenCount": 20,
                "candidatesTokenCount": 151,
                "thoughtsTokenCount": 382,
                "totalTokenCount": 553,
            }
        },
        (20, None, None, 533),
    ),
    "gemini with tools and a cache": (
        "chat",
        {
            "promptTokenCount": 20,
            "toolUsePromptTokenCount": 5,
            "cachedContentTokenCount": 8,
            "candidatesTokenCount": 3,
        },
        (25, 8, None, 3),
    ),
    "gemini with thoughts inside": (
        "chat",
        {"promptTokenCount": 20, "candidatesTokenCount": 30, "thoughtsTokenCount": 10, "totalTokenCount": 50},
        (20, None, None, 30),
    ),
    "gemini with thoughts alone": (
        "chat",
        {"promptTokenCount": 20, "thoughtsTokenCount": 10},
        (20, None, None, 10),
    ),
    "gemini without a prompt": ("chat", {"candidatesTokenCount": 30}, (None, None, None, 30)),
    "gemini without an answer": ("chat", {"promptTokenCount": 30}, (30, None, None, None)),
    "gemini behind a gateway": (
        "chat",
        {
            "prompt_tokens": 20,
            "completion_tokens": 151,
            "total_tokens": 553,
            "completion_tokens_details": {"reasoning_tokens": 382},
        },
        (20, None, None, 533),
    ),
    "xai": (
        "chat",
        {
            "prompt_tokens": 10120,
            "completion_tokens": 1499,
            "total_tokens": 14428,
            "prompt_tokens_details": {"cached_tokens": 128},
            "completion_tokens_details": {"reasoning_tokens": 2809},
            "cost_in_usd_ticks": 232856000,
        },
        (10120, 128, None, 4308),
    ),
    "xai with reasoning inside": (
        "chat",
        {
            "prompt_tokens": 500,
            "completion_tokens": 500,
            "total_tokens": 1000,
            "completion_tokens_details": {"reasoning_tokens": 200},
        },
        (500, None, None, 500),
    ),
    "openrouter": (
        "chat",
        {
            "prompt_tokens": 194,
            "completion_tokens": 2,
            "total_tokens": 196,
            "cost": 0.95,
            "cost_details": {"upstream_inference_cost": 19},
            "prompt_tokens_details": {"cached_tokens": 0},
        },
        (194, 0, None, 2),
    ),
    "litellm with both keys": (
        "chat",
        {
            "prompt_tokens": 188107,
            "completion_tokens": 393,
            "total_tokens": 188500,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_creation_tokens": 188086},
            "cache_creation_input_tokens": 188086,
            "cache_read_input_tokens": 0,
        },
        (188107, 0, 188086, 393),
    ),
    "litellm with a nested zero": (
        "chat",
        {
            "total_tokens": 2482,
            "prompt_tokens": 2459,
            "completion_tokens": 23,
            "prompt_tokens_details": {"cached_tokens": 0},
            "cache_read_input_tokens": 2455,
        },
        (2459, 2455, None, 23),
    ),
    "a cache beside the prompt": (
        "chat",
        {
            "prompt_tokens": 21,
            "completion_tokens": 5,
            "total_tokens": 26,
            "prompt_tokens_details": {"cached_tokens": 188086},
        },
        (188107, 188086, None, 5),
    ),
    "a text for a number": ("chat", {"prompt_tokens": "12", "completion_tokens": 1}, (None, None, None, 1)),
    "a bool for a number": ("chat", {"prompt_tokens": True, "completion_tokens": 1}, (None, None, None, 1)),
    "a float for a number": ("chat", {"prompt_tokens": 12.0, "completion_tokens": 1}, (None, None, None, 1)),
    "a negative number": ("chat", {"prompt_tokens": -3, "completion_tokens": 1}, (None, None, None, 1)),
    "llama.cpp messages": (
        "messages",
        {"cache_read_input_tokens": 36, "input_tokens": 1, "output_tokens": 4},
        (37, 36, 0, 4),
    ),
    "openai's shape on the messages wire": (
        "messages",
        {"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 4},
        (10, 4, None, 2),
    ),
    "responses with foreign cache keys": (
        "responses",
        {
            "input_tokens": 10,
            "output_tokens": 2,
            "input_tokens_details": {"cached_tokens": 4},
            "cache_read_input_tokens": 4,
        },
        (10, 4, None, 2),
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_totals_include_cache_and_reasoning(shape: str) -> None:
    wire, raw, expected = SHAPES[shape]
    usage = read_usage(raw, wire)
    assert usage is not None
    found = (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens)
    assert found == expected


@pytest.mark.parametrize("raw", [None, {}, [], "12", 12, {"queue_time": 0.1}, {"prompt_tokens": None}])
def test_what_says_nothing_is_no_usage(raw: object) -> None:
    assert read_usage(raw) is None


@pytest.mark.parametrize("bad", ["12", True, 12.5, -1, [3], {"n": 3}])
def test_a_count_that_is_none_is_unknown_and_noted(bad: object) -> None:
    usage = read_usage({"prompt_tokens": bad, "completion_tokens": 3})
    assert usage == Usage(output_tokens=3, notes=("usage: prompt_tokens is no count of tokens",))


def test_tokens_kept_for_an_hour_are_told_apart() -> None:
    _, raw, _ = SHAPES["anthropic with lifetimes"]
    usage = read_usage(raw, "messages")
    assert usage is not None
    assert usage.cache_write_1h_tokens == 2000
    assert usage.notes == ()


def test_lifetimes_that_do_not_add_up_are_noted_and_dropped() -> None:
    raw = {"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 0}
    usage = read_usage({**raw, "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2}})
    assert usage is not None
    assert (usage.cache_write_tokens, usage.cache_write_1h_tokens) == (10, None)
    assert usage.notes == ("usage: cache lifetimes 1 + 2 are not the 10 tokens written",)


@pytest.mark.parametrize(
    ("details", "wire"),
    [
        ({"output_tokens_details": {"thinking_tokens": 7}}, "messages"),
        ({"output_tokens_details": {"reasoning_tokens": 7}}, "responses"),
        ({"completion_tokens_details": {"reasoning_tokens": 7}}, "chat"),
        ({"reasoning_tokens": 7}, "chat"),
    ],
)
def test_reasoning_is_found(details: dict[str, Any], wire: str) -> None:
    usage = read_usage({"input_tokens": 1, "output_tokens": 9, **details}, wire)
    assert usage is not None
    assert (usage.output_tokens, usage.reasoning_tokens) == (9, 7)


def test_what_was_added_or_does_not_add_up_is_noted() -> None:
    outside = {"completion_tokens_details": {"reasoning_tokens": 4}}
    notes = {
        "reasoning is reported outside": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 7, **outside},
        "is not prompt 1 + completion 2": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 9, **outside},
        "are not part of the 1 prompt tokens": {"prompt_tokens": 1, "completion_tokens": 2, "cached_tokens": 5},
        "inside the candidates": SHAPES["gemini with thoughts inside"][1],
    }
    for words, raw in notes.items():
        usage = read_usage(raw)
        assert usage is not None
        (note,) = usage.notes
        assert words in note


@pytest.mark.parametrize(
    ("raw", "cost"),
    [
        ({"cost": 0.95}, 0.95),
        ({"cost": 0}, 0.0),
        ({"cost": 1}, 1.0),
        ({"cost_in_usd_ticks": 232856000}, 0.0232856),
        ({"cost": "0.95"}, None),
        ({"cost": True}, None),
        ({"cost": -1}, None),
        ({"cost": float("nan")}, None),
        ({"cost_in_usd_ticks": True}, None),
        ({}, None),
    ],
)
def test_the_reported_cost_is_in_dollars(raw: dict[str, Any], cost: float | None) -> None:
    usage = read_usage({"prompt_tokens": 1, **raw})
    assert usage is not None
    assert usage.reported_cost == cost


@pytest.mark.parametrize(
    ("text", "cost"), [("0.0125", 0.0125), ("0.0", 0.0), ("None", None), ("", None), ("nan", None), ("-1", None)]
)
def test_the_cost_header_of_litellm_is_read(text: str, cost: float | None) -> None:
    assert header_cost({"x-litellm-response-cost": text}) == cost


def test_without_the_cost_header_there_is_no_cost() -> None:
    assert header_cost({}) is None


KEYS = sorted({key for _, raw, _ in SHAPES.values() for key in raw} | {"cost", "cost_in_usd_ticks", "cache_creation"})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from([*KEYS, "reasoning_tokens", "cached_tokens"]), inner, max_size=3),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8), st.sampled_from(["chat", "messages", "responses"]))
def test_any_object_is_read_and_no_count_is_ever_negative(raw: dict[str, Any], wire: str) -> None:
    usage = read_usage(raw, wire)
    if usage is not None:
        counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cache_write_tokens)
        assert all(count is None or (type(count) is int and count >= 0) for count in counts)
