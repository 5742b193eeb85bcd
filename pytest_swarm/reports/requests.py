"""What a summary says of requests beside the model calls of agents."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pytest_swarm.records import CALL_OUTCOMES

if TYPE_CHECKING:
    from pytest_swarm.columns import SwarmResult

__all__ = ["notes_on_requests"]

HOSTS_NAMED: Final = 3
_OTHER: Final = CALL_OUTCOMES.index("other")


def notes_on_requests(result: SwarmResult, base_url: str) -> list[str]:
    """One line for each kind of request that a reader might look for among the calls, or wonder at."""
    outside = sum(
        task == -1 and outcome != _OTHER
        for run in result.runs
        for task, outcome in zip(run.calls.task, run.calls.outcome, strict=True)
    )
    hosts: Counter[str] = Counter()
    for run in result.runs:
        hosts.update(run.others)
    nested = sum(run.nested_retries for run in result.runs)
    reconnects = sum(run.reconnects for run in result.runs)
    notes = []
    if outside:
        notes.append(f"{_many(outside, 'model call')} made outside any agent, in a fixture or a background task")
    if hosts:
        named = ", ".join(host for host, _ in hosts.most_common(HOSTS_NAMED))
        more = ", …" if len(hosts) > HOSTS_NAMED else ""
        notes.append(
            f"{_many(hosts.total(), 'request')} no model call to {base_url} and in no figure ({named}{more}); "
            "the ini key swarm_hosts names further hosts to measure"
        )
    if reconnects:
        notes.append(
            f"{_many(reconnects, 'request')} sent again on a new connection, because the server had closed the idle "
            "one that it had promised to keep; the send that counts is the second"
        )
    if nested:
        notes.append(
            f"{_many(nested, 'call')} made again by the test after the SDK had repeated the request: two layers retry, "
            "which multiplies load and waits; turn one off (max_retries=0)"
        )
    return notes


def _many(count: int, what: str) -> str:
    return f"{count} {what} was" if count == 1 else f"{count} {what}s were"
