"""Requests that a client of httpx sends on when the gateway says that it has moved: one attempt, not two calls.

Only redirects that keep method and body are followed so (307, 308); after any other one there is no model request left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pytest_swarm.exchange import Exchange
    from pytest_swarm.tap.httpx_library import Library

__all__ = ["following", "goes_on", "going_on"]

_KEEPING: Final = frozenset({307, 308})


@dataclass(slots=True)
class _Chain:
    """One request of a client with all that follow from it."""

    follows: bool
    exchange: Exchange | None = None
    """What goes on with the next request."""


_chain: ContextVar[_Chain | None] = ContextVar("pytest_swarm_redirects", default=None)


@contextmanager
def following(library: Library, *, follows: bool) -> Iterator[None]:
    """Around a request of a client that `follows` redirects or does not."""
    chain = _Chain(follows)
    token = _chain.set(chain)
    try:
        yield
    except BaseException as error:
        if chain.exchange is not None:
            library.failed(chain.exchange, error)
        raise
    finally:
        _chain.reset(token)


def goes_on(exchange: Exchange, response: Any) -> bool:
    """Whether the client answers this response by sending the request somewhere else."""
    chain = _chain.get()
    if chain is None or not chain.follows or response.status_code not in _KEEPING or not response.has_redirect_location:
        return False
    exchange.redirected()
    chain.exchange = exchange
    return True


def going_on() -> Exchange | None:
    """The exchange that the request which is made now goes on with; it has left the chain."""
    chain = _chain.get()
    if chain is None:
        return None
    exchange, chain.exchange = chain.exchange, None
    return exchange
