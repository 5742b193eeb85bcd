"""How a cost ceiling stands, for whoever sits before the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_swarm.reports.figures import count, money
from pytest_swarm.reports.layout import BODY, Line, flow, labelled, wrapped

__all__ = ["ceiling_lines"]


def ceiling_lines(standing: Mapping[str, Any], width: int) -> Iterator[Line]:
    """Lines for one `traffic.budget.Standing.to_dict`, none of them wider than `width`."""
    body = width - BODY
    items = [
        f"{money(standing['spent'])} of {money(standing['ceiling'])} spent ({standing['set_by']})",
        f"{count(standing['requests'], 'request')}, {money(standing['estimated'])} at worst",
    ]
    if standing["refused"]:
        items.append(f"{standing['refused']:,} not sent")
    markup = {"red": True} if standing["overspent"] else {"yellow": True} if standing["refused"] else {}
    yield from labelled("ceiling", flow(items, body), markup)
    for remark in _remarks(standing):
        yield from labelled("", wrapped(remark, body), markup)


def _remarks(standing: Mapping[str, Any]) -> Iterator[str]:
    if standing["overspent"]:
        guessed = count(standing["guessed"], "request")
        if standing["guessed"]:
            why = f"the worst case of {guessed} was a guess (no max_tokens, for example; the notes of the calls say it)"
        else:
            why = f"{count(standing['dearer'], 'request')} cost more than what was sent allows"
        yield f"OVERSPENT by {money(standing['overspent'])}: {why}"
    if standing["unknown"]:
        many = count(standing["unknown"], "request")
        yield f"{money(standing['unknown_cost'])} of it is the worst case of {many} whose cost nobody told"
    if standing["reserved"]:
        yield f"{money(standing['reserved'])} more was reserved for requests that never ended, and counts as spent"
