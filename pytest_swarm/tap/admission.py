"""The gate before every attempt of a call: limits hold it back, then a cost ceiling may stop it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pytest_swarm.clock import real_now
from pytest_swarm.errors import SwarmError
from pytest_swarm.exchange import Ending

if TYPE_CHECKING:
    from pytest_swarm.exchange import Exchange
    from pytest_swarm.tap.opencall import OpenCall
    from pytest_swarm.traffic.limits import Ticket

__all__ = ["admit", "admit_blocking"]

_HELD_BACK: Final = "ended while a limit of the plan held it back: it was never sent"


async def admit(opened: OpenCall, exchange: Exchange) -> None:
    """Start an attempt of a call when the limits let it go; the exchange counts as started only then.

    It has finished as `budget` when this returns, and must not be sent, where a cost ceiling stands before it. One that
    is given up while it is held back ends as `cancelled`.
    """
    opened.exchange = exchange
    limiter = opened.context.ledger.limiter
    if limiter is not None:
        try:
            ticket = await limiter.acquire(opened.model, exchange.request.body)
        except BaseException:
            _give_up(opened, exchange)
            raise
        if not _let_go(opened, exchange, ticket):
            raise asyncio.CancelledError(_HELD_BACK)
    opened.attempt(exchange)


def admit_blocking(opened: OpenCall, exchange: Exchange) -> None:
    """As `admit`, for a client that blocks its thread.

    On the virtual clock nobody can be held back so: no time would pass. The request then only counts.
    """
    opened.exchange = exchange
    limiter = opened.context.ledger.limiter
    if limiter is not None:
        hold = limiter.acquire_blocking if opened.context.ledger.now is real_now else limiter.take
        try:
            ticket = hold(opened.model, exchange.request.body)
        except BaseException:
            _give_up(opened, exchange)
            raise
        if not _let_go(opened, exchange, ticket):
            raise SwarmError(f"a request {_HELD_BACK}")
    opened.attempt(exchange)


def _give_up(opened: OpenCall, exchange: Exchange) -> None:
    now = exchange.clock()
    opened.queued += now - exchange.started
    exchange.finish(now, Ending.CANCELLED, _HELD_BACK)


def _let_go(opened: OpenCall, exchange: Exchange, ticket: Ticket) -> bool:
    """Whether somebody still waits for the attempt: its task may have ended meanwhile."""
    limiter = opened.context.ledger.limiter
    assert limiter is not None
    if exchange.ending is not None:
        limiter.give_back(ticket)
        return False
    opened.ticket = ticket
    if ticket.waited:
        opened.queued += ticket.waited
        exchange.started = exchange.clock()
    return True
