"""Asking a gateway again what was recorded: a sample of a cassette's requests, in place of a test's own body."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pytest_swarm.errors import SettingError, SwarmError
from pytest_swarm.exchange import Ending, Request
from pytest_swarm.reading import wire_of
from pytest_swarm.sources.cassette.drift import compare, reading_of, sample_of
from pytest_swarm.sources.cassette.file import Cassette, read_cassette
from pytest_swarm.sources.cassette.interaction import path_below_base
from pytest_swarm.sources.cassette.recorder import Place, interaction_of
from pytest_swarm.tap.admission import admit
from pytest_swarm.tap.follow import exchange_for
from pytest_swarm.tap.routing import current
from pytest_swarm.traffic.deadlines import Deadlines

if TYPE_CHECKING:
    from pytest_swarm.gateway.client import Terms
    from pytest_swarm.sources.cassette.interaction import Interaction
    from pytest_swarm.tap.routing import Agent

__all__ = ["Recheck", "recheck_of"]

_NEVER_SENT: Final = (Ending.BUDGET, Ending.CANCELLED)


class Recheck:
    """The sample of one cassette. `body` is what each task does; there is a task for each request."""

    def __init__(self, cassette: Cassette, sample: list[Interaction]) -> None:
        self._cassette = cassette
        self._sample = sample
        self._pairs: list[tuple[Interaction, Interaction]] = []
        self.terms: Terms | None = None
        """How to ask; set before the run."""

    def __len__(self) -> int:
        return len(self._sample)

    async def body(self, agent: Agent) -> None:
        """Send one request as it was recorded, below the base URL and with the key of today.

        Raises `SwarmError` where the outcome is another one.
        """
        assert agent.index is not None
        then = self._sample[agent.index]
        context = current.get()
        assert context is not None
        assert self.terms is not None
        wire = wire_of(urlsplit(then.request.url).path)
        assert wire is not None
        exchange = exchange_for(context, _request(then, self.terms, wire), wire)
        opened = context.ledger.open_call(context, model=then.model)
        limits = self.terms.limits
        try:
            await admit(opened, exchange)
            exchange.kept = exchange.kept if exchange.kept is not None else []
            if exchange.ending is None:
                ends_at = None if limits.total is None else exchange.clock() + limits.total
                async with Deadlines(exchange, limits, ends_at):
                    async for _ in context.source.send(exchange):
                        pass
        finally:
            exchange.finish(exchange.clock(), Ending.CANCELLED)
            pieces = exchange.kept or []
            reading = exchange.read()
            opened.attempt_ended(reading)
            context.ledger.close_call(opened)
        if exchange.ending in _NEVER_SENT:
            return
        place = Place(agent.run, False, agent.index, 0)
        self._pairs.append((then, interaction_of(exchange, pieces, place, context.ledger.gateway_kind)))
        before = reading_of(then).outcome
        if reading.outcome != before:
            detail = f" ({reading.detail})" if reading.detail else ""
            raise SwarmError(f"what was recorded as {before} is answered as {reading.outcome}{detail}")

    def notes(self) -> list[str]:
        """What has moved, as lines for the summary."""
        recorded = self._cassette.recorded_at or "at an unknown time"
        asked = f"{len(self._pairs)} of {len(self._cassette.interactions)} exchanges in {self._cassette.path}"
        first = f"drift: asked again {asked}, recorded {recorded}, in place of the test's own body"
        return [first, *(f"drift: {line}" for line in (compare(self._pairs) if self._pairs else ()))]


def recheck_of(path: Path | None, what: str) -> Recheck:
    """A recheck of the cassette at `path`. Raises `SettingError` where there is none, or nothing in it was answered."""
    if path is None:
        raise SettingError(f"{what} has no cassette to check; record it with --swarm-record")
    cassette = read_cassette(path)
    sample = sample_of(cassette.interactions)
    if not sample:
        raise SettingError(f"the cassette {path} holds no answered model call; there is nothing to check")
    return Recheck(cassette, sample)


def _request(then: Interaction, terms: Terms, wire: str) -> Request:
    url = f"{terms.base_url}{path_below_base(then.request.url)[1]}"
    query = urlsplit(then.request.url).query
    headers = {**then.request.headers, **terms.headers}
    key = terms.headers.get("authorization", "").removeprefix("Bearer ")
    if wire == "messages" and key:
        headers["x-api-key"] = key
    return Request(then.request.method, f"{url}?{query}" if query else url, headers, then.request.body)
