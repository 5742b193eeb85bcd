"""Replies without measure, over a real socket: memory stays bounded, and what came of the call stays true."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.processes import ROOT, port_of

ROOM_MIB = 64
"""What one call may take, whatever it is sent: text up to 8 MiB, held in pieces and whole, and one event of 10 MB."""
DRIFT_MIB = 8
"""What another 100 MB may add: an allocator is not exact."""


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with port_of([sys.executable, "-m", "tests.support.flood_server"]) as port:
        yield f"http://127.0.0.1:{port}/v1"


@dataclass(frozen=True)
class Flooded:
    call: dict[str, Any]
    taken: float
    """MiB of memory, at the worst moment."""


def flooded(base_url: str, model: str, *timeout: str) -> Flooded:
    command = [sys.executable, "-m", "tests.support.one_call", base_url, model, *timeout]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90, check=True)
    told = json.loads(done.stdout)
    return Flooded(told["call"], told["after_mib"] - told["before_mib"])


def test_a_longer_stream_takes_no_more_memory(base_url: str) -> None:
    short, long = flooded(base_url, "stream-20"), flooded(base_url, "stream-120")
    assert [one.call["outcome"] for one in (short, long)] == ["ok", "ok"]
    assert long.call["notes"] == ["the reply's text was kept up to 8 MiB and dropped beyond"]
    assert long.taken < short.taken + DRIFT_MIB
    assert long.taken < ROOM_MIB


def test_a_stream_of_many_tokens_is_kept_up_to_a_bound(base_url: str) -> None:
    found = flooded(base_url, "tokens-20")
    assert found.call["outcome"] == "ok"
    assert found.call["notes"] == ["only the first 262144 gaps between chunks were kept"]
    assert found.taken < ROOM_MIB


def test_an_event_of_10_mb_is_read_and_one_of_20_mb_is_dropped_with_a_word(base_url: str) -> None:
    large, larger = flooded(base_url, "event-10"), flooded(base_url, "event-20")
    assert large.call["outcome"] == "ok"
    assert larger.call["outcome"] == "empty"
    assert larger.call["notes"] == ["1 event of more than 16 MiB dropped"]
    assert max(large.taken, larger.taken) < ROOM_MIB


def test_a_stream_that_never_ends_is_ended_by_the_timeout(base_url: str) -> None:
    found = flooded(base_url, "endless", "0.5")
    assert (found.call["outcome"], found.call["detail"]) == ("timeout", "not finished within 0.5 s")
    assert found.call["ttft"] is not None
    assert found.taken < ROOM_MIB
