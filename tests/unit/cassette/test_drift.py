"""What has moved between a recording and today, told in lines."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pytest_swarm.exchange import Ending
from pytest_swarm.sources.cassette.drift import compare, reading_of, sample_of, shape_of
from pytest_swarm.sources.cassette.interaction import Interaction
from tests.unit.cassette.cassette_samples import EVERY, STREAMED, request


def answer(text: str = "Hello", *, tokens: int = 5, end: float = 1.0, **more: Any) -> Interaction:
    body = {
        "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": tokens},
        **more,
    }
    written = json.dumps(body).encode()
    return replace(
        STREAMED, headers={"content-type": "application/json"}, body=written, chunks=((end, len(written)),), end=end
    )


def test_a_gateway_that_answers_the_same_has_not_moved() -> None:
    assert compare([(answer(), answer("Good morning")), (answer(), answer())]) == [
        "outcome: as recorded",
        "shape: as recorded",
        "finish reason: as recorded",
        "input tokens: median 10, recorded 10 (+0%)",
        "output tokens: median 5, recorded 5 (+0%)",
        "time to first token: not known on both sides",
        "time to the end: median 1.000 s, recorded 1.000 s (+0%)",
    ]


def test_what_has_moved_is_told_with_its_size() -> None:
    limited = replace(answer(), status=429, body=b'{"error": {"message": "slow down"}}')
    lines = compare(
        [
            (answer(), answer(tokens=6, end=1.5, refusal=None)),
            (answer(), answer(tokens=8, end=2.5, refusal="no")),
            (answer(fingerprint="f"), limited),
        ]
    )
    assert lines[0] == "outcome: 1 of 3 moved: ok -> rate_limited (1)"
    assert lines[1].startswith(
        "shape: 3 of 3 answers moved: new error.message: text, refusal: null, refusal: text; gone "
    )
    assert "choices[].finish_reason: text, choices[].message.content: text, fingerprint: text" in lines[1]
    assert lines[2] == "finish reason: 1 of 3 moved: stop -> None (1)"
    assert lines[4] == "output tokens: median 7, recorded 5 (+40%)"
    assert lines[6] == "time to the end: median 1.500 s, recorded 1.000 s (+50%)"


def test_a_recording_without_timing_is_not_compared_in_time() -> None:
    foreign = replace(answer(), timed=False, chunks=(), head=None, end=None)
    lines = compare([(foreign, answer())])
    assert lines[0] == "outcome: as recorded"
    assert lines[5:] == ["time to first token: not known on both sides", "time to the end: not known on both sides"]


def test_streams_are_compared_by_their_first_token() -> None:
    late = replace(STREAMED, chunks=tuple((at + 0.05, size) for at, size in STREAMED.chunks))
    assert compare([(STREAMED, late)])[5] == "time to first token: median 0.121 s, recorded 0.071 s (+70%)"


def test_many_differences_are_counted() -> None:
    changed = answer(**{f"field{number}": number for number in range(8)})
    assert compare([(answer(), changed)])[1] == (
        "shape: 1 of 1 answers moved: new field0: number, field1: number, field2: number, field3: number, "
        "field4: number and 3 more"
    )


def test_a_shape_is_paths_with_kinds() -> None:
    assert shape_of(b'{"a": [{"b": 1}, {"b": "x", "c": [true, null]}]}') == {
        "a[].b: number",
        "a[].b: text",
        "a[].c[]: flag",
        "a[].c[]: null",
    }
    assert shape_of(b'data: {"a": 1}\n\ndata: {"b": 1.5}\n\ndata: [DONE]\n\n') == {"a: number", "b: number"}
    assert shape_of(b"<html>") == shape_of(b'{"cut') == frozenset()


def test_a_sample_is_spread_over_what_was_answered() -> None:
    many = [replace(answer(), sequence=number) for number in range(25)]
    assert [one.sequence for one in sample_of(many, 5)] == [0, 5, 10, 15, 20]
    assert sample_of(many[:3], 5) == many[:3]
    assert sample_of(EVERY.values(), 99) == [EVERY["streamed"], EVERY["binary"]]
    other = replace(answer(), request=request(url="http://h/v1/embeddings"))
    assert sample_of([other, replace(answer(), ending=Ending.DISCONNECTED), replace(answer(), warmup=True)]) == []


@pytest.mark.parametrize("name", ["streamed", "cut"])
def test_a_recording_is_read_as_it_was(name: str) -> None:
    expected = {"streamed": ("Hello", "ok"), "cut": ("", "disconnected")}[name]
    found = reading_of(EVERY[name])
    assert (found.text, found.outcome) == expected
