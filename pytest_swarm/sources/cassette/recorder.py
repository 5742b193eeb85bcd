"""The recorder of one swarm: told of every exchange, it writes each that went out, redacted, when it has ended.

It stands on the path of the measurement: while an exchange goes on, all it costs is one entry in a list for each piece.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pytest_swarm.exchange import Ending
from pytest_swarm.sources.cassette.decoding import decoded
from pytest_swarm.sources.cassette.interaction import SIMULATED, Interaction

if TYPE_CHECKING:
    from pytest_swarm.exchange import Exchange
    from pytest_swarm.sources.cassette.redact import Redactor
    from pytest_swarm.sources.cassette.scan import Scanner
    from pytest_swarm.sources.cassette.writer import CassetteWriter

__all__ = ["MANY", "Place", "Recorder", "interaction_of"]

MANY: Final = 1000
"""Interactions above which a file in JSON is suggested: it loads faster, by far in plain vcrpy."""


class Place(NamedTuple):
    """Where an exchange stands in its recording."""

    run: int
    warmup: bool
    agent: int | None
    sequence: int


class Recorder:
    """Writes exchanges with `writer`. May be told of them from any thread."""

    def __init__(self, writer: CassetteWriter, redactor: Redactor, make_scanner: Callable[[], Scanner]) -> None:
        """`make_scanner` is called with the first exchange: fixtures may set a variable with a key until then."""
        self.path = writer.path
        self.problem: str | None = None
        """Why there will be no cassette: a secret that was found, a disk that is full."""
        self.told = False
        """Whether the test has failed with the problem already."""
        self._writer = writer
        self._redactor = redactor
        self._make_scanner = make_scanner
        self._lock = threading.Lock()
        self._seen: Counter[tuple[int, bool, int | None]] = Counter()
        self._found = 0
        self._over = False

    @property
    def count(self) -> int:
        """Interactions that were written."""
        return self._writer.count

    @property
    def note(self) -> str:
        """What the summary says of it."""
        if self.problem is not None:
            return self.problem
        one = "1 exchange" if self.count == 1 else f"{self.count} exchanges"
        more = "; with swarm_cassette_format = json it would load faster" if self.count > MANY else ""
        yaml = self.path.suffix != ".json"
        return f"recorded {one} to {self.path}{more if yaml else ''}"

    def begin(self, exchange: Exchange, run: int, warmup: bool, agent: int | None) -> Place:
        """An exchange goes out: keep its pieces, and number it among those of its agent."""
        exchange.kept = []
        with self._lock:
            sequence = self._seen[run, warmup, agent]
            self._seen[run, warmup, agent] += 1
        return Place(run, warmup, agent, sequence)

    def end(self, exchange: Exchange, place: Place, gateway: str, zero: float | None = None) -> None:
        """It has ended: write it, unless it was never sent because a cost ceiling stood before it.

        `gateway` tells what it was meant for, ``live`` or ``simulated``, where no reply says it. `zero` is when its run
        started, on the clock of the exchange; None where nobody knows.
        """
        pieces, exchange.kept = exchange.kept or [], None
        if exchange.ending in (None, Ending.BUDGET) or self._over:
            return
        interaction = self._redactor.interaction(interaction_of(exchange, pieces, place, gateway, zero))
        finding = self._scanner.scan(interaction)
        if finding is not None:
            self._refuse(place, str(finding))
        elif self.problem is None:
            try:
                self._writer.append(interaction)
            except OSError as error:
                self.problem = f"the cassette {self.path} cannot be written: {error.strerror or error}"

    @cached_property
    def _scanner(self) -> Scanner:
        return self._make_scanner()

    def _refuse(self, place: Place, finding: str) -> None:
        """A secret: nothing of it is written, and what was written before goes too."""
        self._found += 1
        if self._found > 1:
            return
        agent = "no task" if place.agent is None else f"task {place.agent}"
        warmup = " (warm-up)" if place.warmup else ""
        self.problem = (
            f"no cassette was written to {self.path}: exchange {place.sequence} of {agent}{warmup} in run {place.run}, "
            f"{finding}; keep the secret out of it, or name a JSON field in the ini key swarm_redact_fields to have "
            f"its value left out"
        )
        self._writer.discard()

    def finish(self, *, complete: bool) -> None:
        """The recording is over. Incomplete, it stays a part file, and an older cassette stays as it was."""
        self._over = True
        if self._found:
            self._writer.discard()
            return
        try:
            if complete and self.problem is None:
                self._writer.complete()
            else:
                self._writer.leave()
        except OSError as error:
            self.problem = f"the cassette {self.path} cannot be written: {error.strerror or error}"


def interaction_of(
    exchange: Exchange, pieces: list[tuple[float, bytes]], place: Place, gateway: str, zero: float | None = None
) -> Interaction:
    """A finished exchange with its pieces; `gateway` and `zero` as for `Recorder.end`. Nothing is redacted yet."""
    began = exchange.started if exchange.sent is None else exchange.sent
    assert exchange.ending is not None
    plain = decoded(exchange.headers, pieces)
    source: Literal["live", "simulated"] = (
        "simulated" if SIMULATED in exchange.headers or gateway == "simulated" else "live"
    )
    return Interaction(
        exchange.request,
        exchange.status,
        plain.headers,
        plain.body,
        agent=place.agent,
        run=place.run,
        sequence=place.sequence,
        warmup=place.warmup,
        began=None if zero is None else _microseconds(began - zero),
        connect=_microseconds(exchange.connect),
        head=_microseconds(exchange.head_at),
        chunks=tuple((round(at, 6), size) for at, size in plain.chunks if at is not None),
        end=_microseconds(exchange.ended),
        ending=exchange.ending,
        error=exchange.error,
        recorded_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        source=source,
    )


def _microseconds(offset: float | None) -> float | None:
    return None if offset is None else round(offset, 6)
