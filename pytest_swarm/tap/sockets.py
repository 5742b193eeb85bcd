"""Nothing leaves the machine while a replay runs, whatever library would send it: the last line behind the taps."""

from __future__ import annotations

import socket
import threading
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

    `on_blocked` is told, in one sentence, what was stopped; the task whose connection it was fails with it. Blocks may
    overlap in any way: what one of them does not allow is stopped.
    """
    guard = _Guard(allowed, on_blocked)
    with _lock:
        if not _guards:
            _wrap_all()
        _guards.append(guard)
    try:
        yield
    finally:
        with _lock:
            _guards.remove(guard)
            if not _guards:
                _restore_all()


class _Guard:
    """Knows where sockets may go, and tells when one would go elsewhere."""

    def __init__(self, allowed: frozenset[str], on_blocked: Callable[[str], None]) -> None:
        self._allowed = allowed
        self._addresses: set[str] = set()
        """Of the hosts that are allowed."""
        self._on_blocked = on_blocked

    def check(self, host: str) -> None:
        """Raise `Blocked` for a host that may not be reached."""
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

    def resolved(self, host: str, found: Any) -> None:
        """A name has been looked up."""
        if host in self._allowed:
            self._addresses.update(str(address[4][0]) for address in found)


_lock = threading.Lock()
_guards: list[_Guard] = []
"""Those of all blocks that are entered."""
_originals: dict[tuple[Any, str], tuple[Any, bool]] = {}
"""What was wrapped, and whether it stood in that very place or was inherited."""


def _wrap_all() -> None:
    for name in ("connect", "connect_ex", "sendto"):
        _wrap(socket.socket, name, _sending)
    _wrap(socket, "getaddrinfo", _resolving)


def _wrap(owner: Any, name: str, checked: Callable[[Any], Callable[..., Any]]) -> None:
    _originals[owner, name] = getattr(owner, name), name in vars(owner)
    setattr(owner, name, checked(getattr(owner, name)))


def _restore_all() -> None:
    for (owner, name), (original, its_own) in _originals.items():
        if its_own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)
    _originals.clear()


def _sending(original: Any) -> Callable[..., Any]:
    """A method of sockets whose last argument is an address."""

    def checked(sock: socket.socket, *args: Any) -> Any:
        if sock.family in _INTERNET and args and isinstance(args[-1], tuple):
            for guard in _guards.copy():
                guard.check(str(args[-1][0]))
        return original(sock, *args)

    return checked


def _resolving(original: Any) -> Callable[..., Any]:
    """The look-up of a name, which asks a server."""

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        guards = _guards.copy() if name else []
        for guard in guards:
            guard.check(name)
        found = original(host, *args, **kwargs)
        for guard in guards:
            guard.resolved(name, found)
        return found

    return getaddrinfo
