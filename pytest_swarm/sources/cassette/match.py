"""Which recorded exchange answers a request: a hash index, so that a cassette of 10,000 takes no longer for each.

Requests are the same when method, path below the base URL and body are. Bodies are compared as JSON, whatever the order
of their keys, without the fields that recordings leave out, and without those that the user does not want to count.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from pytest_swarm.exchange import Asker, Request
from pytest_swarm.sources.cassette.interaction import Interaction, path_below_base
from pytest_swarm.sources.cassette.jsonpath import JSONPath, without
from pytest_swarm.sources.cassette.redact import Redactor

__all__ = ["Index", "Key", "Matcher"]


class Key(NamedTuple):
    """What two requests share that are the same."""

    method: str
    path: str
    """Below the base URL, without the query."""
    body: str | bytes
    """JSON in one certain form; the bytes as they are where they are no JSON."""


class Matcher:
    """Makes keys. `ignored` are JSON paths that do not count, `redactor` takes out what a recording leaves out."""

    def __init__(self, ignored: Iterable[JSONPath] = (), redactor: Redactor | None = None) -> None:
        self._ignored = tuple(ignored)
        self._redactor = redactor or Redactor()

    def key(self, request: Request) -> Key:
        """The key of a request, asked for or recorded."""
        return Key(request.method.upper(), path_below_base(request.url)[1], self._body(request.body))

    def document(self, body: bytes) -> Any:
        """A request's body as far as it counts, parsed; None for what is no JSON."""
        try:
            parsed = json.loads(self._redactor.request_body(body), parse_float=_number)
        except (ValueError, RecursionError):
            return None
        return without(parsed, self._ignored) if self._ignored else parsed

    def _body(self, body: bytes) -> str | bytes:
        parsed = self.document(body)
        return body if parsed is None else _canonical(parsed)


_canonical: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def _number(text: str) -> float | int:
    """What clients write as ``1.0`` others write as ``1``."""
    number = float(text)
    return int(number) if number.is_integer() else number


class _Queues:
    """The exchanges that were recorded for one key, by who asked. All hold positions, those in use too, in order."""

    __slots__ = ("by_asker", "by_phase", "every")

    def __init__(self) -> None:
        self.by_asker: dict[Asker, deque[int]] = {}
        self.by_phase: dict[tuple[int, bool], deque[int]] = {}
        self.every: deque[int] = deque()

    def add(self, position: int, run: int, warmup: bool) -> None:
        self.by_phase.setdefault((run, warmup), deque()).append(position)
        self.every.append(position)

    def meant_for(self, asker: Asker) -> Iterator[deque[int]]:
        """From the best to the last resort."""
        none: deque[int] = deque()
        yield self.by_asker.get(asker, none)
        yield self.by_phase.get((asker.run, asker.warmup), none)
        yield self.every


class Index:
    """The exchanges of a cassette, each to be taken once."""

    def __init__(self, interactions: Sequence[Interaction], matcher: Matcher) -> None:
        self.interactions = interactions
        self.matcher = matcher
        self._used = bytearray(len(interactions))
        self._queues: dict[Key, _Queues] = {}
        self._exact: dict[tuple[Key, tuple[Asker, int]], int] = {}
        keys = [matcher.key(one.request) for one in interactions]
        for position, (key, one) in enumerate(zip(keys, interactions, strict=True)):
            self._queues.setdefault(key, _Queues()).add(position, one.run, one.warmup)
        # Of one asker's own the order is that in which it asked, and not that in which it was answered.
        for position in sorted(range(len(keys)), key=lambda at: interactions[at].sequence):
            key, one = keys[position], interactions[position]
            if one.timed:
                asker = Asker(one.run, one.warmup, one.agent)
                self._exact[key, (asker, one.sequence)] = position
                self._queues[key].by_asker.setdefault(asker, deque()).append(position)

    def take(self, key: Key, asker: Asker, sequence: int) -> Interaction | None:
        """What answers the request with this key that is number `sequence` of those of `asker`; None where nothing is
        left. First comes what was recorded for that very one, then for that asker, that run, anybody; of several the
        one that was recorded first."""
        position = self._find(key, asker, sequence)
        if position is None:
            return None
        self._used[position] = True
        return self.interactions[position]

    def _find(self, key: Key, asker: Asker, sequence: int) -> int | None:
        position = self._exact.get((key, (asker, sequence)))
        if position is not None and not self._used[position]:
            return position
        queues = self._queues.get(key)
        for queue in () if queues is None else queues.meant_for(asker):
            while queue and self._used[queue[0]]:
                queue.popleft()
            if queue:
                return queue[0]
        return None

    def recorded(self, key: Key) -> int:
        """How often a request with this key was recorded, used up or not."""
        return sum(self.matcher.key(one.request) == key for one in self.interactions)

    @property
    def unused(self) -> int:
        """Exchanges that nobody has asked for."""
        return len(self._used) - sum(self._used)
