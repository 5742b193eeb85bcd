"""How far a gateway has moved from its recording: the same requests answered today, beside what was recorded. Pure."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from pytest_swarm.exchange import Ending, Exchange
from pytest_swarm.reading import reader_factory, wire_of
from pytest_swarm.records import Reading
from pytest_swarm.sources.cassette.interaction import Interaction

__all__ = ["SAMPLE", "compare", "reading_of", "sample_of", "shape_of"]

SAMPLE: Final = 10
"""Exchanges that are asked again at most."""
NAMED: Final = 5
"""Differences that a line names."""

Pair = tuple[Interaction, Interaction]
"""An exchange as it was recorded, and as it is today."""


def sample_of(interactions: Iterable[Interaction], size: int = SAMPLE) -> list[Interaction]:
    """Some of the exchanges that were answered in full, spread evenly over the recording."""
    found = [one for one in interactions if not one.warmup and _is_answer(one)]
    if len(found) <= size:
        return found
    return [found[number * len(found) // size] for number in range(size)]


def _is_answer(one: Interaction) -> bool:
    whole = one.ending is Ending.COMPLETE and one.status is not None and 200 <= one.status < 300
    return whole and wire_of(urlsplit(one.request.url).path) is not None


def reading_of(one: Interaction) -> Reading:
    """What an interaction means. Times are those of its pieces; without timing, all came at once."""
    wire = wire_of(urlsplit(one.request.url).path)
    assert wire is not None
    exchange = Exchange(one.request, reader_factory(wire), 0.0)
    exchange.wrote(0.0)
    if one.status is not None:
        exchange.head(one.head or 0.0, one.status, one.headers)
    at = 0
    for offset, size in one.chunks or ((0.0, len(one.body)),):
        exchange.feed(offset, one.body[at : at + size])
        at += size
    exchange.finish(one.end or 0.0, one.ending, one.error)
    return exchange.read()


def compare(pairs: Sequence[Pair]) -> list[str]:
    """One line for each thing that could have moved."""
    read = [(reading_of(then), reading_of(now)) for then, now in pairs]
    timed = [each for each, (then, _) in zip(read, pairs, strict=True) if then.timed]
    both_timed = [pair for pair in pairs if pair[0].timed]
    return [
        _kinds("outcome", [(then.outcome, now.outcome) for then, now in read]),
        _shapes(pairs),
        _kinds("finish reason", [(str(then.finish_reason), str(now.finish_reason)) for then, now in read]),
        _figure("input tokens", [_usage(each, "input_tokens") for each in read], _count),
        _figure("output tokens", [_usage(each, "output_tokens") for each in read], _count),
        _figure("time to first token", [(then.first_token, now.first_token) for then, now in timed], _seconds),
        _figure("time to the end", [(then.end, now.end) for then, now in both_timed], _seconds),
    ]


def _kinds(what: str, pairs: list[tuple[str, str]]) -> str:
    moved = Counter(f"{then} -> {now}" for then, now in pairs if then != now)
    if not moved:
        return f"{what}: as recorded"
    told = ", ".join(f"{change} ({count})" for change, count in moved.most_common(NAMED))
    return f"{what}: {moved.total()} of {len(pairs)} moved: {told}"


def _shapes(pairs: Sequence[Pair]) -> str:
    new: Counter[str] = Counter()
    gone: Counter[str] = Counter()
    different = 0
    for then, now in pairs:
        before, after = shape_of(then.body), shape_of(now.body)
        new.update(after - before)
        gone.update(before - after)
        different += before != after
    if not different:
        return "shape: as recorded"
    told = [f"{word} {_some(found)}" for word, found in (("new", new), ("gone", gone)) if found]
    return f"shape: {different} of {len(pairs)} answers moved: {'; '.join(told)}"


def _some(found: Counter[str]) -> str:
    named = ", ".join(path for path, _ in sorted(found.items(), key=lambda one: (-one[1], one[0]))[:NAMED])
    return f"{named} and {len(found) - NAMED} more" if len(found) > NAMED else named


def shape_of(body: bytes) -> frozenset[str]:
    """The paths of a reply's JSON with the kind of value at each, ``choices[].index: number``; of a stream, of all
    events together. Empty for anything else."""
    if body.lstrip()[:1] in (b"{", b"["):
        documents = [body]
    else:
        documents = [line[5:] for line in body.splitlines() if line.startswith(b"data:")]
    return frozenset(path for document in documents for path in _paths_in(document))


def _paths_in(document: bytes) -> Iterator[str]:
    try:
        yield from _paths(json.loads(document), "")
    except (ValueError, RecursionError):
        return


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _paths(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, f"{path}[]")
    else:
        kind = {str: "text", bool: "flag", int: "number", float: "number"}.get(type(value), "null")
        yield f"{path}: {kind}"


def _usage(each: tuple[Reading, Reading], name: str) -> tuple[float | None, float | None]:
    then, now = (None if one.usage is None else getattr(one.usage, name) for one in each)
    return then, now


def _figure(what: str, pairs: list[tuple[float | None, float | None]], written: Callable[[float], str]) -> str:
    """Medians over the exchanges that have the figure on both sides."""
    known = [(then, now) for then, now in pairs if then is not None and now is not None]
    if not known:
        return f"{what}: not known on both sides"
    before, after = (statistics.median(one[side] for one in known) for side in (0, 1))
    moved = f" ({(after - before) / before:+.0%})" if before else ""
    return f"{what}: median {written(after)}, recorded {written(before)}{moved}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _seconds(value: float) -> str:
    return f"{value:.3f} s"
