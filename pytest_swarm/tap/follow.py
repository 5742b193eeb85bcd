"""What the tap does with a request that an agent's own client makes: decide what it is, and keep its book."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_swarm.errors import BudgetExceeded, SwarmError
from pytest_swarm.exchange import Asker, Ending, Exchange, Request
from pytest_swarm.reading import reader_factory, wire_of
from pytest_swarm.tap.admission import admit, admit_blocking
from pytest_swarm.tap.retried import call_for, may_be_repeated, pause_before

if TYPE_CHECKING:
    from pytest_swarm.tap.opencall import OpenCall
    from pytest_swarm.tap.routing import TaskContext

__all__ = [
    "check_host",
    "exchange_for",
    "follow",
    "follow_blocking",
    "is_model_request",
    "is_played",
    "model_of",
    "pass_by",
]


def exchange_for(context: TaskContext, request: Request, wire: str) -> Exchange:
    """A new exchange on the clock of the task, read by the rules of `wire`."""
    now = context.ledger.now
    asker = Asker(context.run, context.warmup, context.index)
    return Exchange(request, reader_factory(wire), now(), now, asker)


async def follow(context: TaskContext, request: Request) -> Exchange | None:
    """Open a call for a model request, or go on with the one that it repeats; it closes itself when it has finished.

    Returns when the request may be sent, which limits may delay. None for a request that is no model call, which is
    only counted.

    Raises:
        BudgetExceeded: a cost ceiling stands before it. The call is booked, and the request must not be sent.
    """
    asked = _ask(context, request)
    if asked is None:
        return None
    await admit(*asked)
    return _affordable(asked[1])


def follow_blocking(context: TaskContext, request: Request) -> Exchange | None:
    """As `follow`, for a client that blocks its thread."""
    asked = _ask(context, request)
    if asked is None:
        return None
    admit_blocking(*asked)
    return _affordable(asked[1])


def _ask(context: TaskContext, request: Request) -> tuple[OpenCall, Exchange] | None:
    """The call and its next attempt; None for a request that is no model call."""
    parts = urlsplit(request.url)
    wire = wire_of(parts.path)
    ledger = context.ledger
    if wire is None or not is_model_request(request.method, parts.path) or not _is_measured(context, parts.hostname):
        pass_by(context, request.method, request.url)
        return None
    opened = call_for(context, request, model_of(request.body))
    exchange = exchange_for(context, request, wire)
    wait = pause_before(opened, exchange)

    def finished(exchange: Exchange) -> None:
        if exchange.sent is None and exchange.ending is Ending.COMPLETE:
            exchange.sent = exchange.started
        opened.attempt_ended(exchange.read(), wait)
        if not may_be_repeated(opened):
            ledger.close_call(opened)

    exchange.on_finish = finished
    return opened, exchange


def _affordable(exchange: Exchange) -> Exchange:
    if exchange.ending is Ending.BUDGET:
        raise BudgetExceeded(exchange.error)
    return exchange


def is_model_request(method: str, path: str) -> bool:
    """Whether a request asks a model, on a wire that can be read."""
    return method.upper() == "POST" and wire_of(path) is not None


def is_played(context: TaskContext, method: str, host: str | None, path: str) -> bool:
    """Whether a request is answered by the source of its task, with nothing on the network behind it.

    In a replay those are all model calls that would be measured, wherever their client would send them.
    """
    if context.ledger.gateway_kind == "replay":
        return is_model_request(method, path) and _is_measured(context, host)
    return context.played is not None and host == context.played


def pass_by(context: TaskContext, method: str, url: str) -> None:
    """Count a request that is no model call, or none that the swarm measures."""
    parts = urlsplit(url)
    context.ledger.pass_by(context, method, parts.hostname or "", parts.path)


def check_host(context: TaskContext, host: str | None, path: str) -> None:
    """Stop what would leave the machine although this run calls no real model.

    Of what no task asks for, in a fixture for example, only model calls are stopped.
    """
    if context.confined is None or host is None or host in context.confined or is_loopback(host):
        return
    if context.index is None and wire_of(path) is None:
        return
    stopped = SwarmError(
        f"a request to {host} was stopped: this run is {_kind(context)} and reaches loopback only; "
        f"{_remedy(context)}, or list the host in the ini key swarm_hosts"
    )
    context.stopped = context.stopped or stopped
    raise stopped


def _kind(context: TaskContext) -> str:
    return "a replay" if context.ledger.gateway_kind == "replay" else "simulated"


def _remedy(context: TaskContext) -> str:
    if context.ledger.gateway_kind == "replay":
        return "only model calls to the gateway are replayed"
    return "give --swarm-base-url to run against a real gateway"


def _is_measured(context: TaskContext, host: str | None) -> bool:
    """Whether a model call to a host is one of the gateway under test, and no other model that a test uses."""
    return context.counted is None or host is None or host in context.counted or is_loopback(host)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def model_of(body: bytes) -> str | None:
    """The `model` of a request body, or None where it names none."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return None
    model = parsed.get("model") if isinstance(parsed, dict) else None
    return model if isinstance(model, str) else None
