"""What a request that is in no cassette looks most like among those that are, and where it differs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from pytest_swarm.exchange import Asker, Request
from pytest_swarm.redaction import redact_text
from pytest_swarm.sources.cassette.interaction import Interaction, path_below_base
from pytest_swarm.sources.cassette.jsonpath import leaves
from pytest_swarm.sources.cassette.match import Matcher

__all__ = ["difference", "teller"]

LOOKED_AT: Final = 500
"""Recorded requests that are compared: the asker's own first, then others in order, each body once."""
TOLD: Final = 3
"""Differences that are named."""
AROUND: Final = 24
"""Characters of a long text that are shown on either side of the place where it differs."""

_GONE: Final = object()


def difference(request: Request, asker: Asker, recorded: Sequence[Interaction], matcher: Matcher) -> str:
    """Two sentences: which recorded request is nearest to `request`, and what differs."""
    asked = _facts(request, matcher)
    best, best_score, seen = None, -1.0, set()
    for one in islice(_candidates(asker, recorded), 20 * LOOKED_AT):
        what = (one.request.method, one.request.url, one.request.body)
        if what in seen:
            continue
        seen.add(what)
        score = _likeness(asked, _facts(one.request, matcher))
        if score > best_score:
            best, best_score = one, score
        if len(seen) >= LOOKED_AT:
            break
    if best is None:
        return "the cassette holds no exchange at all"
    differing = list(_differences(asked, _facts(best.request, matcher)))
    more = f" and {len(differing) - TOLD} more" if len(differing) > TOLD else ""
    told = "; ".join(differing[:TOLD]) or "nothing in it"
    return f"nearest is the request of {teller(Asker(best.run, best.warmup, best.agent))}; what differs: {told}{more}"


def teller(asker: Asker) -> str:
    """Who asked, in words."""
    who = "no task" if asker.agent is None else f"task {asker.agent}"
    run = f" in run {asker.run}" if asker.run else ""
    return f"{who}{run}{' (warm-up)' if asker.warmup else ''}"


def _candidates(asker: Asker, recorded: Sequence[Interaction]) -> Iterator[Interaction]:
    def own(one: Interaction) -> bool:
        return one.agent == asker.agent and one.run == asker.run and one.warmup == asker.warmup

    yield from (one for one in recorded if own(one))
    yield from (one for one in recorded if not own(one))


def _facts(request: Request, matcher: Matcher) -> dict[str, Any]:
    """What counts of a request, by name."""
    document = matcher.document(request.body)
    inner = [("the body", request.body.decode("utf-8", "replace"))] if document is None else leaves(document)
    return {"the method": request.method.upper(), "the path": path_below_base(request.url)[1], **dict(inner)}


def _likeness(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Share of what both have in common; two texts count by how much of them begins and ends alike."""
    names = one.keys() | other.keys()
    return sum(_alike(one.get(name, _GONE), other.get(name, _GONE)) for name in names) / len(names)


def _alike(one: Any, other: Any) -> float:
    if one == other and type(one) is type(other):
        return 1.0
    if not isinstance(one, str) or not isinstance(other, str):
        return 0.0
    start, end = _common(one, other)
    return min(0.9, (start + end) / max(len(one), len(other)))


def _common(one: str, other: str) -> tuple[int, int]:
    """How many characters two texts share at their start, and at their end behind that."""
    least = min(len(one), len(other))
    start = next((at for at in range(least) if one[at] != other[at]), least)
    end = next((at for at in range(least - start) if one[-1 - at] != other[-1 - at]), least - start)
    return start, end


def _differences(asked: dict[str, Any], recorded: dict[str, Any]) -> Iterable[str]:
    for name in dict.fromkeys([*asked, *recorded]):
        one, other = asked.get(name, _GONE), recorded.get(name, _GONE)
        if one is _GONE:
            yield f"{name} is missing, recorded {_shown(other)}"
        elif other is _GONE:
            yield f"{name} is {_shown(one)}, not recorded"
        elif one != other or type(one) is not type(other):
            yield f"{name} is {_shown(one, other)}, recorded {_shown(other, one)}"


def _shown(value: Any, other: Any = None) -> str:
    """A value in one line; of a long text the part where it differs from the other."""
    if not isinstance(value, str):
        return redact_text(json.dumps(value))
    if len(value) <= 3 * AROUND:
        return redact_text(json.dumps(value, ensure_ascii=False))
    start, end = _common(value, other) if isinstance(other, str) else (0, 0)
    begin, until = max(0, start - AROUND), min(len(value), max(len(value) - end, start) + AROUND, start + 3 * AROUND)
    text = redact_text(json.dumps(value[begin:until], ensure_ascii=False))[1:-1]
    return f'"{"…" if begin else ""}{text}{"…" if until < len(value) else ""}"'
