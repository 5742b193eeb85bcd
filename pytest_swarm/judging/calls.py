"""Figures of the calls of one run. Warm-up and requests that are no model call (`other`) are in none of them."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from itertools import compress
from typing import Final

from pytest_swarm.columns import JSON_CODES, CallColumns
from pytest_swarm.errors import nearest
from pytest_swarm.judging.observation import NoData
from pytest_swarm.judging.prices import NOT_BILLED
from pytest_swarm.records import CALL_OUTCOMES, REPLY_OUTCOMES, TIMED_OUTCOMES

__all__ = ["MeasuredCalls", "cost_of"]

_OTHER: Final = CALL_OUTCOMES.index("other")
_TIMED: Final = frozenset(map(CALL_OUTCOMES.index, TIMED_OUTCOMES))
_REPLY: Final = frozenset(map(CALL_OUTCOMES.index, REPLY_OUTCOMES))
_FREE: Final = frozenset(map(CALL_OUTCOMES.index, NOT_BILLED))
_STOPPED: Final = frozenset({"cancelled", "budget"})
"""Calls that the swarm stopped: they say nothing about the gateway."""
_VALID: Final = JSON_CODES.index("valid")
_PARSED: Final = frozenset({_VALID, JSON_CODES.index("schema_invalid")})
_COLUMN: Final = {"call_latency": "latency"}
"""Where a metric is not called as its column is."""


class MeasuredCalls:
    """The calls of one run that are measured."""

    def __init__(self, columns: CallColumns) -> None:
        self._columns = columns
        self._measured = [
            not warmup and outcome != _OTHER for warmup, outcome in zip(columns.warmup, columns.outcome, strict=True)
        ]
        self._timed = [
            wanted and outcome in _TIMED for wanted, outcome in zip(self._measured, columns.outcome, strict=True)
        ]
        self.count = sum(self._measured)

    # --- distributions ---

    def figures(self, name: str, call_name: str | None = None) -> array[float]:
        """One value per call that ended `ok` or `incomplete`, sorted; `itl` has one per gap between chunks."""
        wanted = self._named(self._timed, call_name)
        if name == "itl":
            return self._gaps(wanted)
        column = getattr(self._columns, _COLUMN.get(name, name))
        return array("d", sorted(value for value in compress(column, wanted) if not math.isnan(value)))

    def _gaps(self, wanted: list[bool]) -> array[float]:
        gaps, begin = array("d"), 0
        for end, selected in zip(self._columns.gap_end, wanted, strict=True):
            if selected:
                gaps.extend(self._columns.gaps[begin:end])
            begin = end
        return array("d", sorted(gaps))

    def why_no_figures(self, name: str, call_name: str | None = None) -> str:
        """Why `figures` are empty."""
        outcomes = self.outcomes(call_name)
        if not outcomes:
            return self.why_no_call(call_name)
        if not any(outcomes[outcome] for outcome in TIMED_OUTCOMES):
            told = ", ".join(f"{many} {outcome}" for outcome, many in outcomes.most_common())
            return f"no data: no call ended ok or incomplete ({told})"
        if name in ("ttft", "ttfo", "tpot", "itl"):
            if any(
                not math.isnan(value) for value in compress(self._columns.ttft, self._named(self._timed, call_name))
            ):
                return f"no data: no streamed reply had what {name} is made of"
            return f"no data: no call was streamed, so there is no {name}"
        return f"no data: no call knows its {name}; were the calls recorded without their timing?"

    # --- counts ---

    def outcomes(self, call_name: str | None = None) -> Counter[str]:
        """How many calls ended in which way."""
        codes = Counter(compress(self._columns.outcome, self._named(self._measured, call_name)))
        return Counter({CALL_OUTCOMES[code]: many for code, many in codes.items()})

    def attempts(self) -> int:
        """HTTP exchanges of all calls."""
        return sum(compress(self._columns.attempts, self._measured))

    def retries(self) -> int:
        """Attempts beyond the first one of each call."""
        return sum(max(0, attempts - 1) for attempts in compress(self._columns.attempts, self._measured))

    def why_no_call(self, call_name: str | None = None) -> str:
        """Why there is no call, or none of that name."""
        names = {
            text for code in compress(self._columns.name, self._measured) if (text := self._columns.names.texts[code])
        }
        if call_name is None or not self.count:
            return "no data: no model call was made"
        known = (
            f"; names are {', '.join(sorted(names))}{nearest(call_name, names)}" if names else ", no call has a name"
        )
        return f"no data: no call was named {call_name!r}{known}"

    # --- rates: how many, of how many ---

    def success(self, call_name: str | None = None) -> tuple[int, int]:
        """Calls that ended `ok` or `incomplete`, of all that the swarm did not stop itself (`cancelled`, `budget`)."""
        outcomes = self.outcomes(call_name)
        if not outcomes:
            raise NoData(self.why_no_call(call_name))
        counted = outcomes.total() - sum(outcomes[outcome] for outcome in _STOPPED)
        if not counted:
            raise NoData("no data: all calls were cancelled or stopped by the budget")
        return sum(outcomes[outcome] for outcome in TIMED_OUTCOMES), counted

    def json_valid(self, call_name: str | None = None) -> tuple[int, int]:
        """Replies that are JSON, of all that should be: 2xx, checked, and no tool calls."""
        statuses = self._json_statuses(call_name)
        return sum(statuses[code] for code in _PARSED), statuses.total()

    def schema_valid(self, call_name: str | None = None) -> tuple[int, int]:
        """Replies that are JSON and fit the schema, of all that should be."""
        statuses = self._json_statuses(call_name)
        return statuses[_VALID], statuses.total()

    @property
    def checked_as_json(self) -> bool:
        """Whether any reply counts in the JSON rates."""
        return bool(self._json_counts(self._measured))

    def _json_statuses(self, call_name: str | None) -> Counter[int]:
        wanted = self._named(self._measured, call_name)
        if not any(wanted):
            raise NoData(self.why_no_call(call_name))
        statuses = self._json_counts(wanted)
        if not statuses:
            raise NoData(self._why_no_json(wanted))
        return statuses

    def _json_counts(self, wanted: list[bool]) -> Counter[int]:
        columns = self._columns
        rows = compress(zip(columns.json, columns.success, columns.toolcalls, strict=True), wanted)
        return Counter(status for status, success, toolcalls in rows if status and success and not toolcalls)

    def _why_no_json(self, wanted: list[bool]) -> str:
        if not any(compress(self._columns.success, wanted)):
            return "no data: no call got a reply with a 2xx status"
        if any(compress(self._columns.toolcalls, wanted)):
            return "no data: all replies to be checked as JSON were tool calls"
        return "no data: no reply was checked as JSON; add json_output(...) to the test"

    def cache_hit_rate(self) -> float:
        """Cached tokens as a share of all input tokens, over the calls that know both."""
        pairs = compress(zip(self._columns.cached_tokens, self._columns.input_tokens, strict=True), self._measured)
        known = [(cached, tokens) for cached, tokens in pairs if not (math.isnan(cached) or math.isnan(tokens))]
        total = math.fsum(tokens for _, tokens in known)
        if not total:
            raise NoData("no data: no reply told its cached tokens" if self.count else self.why_no_call())
        return math.fsum(cached for cached, _ in known) / total

    # --- sums ---

    def output_tokens(self) -> float:
        """Output tokens of all calls that ended `ok` or `incomplete`."""
        tokens = list(compress(self._columns.output_tokens, self._timed))
        unknown = sum(map(math.isnan, tokens))
        if not tokens:
            raise NoData(self.why_no_figures("output_tokens"))
        if unknown:
            raise NoData(f"no data: {unknown} of {len(tokens)} replies did not tell their output tokens")
        return math.fsum(tokens)

    def cost(self) -> float:
        """US dollars of all calls, failed ones too.

        What was never sent and what the server refused costs nothing; everything else may have been billed, so one call
        of unknown cost makes the sum unknown.
        """
        if not self.count:
            raise NoData(self.why_no_call())
        costs = {at: cost_of(self._columns, at) for at in compress(range(len(self._columns)), self._measured)}
        unknown = [at for at, cost in costs.items() if cost is None]
        if unknown:
            raise NoData(self._why_unpriced(unknown))
        return math.fsum(cost for cost in costs.values() if cost is not None)

    def _why_unpriced(self, positions: list[int]) -> str:
        columns = self._columns
        reasons = Counter(columns.names.texts[columns.cost_reason[at]] for at in positions)
        return "; ".join(f"{reason or 'cost unknown'} ({_calls(many)})" for reason, many in reasons.most_common())

    def _named(self, mask: list[bool], call_name: str | None) -> list[bool]:
        if call_name is None:
            return mask
        texts = self._columns.names.texts
        code = texts.index(call_name) if call_name in texts else -1
        return [wanted and name == code for wanted, name in zip(mask, self._columns.name, strict=True)]


def cost_of(columns: CallColumns, at: int) -> float | None:
    """US dollars of one call; None when it may have been billed and nobody knows how much.

    What was never sent and what the server refused costs nothing. After a retry that is not sure, since an attempt
    before may have been billed.
    """
    cost, outcome = columns.cost[at], columns.outcome[at]
    if not math.isnan(cost):
        return cost
    refused = outcome in _FREE and columns.attempts[at] <= 1
    never_sent = outcome not in _REPLY and math.isnan(columns.sent[at])
    return 0.0 if refused or never_sent else None


def _calls(many: int) -> str:
    return f"{many} call" if many == 1 else f"{many} calls"
