"""Retries that an SDK makes by itself become attempts of one call.

The SDKs of model makers number the attempts of a request in a header. A failed attempt that an SDK may repeat leaves
its call open; the same request with the next number, from the same task or thread, continues it. Whatever else that
task asks for, or its end, closes the call.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from pytest_swarm.errors import BudgetExceeded
from pytest_swarm.exchange import Ending, Request
from pytest_swarm.tap.opencall import OpenCall

if TYPE_CHECKING:
    from pytest_swarm.exchange import Exchange
    from pytest_swarm.tap.routing import TaskContext

__all__ = ["NESTED", "RETRY_COUNT", "call_for", "may_be_repeated", "pause_before"]

RETRY_COUNT: Final = "x-stainless-retry-count"
"""How many attempts of this request came before, in every request of the SDKs that Stainless generates."""

NESTED: Final = "retried by two layers: the SDK had repeated this request, then something around it asked again"

_REPEATED: Final = frozenset({408, 409, 429})
"""Statuses below 500 that the SDKs repeat by themselves."""

_latest: ContextVar[OpenCall | None] = ContextVar("pytest_swarm_latest_call", default=None)
"""The latest call of an SDK in this task or thread."""


def call_for(context: TaskContext, request: Request, model: str | None) -> OpenCall:
    """The call to which a request belongs: the one that it repeats, else a new one.

    Raises:
        BudgetExceeded: a cost ceiling stood before the attempt that it repeats.
    """
    latest = _latest.get()
    over = latest is not None and latest.exchange is None and bool(latest.sent)
    before = latest if over else None
    numbered = _retry_count(request)
    repeats = before is not None and before.context is context and _same(before.sent[-1].exchange.request, request)
    if before is not None and repeats and numbered is not None and numbered >= len(before.sent):
        if before.sent[-1].exchange.ending is Ending.BUDGET:
            raise BudgetExceeded(before.sent[-1].exchange.error)
        if before.closed is None:
            return before
    if before is not None and before.closed is None:
        before.context.ledger.close_call(before)
    opened = context.ledger.open_call(context, model=model)
    if before is not None and repeats and len(before.sent) > 1 and _failed(before):
        opened.notes.append(NESTED)
        context.ledger.run.nested_retries += 1
    _latest.set(None if numbered is None else opened)
    return opened


def may_be_repeated(opened: OpenCall) -> bool:
    """Whether the SDK that made the latest attempt of a call might make another; the call is then to be left open."""
    exchange = opened.sent[-1].exchange
    if _retry_count(exchange.request) is None or opened.context.gone:
        return False
    advice = exchange.headers.get("x-should-retry")
    if exchange.status is None:
        return exchange.ending not in (Ending.BUDGET, Ending.CANCELLED)
    if advice in ("true", "false"):
        return advice == "true"
    return exchange.status in _REPEATED or exchange.status >= 500


def pause_before(opened: OpenCall, exchange: Exchange) -> float:
    """Seconds between the end of the attempt before and the start of this one; 0 for the first."""
    if not opened.sent:
        return 0.0
    before = opened.sent[-1].exchange
    assert before.ended is not None
    return exchange.started - (before.started if before.sent is None else before.sent) - before.ended


def _failed(call: OpenCall) -> bool:
    exchange = call.sent[-1].exchange
    return exchange.status is None or exchange.status >= 400


def _same(one: Request, other: Request) -> bool:
    return one.url == other.url and one.body == other.body


def _retry_count(request: Request) -> int | None:
    """None for a client that does not number its attempts."""
    text = request.headers.get(RETRY_COUNT, "")
    return int(text) if text.isdecimal() else None
