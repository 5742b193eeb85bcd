"""What the tap does with a request that an agent's own client makes: decide what it is, and keep its book."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_swarm.errors import BudgetExceeded, SwarmError
from pytest_swarm.exchange import Ending, Exchange, Request
from pytest_swarm.reading import reader_factory, wire_of

if TYPE_CHECKING:
    from pytest_swarm.tap.routing import TaskContext

__all__ = ["check_host", "exchange_for", "follow", "model_of"]


def exchange_for(context: TaskContext, request: Request, wire: str) -> Exchange:
    """A new exchange on the clock of the task, read by the rules of `wire`."""
    now = context.ledger.now
    return Exchange(request, reader_factory(wire), now(), now)


def follow(context: TaskContext, request: Request) -> Exchange | None:
    """Open a call of one attempt for a model request; it closes itself when the exchange has finished.

    None for a request that is no model call.

    Raises:
        BudgetExceeded: a cost ceiling stands before it. The call is booked, and the request must not be sent.
    """
    parts = urlsplit(request.url)
    wire = wire_of(parts.path)
    if wire is None or request.method.upper() != "POST":
        return None
    ledger = context.ledger
    opened = ledger.open_call(context, model=model_of(request.body))
    exchange = exchange_for(context, request, wire)

    def finished(exchange: Exchange) -> None:
        if exchange.sent is None and exchange.ending is Ending.COMPLETE:
            exchange.sent = exchange.started
        opened.attempt_ended(exchange.read())
        ledger.close_call(opened)

    exchange.on_finish = finished
    opened.attempt(exchange)
    if exchange.ending is Ending.BUDGET:
        raise BudgetExceeded(exchange.error)
    return exchange


def check_host(context: TaskContext, host: str | None) -> None:
    """Stop what would leave the machine although this run calls no real model."""
    if context.confined is None or host is None or host in context.confined or is_loopback(host):
        return
    raise SwarmError(
        f"a request to {host} was stopped: this run is simulated and reaches loopback only; "
        "give --swarm-base-url to run against a real gateway, or list the host in the ini key swarm_hosts"
    )


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
