"""The cases of tests/cases, fed to the reading at their own times; what needs a socket is tested elsewhere."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from reading_samples import read

from pytest_swarm.exchange import Ending
from pytest_swarm.reading.usage import read_usage

CASES = Path(__file__).parents[2] / "cases"
ENDINGS = {"reset": Ending.DISCONNECTED, "hang": Ending.IDLE_TIMEOUT}


def load(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def named(case: dict[str, Any]) -> str:
    return str(case["name"])


EXCHANGES = [case for case in load("exchanges") if len(case["script"]) == 1]


@pytest.mark.parametrize("case", EXCHANGES, ids=named)
def test_an_exchange_is_read_as_expected(case: dict[str, Any]) -> None:
    (script,), expect = case["script"], case["expect"]
    reading = read(
        [
            (at / 1000, piece.encode() if isinstance(piece, str) else base64.b64decode(piece["b64"]))
            for at, piece in script["chunks"]
        ],
        status=script.get("status", 200),
        headers={"content-type": "text/event-stream", **script.get("headers", {})},
        ending=ENDINGS.get(script.get("end", ""), Ending.COMPLETE),
    )
    usage = reading.usage
    tokens = None if usage is None else usage.output_tokens
    observed = {
        "outcome": reading.outcome,
        "text": reading.text,
        "ttft_ms": milliseconds(reading.first_token),
        "ttfo_ms": milliseconds(reading.first_output),
        "latency_ms": milliseconds(reading.last_content),
        "input_tokens": None if usage is None else usage.input_tokens,
        "output_tokens": tokens,
        "cached_tokens": None if usage is None else usage.cached_tokens,
        "finish_reason": reading.finish_reason,
    }
    assert observed == {**observed, **{key: value for key, value in expect.items() if key in observed}}
    assert reading.outcome in expect.get("outcome_in", [reading.outcome])
    assert expect.get("detail_has", "") in reading.detail
    if "tpot_ms" in expect:
        assert reading.first_token is not None
        assert reading.last_content is not None
        assert tokens is not None
        per_token = (reading.last_content - reading.first_token) / (tokens - 1)
        assert per_token * 1000 == pytest.approx(expect["tpot_ms"], abs=0.05)


def milliseconds(offset: float | None) -> float | None:
    return None if offset is None else round(offset * 1000, 6)


@pytest.mark.parametrize("name", [case["name"] for case in load("exchanges") if len(case["script"]) > 1])
def test_the_first_answer_of_a_case_with_retries_is_a_limit(name: str) -> None:
    (case,) = (case for case in load("exchanges") if case["name"] == name)
    first = case["script"][0]
    body = b"".join(piece.encode() for _, piece in first["chunks"])
    reading = read(body, status=first["status"], headers=first["headers"])
    assert reading.outcome == ("quota_exhausted" if name == "insufficient-quota" else "rate_limited")
    assert reading.raw == json.loads(body)


@pytest.mark.parametrize("case", load("usage"), ids=named)
def test_a_usage_object_is_read_as_expected(case: dict[str, Any]) -> None:
    usage = read_usage(case["usage"], case["wire"])
    expect = case["expect"]
    observed = {
        "input": None if usage is None else usage.input_tokens,
        "output": None if usage is None else usage.output_tokens,
        "cached": None if usage is None else usage.cached_tokens,
    }
    assert observed == {**observed, **{key: value for key, value in expect.items() if key in observed}}
    prices = case["price_per_mtok"]
    if usage is not None and prices is not None and "tiers" not in prices:
        read_tokens, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
        assert usage.input_tokens is not None
        assert usage.output_tokens is not None
        parts = {
            "input": usage.input_tokens - read_tokens - written,
            "cache_read": read_tokens,
            "cache_write": written,
            "output": usage.output_tokens,
        }
        cost = sum(Decimal(prices.get(part, 0)) * tokens for part, tokens in parts.items()) / 1_000_000
        assert cost == Decimal(expect["cost"])
