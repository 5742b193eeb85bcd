"""Where requests of any wire format come in, and find the system that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pytest_swarm.errors import nearest
from pytest_swarm.exchange import Ending
from pytest_swarm.reading import wire_of
from pytest_swarm.sources.simulated.asking import Ask, Refused
from pytest_swarm.sources.simulated.chat_wire import ChatWire
from pytest_swarm.sources.simulated.engine import Engine
from pytest_swarm.sources.simulated.messages_wire import MessagesWire
from pytest_swarm.sources.simulated.responses_wire import ResponsesWire
from pytest_swarm.sources.simulated.systems import DEFAULT_SYSTEM, System
from pytest_swarm.sources.simulated.timeline import Timeline
from pytest_swarm.sources.simulated.visit import JSON, Sink, Visit
from pytest_swarm.sources.simulated.wire import Wire, parse_body
from pytest_swarm.values import plain

__all__ = ["CHAT", "Reception", "wire_at"]

CHAT: Final = ChatWire()
_WIRES: Final[dict[str, Wire]] = {"chat": CHAT, "messages": MessagesWire(), "responses": ResponsesWire()}
_ADDRESSES: Final = "/chat/completions, /messages, /responses"


def wire_at(url: str) -> Wire | None:
    """The wire format that is spoken at a URL, by the end of its path; None for another address."""
    return _WIRES.get(wire_of(url) or "")


class Reception:
    """All systems of one run, each made when it is first asked for."""

    def __init__(self, systems: Mapping[str, System], seed: str, timeline: Timeline, speed: float = 1.0) -> None:
        """`seed` is any text: the same text and the same requests in the same order give the same bytes."""
        self._systems = systems
        self._seed = seed
        self._timeline = timeline
        self._speed = speed
        self._engines: dict[str, Engine] = {}

    def engine(self, model: str | None) -> Engine:
        """The engine that answers for `model`. Raises `Refused` when there is none."""
        name = model or DEFAULT_SYSTEM
        found = self._engines.get(name)
        if found is None:
            system = self._systems.get(name)
            if system is None:
                listed = f"there are {', '.join(self._systems)}{nearest(name, self._systems)}"
                raise Refused(404, f"no simulated system is called {name!r}; {listed}", "model_not_found")
            found = self._engines[name] = Engine(system, self._seed, self._timeline, self._speed)
        return found

    def receive(self, url: str, body: bytes, sink: Sink) -> Visit | None:
        """Take one request on; its reply goes to `sink`. None when it was refused, and answered so, at once."""
        wire = wire_at(url)
        try:
            if wire is None:
                raise Refused(404, f"nothing answers at this address; there are {_ADDRESSES}", "not_found")
            ask = wire.read(parse_body(body))
            return self._visit(wire, ask, sink)
        except Refused as refused:
            self.refuse(wire or CHAT, refused, sink)
            return None

    def refuse(self, wire: Wire, refused: Refused, sink: Sink) -> None:
        """Answer with an error; one that comes before any system is asked is marked as from none."""
        mark = {"x-swarm-simulated": f"-;{plain(float(self._speed))}"}
        sink.head(refused.status, {**mark, **refused.headers, "content-type": JSON})
        sink.feed(wire.error(refused))
        sink.finish(Ending.COMPLETE)

    def _visit(self, wire: Wire, ask: Ask, sink: Sink) -> Visit:
        engine = self.engine(ask.model)
        visit = Visit(engine, engine.plan_reply(ask, self._timeline.time()), wire, sink)
        visit.begin()
        return visit
