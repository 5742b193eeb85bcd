"""Nothing leaves the machine while a replay runs, whatever library would send it: the last line behind the taps."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pytest_swarm.errors import SwarmError
from pytest_swarm.tap.follow import is_loopback
from pytest_swarm.tap.routing import caller

__all__ = ["Blocked", "confined_sockets"]

_ANY: Final = ("", "0.0.0.0", "::")  # noqa: S104 - nothing is bound: as a destination they are this machine
_INTERNET: Final = (socket.AF_INET, socket.AF_INET6)


class Blocked(SwarmError, ConnectionError):
    """A connection that would leave the machine was not made; clients take it for one that was refused."""


@contextmanager
def confined_sockets(allowed: frozenset[str], on_blocked: Callable[[str], None]) -> Iterator[None]:
    """For the length of the block, sockets of this process reach this machine and the hosts that are `allowed`.

    `on_blocked` is told, in one sentence, what was stopped; the task whose connection it was fails with it.
    """
    guard = _Guard(allowed, on_blocked)
    originals: dict[tuple[Any, str], Any] = {}

    def wrap(owner: Any, name: str, check: Callable[[Any], Callable[..., Any]]) -> None:
        originals[owner, name] = getattr(owner, name), name in vars(owner)
        setattr(owner, name, check(getattr(owner, name)))

    for name in ("connect", "connect_ex", "sendto"):
        wrap(socket.socket, name, guard.sending)
    wrap(socket, "getaddrinfo", guard.resolving)
    try:
        yield
    finally:
        for (owner, name), (original, its_own) in originals.items():
            if its_own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)


class _Guard:
    """Knows where sockets may go, and tells when one would go elsewhere."""

    def __init__(self, allowed: frozenset[str], on_blocked: Callable[[str], None]) -> None:
        self._allowed = allowed
        self._addresses: set[str] = set()
        """Of the hosts that are allowed."""
        self._on_blocked = on_blocked

    def sending(self, original: Any) -> Callable[..., Any]:
        """A method of sockets whose last argument is an address."""

        def checked(sock: socket.socket, *args: Any) -> Any:
            if sock.family in _INTERNET and args and isinstance(args[-1], tuple):
                self._check(str(args[-1][0]))
            return original(sock, *args)

        return checked

    def resolving(self, original: Any) -> Callable[..., Any]:
        """The look-up of a name, which asks a server."""

        def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
            name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
            if name:
                self._check(name)
            found = original(host, *args, **kwargs)
            if name in self._allowed:
                self._addresses.update(str(address[4][0]) for address in found)
            return found

        return getaddrinfo

    def _check(self, host: str) -> None:
        if host in self._allowed or host in self._addresses or is_loopback(host) or host in _ANY:
            return
        blocked = Blocked(
            f"a connection to {host} was stopped: this run is a replay and reaches loopback only; "
            "list the host in the ini key swarm_hosts if it may be reached"
        )
        context = caller()
        if context is not None:
            context.stopped = context.stopped or blocked
        self._on_blocked(str(blocked))
        raise blocked
