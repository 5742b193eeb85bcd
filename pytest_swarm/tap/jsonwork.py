"""Checking replies as JSON without keeping the loop from the bytes of other agents.

A short reply is checked at once: it takes some 20 microseconds. A long one takes milliseconds to seconds, in which the
loop would stamp no chunk; it is checked in a thread, one at a time, since threads would only take turns. On the virtual
clock everything is checked at once: there it takes no time, and the order of events stays the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_swarm.reading.json_output import JSONResult
    from pytest_swarm.records import Reading

__all__ = ["AT_ONCE", "JsonCheck", "in_a_thread"]

JsonCheck = Callable[["Reading"], "JSONResult | None"]
"""What a reply is as JSON; None for one that is in no JSON rate."""

AT_ONCE: Final = 2**14
"""Characters of a reply that is checked on the loop."""


@cache
def _worker() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "swarm-json")


def in_a_thread(check: JsonCheck, reading: Reading) -> asyncio.Future[JSONResult | None] | None:
    """Start to check a long reply beside the running loop; None for a short one, or where no loop runs."""
    if len(reading.text) <= AT_ONCE:
        return None
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop.run_in_executor(_worker(), check, reading)
