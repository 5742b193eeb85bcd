"""Sockets that reach this machine only."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from pytest_swarm.tap.sockets import Blocked, confined_sockets


@pytest.fixture
def blocked() -> Iterator[list[str]]:
    told: list[str] = []
    with confined_sockets(frozenset({"allowed.example"}), told.append):
        yield told


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_this_machine_is_reached(blocked: list[str], port: int) -> None:
    for host in ("127.0.0.1", "localhost", "0.0.0.0"):
        socket.create_connection((host, port), timeout=5).close()
    ours, theirs = socket.socketpair()
    ours.close()
    theirs.close()
    assert socket.getaddrinfo(None, port)
    assert not blocked


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "far.example", b"far.example"])
def test_others_are_not_and_clients_take_it_for_a_refusal(blocked: list[str], host: str) -> None:
    with pytest.raises(ConnectionError, match="this run is a replay and reaches loopback only"):
        socket.create_connection((host, 80), timeout=5)
    name = host.decode() if isinstance(host, bytes) else host
    (told,) = blocked
    assert told == (
        f"a connection to {name} was stopped: this run is a replay and reaches loopback only; list the host in the ini "
        "key swarm_hosts if it may be reached"
    )


def test_every_way_to_send_is_watched(blocked: list[str]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for send in (
            lambda: sock.connect(("192.0.2.1", 9)),
            lambda: sock.connect_ex(("192.0.2.1", 9)),
            lambda: sock.sendto(b"x", ("192.0.2.1", 9)),
            lambda: sock.sendto(b"x", 0, ("192.0.2.1", 9)),
        ):
            with pytest.raises(Blocked):
                send()
    assert len(blocked) == 4


def test_loops_are_watched_too(blocked: list[str]) -> None:
    async def connect() -> None:
        await asyncio.open_connection("192.0.2.1", 80)

    with pytest.raises(Blocked):
        asyncio.run(connect())
    assert len(blocked) == 1


def test_the_addresses_of_allowed_hosts_are_allowed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *args, **kwargs: asked.append(host) or found)
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: asked.append(address))
    told: list[str] = []
    with confined_sockets(frozenset({"allowed.example"}), told.append):
        socket.create_connection(("allowed.example", port), timeout=5).close()
        with socket.socket() as sock, pytest.raises(Blocked):
            sock.connect(("192.0.2.8", port))
    assert asked == ["allowed.example", ("192.0.2.7", port)]
    assert len(told) == 1


def test_afterwards_sockets_are_as_before() -> None:
    before = socket.getaddrinfo, vars(socket.socket).get("connect"), vars(socket.socket).get("sendto")
    with confined_sockets(frozenset(), lambda _: None):
        assert socket.getaddrinfo is not before[0]
    assert (socket.getaddrinfo, vars(socket.socket).get("connect"), vars(socket.socket).get("sendto")) == before


def test_blocks_may_overlap() -> None:
    before = socket.getaddrinfo, vars(socket.socket).get("connect")
    told: list[str] = []
    first, second = (confined_sockets(frozenset({name}), told.append) for name in ("a.example", "b.example"))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with pytest.raises(Blocked):
        socket.getaddrinfo("a.example", 80)
    second.__exit__(None, None, None)
    assert (socket.getaddrinfo, vars(socket.socket).get("connect")) == before
    assert len(told) == 1
