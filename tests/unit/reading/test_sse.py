"""Server-sent events from bytes that are split anywhere."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_swarm.reading.sse import Event, EventDecoder

SPECIAL = "a\u2028b\u0085c\x0b\x0c\x1c\x1d\x1e안🌍é"
"""What `str.splitlines` takes for line ends, and characters of two to four bytes."""


def decode(*pieces: bytes, event_bytes: int = 2**20) -> tuple[list[Event], Event | None, int]:
    """The events, the unterminated one, the number of dropped ones."""
    decoder = EventDecoder(event_bytes)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    tail = decoder.finish()
    return events, tail, decoder.dropped


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [("", "a")]),
        (b"data: a\r\n\r\n", [("", "a")]),
        (b"data: a\r\r", [("", "a")]),
        (b"data: a\r\n\ndata: b\n\r\n", [("", "a"), ("", "b")]),
        (b"data:a\n\n", [("", "a")]),
        (b"data:  a \n\n", [("", " a ")]),
        (b"data: a\ndata: b\n\n", [("", "a\nb")]),
        (b"data: a\ndata\ndata: b\n\n", [("", "a\n\nb")]),
        (b"data\n\n", [("", "")]),
        (b"data:\n\n", [("", "")]),
        (b"event: x\ndata: a\n\n", [("x", "a")]),
        (b"event:x\ndata:a\n\ndata:b\n\n", [("x", "a"), ("", "b")]),
        (b"event: x\n\ndata: a\n\n", [("", "a")]),
        (b"event: x\nevent: y\ndata: a\n\n", [("y", "a")]),
        (b": comment\n\n:\n\n: more\ndata: a\n\n", [("", "a")]),
        (b"id: 7\nretry: 10\nunknown: field\nnothing\ndata: a\n\n", [("", "a")]),
        (b" data: a\n\nDATA: b\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [("", "a")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [("", "b")]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\ndata: c\n\n", [("", "a"), ("", "c")]),
        (b"\n\n\n\ndata: a\n\n\n\n\ndata: b\n\n\n", [("", "a"), ("", "b")]),
        (b"\n\xef\xbb\xbfdata: a\n\ndata: b\n\n", [("", "b")]),
        (b"data: a: b\n\n", [("", "a: b")]),
        (b"data: \xff\xfe\n\n", [("", "\ufffd\ufffd")]),
        (f"data: {SPECIAL}\n\n".encode(), [("", SPECIAL)]),
        (b"", []),
    ],
)
def test_events_are_those_of_the_standard_however_the_bytes_are_split(stream: bytes, expected: list[Event]) -> None:
    assert decode(stream) == (expected, None, 0)
    for size in (1, 2, 3, 5, 7):
        pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
        assert decode(*pieces) == (expected, None, 0)


@pytest.mark.parametrize(
    ("stream", "tail"),
    [
        (b"data: a\n\ndata: b", ("", "b")),
        (b"data: a\n\ndata: b\n", ("", "b")),
        (b"data: a\n\ndata: b\r", ("", "b")),
        (b"data: a\n\ndata: b\ndata: c", ("", "b\nc")),
        (b"data: a\n\n: comment", None),
        (b"data: a\n\n\n", None),
    ],
)
def test_an_event_without_its_blank_line_comes_apart_from_the_others(stream: bytes, tail: Event | None) -> None:
    assert decode(stream) == ([("", "a")], tail, 0)
    assert decode(*[bytes([byte]) for byte in stream]) == ([("", "a")], tail, 0)


def test_an_event_is_out_with_the_byte_that_ends_it() -> None:
    decoder = EventDecoder()
    assert decoder.feed(b"data: a\r\n") == []
    assert decoder.feed(b"\r") == [("", "a")]
    assert decoder.feed(b"\ndata: b\n") == []
    assert decoder.feed(b"") == []
    assert decoder.feed(b"\n") == [("", "b")]


LINES = st.one_of(
    st.builds(lambda text: f"data: {text}", st.text("ab \u2028\u0085🌍é:", max_size=6)),
    st.builds(lambda text: f"data:{text}", st.text("ab{", max_size=6)),
    st.sampled_from(["event: x", "event:", ": ping", ":", "id: 1", "retry: 5", "data", "", "", "", "\ufeffdata: z"]),
)
STREAMS = st.builds(
    lambda bom, lines: bom + b"".join(line.encode() + end for line, end in lines),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=16),
)


def line_by_line(stream: bytes) -> list[Event]:
    """The standard's algorithm, as it is written there."""
    text = stream.removeprefix(b"\xef\xbb\xbf").decode()
    events, name, data = [], "", ""
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]:
        if not line:
            if data:
                events.append((name, data[:-1]))
            name = data = ""
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data += value + "\n"
        elif field == "event":
            name = value
    return events


def pieces_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    return [stream[start:end] for start, end in pairwise(places)]


@given(STREAMS, st.lists(st.integers(0, 200), max_size=12))
@example(b"data: a\r\n\r\ndata: b\r\n\r\n", [8, 9, 10, 11])
def test_any_split_of_any_stream_gives_the_events_of_the_standard(stream: bytes, cuts: list[int]) -> None:
    events, _, dropped = decode(*pieces_of(stream, cuts))
    assert (events, dropped) == (line_by_line(stream), 0)


@given(STREAMS, st.lists(st.integers(0, 200), max_size=12), st.integers(4, 12))
def test_which_events_are_too_large_does_not_depend_on_the_split(stream: bytes, cuts: list[int], limit: int) -> None:
    assert decode(*pieces_of(stream, cuts), event_bytes=limit) == decode(stream, event_bytes=limit)


@given(st.lists(st.binary(max_size=20), max_size=10))
def test_any_bytes_at_all_are_survived(pieces: list[bytes]) -> None:
    assert decode(*pieces) == decode(b"".join(pieces))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_too_large_event_is_dropped_and_its_neighbours_are_not(size: int) -> None:
    stream = b"data: a\n\ndata: " + b"x" * 100 + b"\n\ndata: b\n\ndata: " + b"y" * 50
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert decode(*pieces, event_bytes=20) == ([("", "a"), ("", "b")], None, 2)


def test_an_event_of_exactly_the_limit_is_kept() -> None:
    for pieces in ([b"data: abcd\n\n"], [b"data: abcd\n", b"\n"], [b"data: abcd", b"\n\n"], [b"data: abcd\n"]):
        events, tail, dropped = decode(*pieces, event_bytes=10)
        assert [*events, *([tail] if tail else [])] == [("", "abcd")]
        assert dropped == 0


def test_memory_stays_bounded_when_an_event_never_ends() -> None:
    decoder = EventDecoder(event_bytes=2**20)
    block = b"x" * 2**16
    tracemalloc.start()
    try:
        for _ in range(256):
            decoder.feed(block)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * 2**20
    assert decoder.feed(b"\n\ndata: a\n\n") == [("", "a")]
    assert decoder.dropped == 1


def test_many_small_feeds_of_one_large_event_copy_it_only_once() -> None:
    decoder = EventDecoder()
    decoder.feed(b"data: ")
    for _ in range(100_000):
        decoder.feed(b"0123456789")
    (event,) = decoder.feed(b"\n\n")
    assert event == ("", "0123456789" * 100_000)
