"""A call that is still going on, and the record that it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from pytest_swarm.errors import BudgetExceeded
from pytest_swarm.exchange import Ending, Exchange
from pytest_swarm.judging.prices import NOT_BILLED
from pytest_swarm.records import TIMED_OUTCOMES, Attempt, Call, Reading

if TYPE_CHECKING:
    from pytest_swarm.reading.json_output import JSONResult
    from pytest_swarm.sources.cassette.recorder import Place
    from pytest_swarm.tap.ledger import Price
    from pytest_swarm.tap.routing import TaskContext
    from pytest_swarm.traffic.limits import Ticket
    from pytest_swarm.traffic.worst_case import WorstCase

__all__ = ["SIMULATED", "OpenCall", "source_of"]

SIMULATED: Final = "x-swarm-simulated"
"""The header by which a simulated gateway says that it is one: `<system>;<speed>`."""


@dataclass(slots=True)
class _Sent:
    """One finished attempt: the exchange, what it meant, and the pause before it."""

    exchange: Exchange
    reading: Reading
    wait: float


@dataclass(slots=True, eq=False)
class OpenCall:
    """One model request of a task, from the moment it was asked for to its last attempt."""

    context: TaskContext
    model: str | None
    name: str | None = None
    due: float = 0.0
    """On the clock of the run, like every time here."""
    sent: list[_Sent] = field(default_factory=list)
    exchange: Exchange | None = None
    """The attempt that is on the wire."""
    notes: list[str] = field(default_factory=list)
    closed: Call | None = None
    """The record, once there is one."""
    checked: JSONResult | None = None
    """What the reply is as JSON, once that is known and where it was asked for."""
    queued: float = 0.0
    """Seconds for which limits held its attempts back, all of them together."""
    ticket: Ticket | None = None
    """With which limits let the attempt on the wire go, where there are any."""
    _reserved: WorstCase | None = None
    """What the attempt on the wire may cost, where a ceiling stands over it."""
    _place: Place | None = None
    """Where the attempt on the wire stands in the recording, where there is one."""

    def attempt(self, exchange: Exchange) -> None:
        """An attempt goes out; or it has finished as `budget` when this returns, and must not be sent."""
        self.exchange = exchange
        ceilings = self.context.ledger.ceilings
        if ceilings is not None:
            try:
                self._reserved = ceilings.reserve(self.model, exchange.request.body)
            except BudgetExceeded as refused:
                exchange.finish(exchange.clock(), Ending.BUDGET, str(refused))
                return
            guesses = self._reserved.guesses
            exchange.notes.extend(f"the cost ceiling was held by a guess: {guess}" for guess in guesses)
        recorder = self.context.ledger.recorder
        if recorder is not None:
            self._place = recorder.begin(exchange, self.context.run, self.context.warmup, self.context.index)

    def attempt_ended(self, reading: Reading, wait: float = 0.0) -> None:
        """The attempt on the wire has finished and was read; `wait` is the pause that preceded it."""
        assert self.exchange is not None
        # No client may make anything else of it: the task fails with what its source refused.
        self.context.stopped = self.context.stopped or self.exchange.refused
        self._settle(self.exchange, reading)
        self._settle_limits(self.exchange, reading)
        recorder, place, self._place = self.context.ledger.recorder, self._place, None
        if recorder is not None and place is not None and not self.context.gone:
            ledger = self.context.ledger
            recorder.end(self.exchange, place, ledger.gateway_kind, ledger.zero)
        self.sent.append(_Sent(self.exchange, reading, wait))
        self.exchange = None

    def _settle(self, exchange: Exchange, reading: Reading) -> None:
        """Tell the ceilings what the attempt came to cost: nothing, if it never reached a socket."""
        reserved, self._reserved = self._reserved, None
        ledger = self.context.ledger
        if reserved is None or ledger.ceilings is None:
            return
        if exchange.sent is None:
            ledger.ceilings.settle(reserved, "budget", Decimal(0))
            return
        simulated = source_of(exchange, ledger.gateway_kind) == "simulated"
        cost = ledger.price(self.model or reading.model, reading, simulated=simulated)
        ledger.ceilings.settle(reserved, reading.outcome, cost.amount)

    def _settle_limits(self, exchange: Exchange, reading: Reading) -> None:
        """Tell the limits how many tokens the attempt came to, as far as that is known."""
        ticket, self.ticket = self.ticket, None
        limiter = self.context.ledger.limiter
        if ticket is None or limiter is None:
            return
        if exchange.ending is Ending.BUDGET:
            limiter.give_back(ticket)
            return
        usage = reading.usage
        if usage is not None and usage.input_tokens is not None and usage.output_tokens is not None:
            limiter.settle(ticket, usage.input_tokens + usage.output_tokens, usage.output_tokens)
        else:
            limiter.settle(ticket, 0 if reading.outcome in NOT_BILLED else None)

    def pieces(self) -> list[str]:
        """The pieces of visible text that the latest attempt has brought so far."""
        exchange = self.exchange or (self.sent[-1].exchange if self.sent else None)
        reader = exchange.drain() if exchange is not None else None
        return reader.pieces if reader is not None else []

    def close(self, zero: float, price: Price) -> Call:
        """The record of the finished call; `zero` is the time from which the report counts."""
        first, last = self.sent[0], self.sent[-1]
        reading, exchange = last.reading, last.exchange
        usage = reading.usage
        call = Call(task=self.context.index, run=self.context.run, warmup=self.context.warmup, name=self.name)
        call.model = self.model or reading.model
        unsent = exchange.ending is Ending.BUDGET
        kind = self.context.ledger.gateway_kind
        call.source = kind if unsent or kind == "replay" else source_of(exchange, kind)
        call.outcome, call.detail = reading.outcome, reading.detail
        call.due, call.queued = self.due - zero, self.queued
        call.connect = exchange.connect
        call.status, call.request_id = exchange.status, reading.request_id
        call.finish_reason = reading.finish_reason
        call.attempts = [_attempt_row(sent, zero) for sent in self.sent]
        if _is_timed(first.exchange) and first.exchange.sent is not None:
            call.sent = first.exchange.sent - zero
        if _is_timed(exchange) and exchange.sent is not None:
            call.attempt_latency = _length(exchange, reading)
            if call.attempt_latency is not None and first.exchange.sent is not None:
                call.latency = exchange.sent - first.exchange.sent + call.attempt_latency
            call.ttft, call.ttfo = reading.first_token, reading.first_output
            call.gaps = reading.gaps
        if usage is not None:
            call.input_tokens, call.output_tokens = usage.input_tokens, usage.output_tokens
            call.cached_tokens, call.cache_write_tokens = usage.cached_tokens, usage.cache_write_tokens
            call.reasoning_tokens, call.reported_cost = usage.reasoning_tokens, usage.reported_cost
        call.tpot = _time_per_output_token(reading, call.output_tokens) if _is_timed(exchange) else None
        self._settle_cost(call, price)
        call.notes = (*self.notes, *exchange.notes, *reading.notes, *(usage.notes if usage is not None else ()))
        return call

    def _settle_cost(self, call: Call, price: Price) -> None:
        """Every attempt costs; one with an unknown cost makes that of the call unknown."""
        kind = self.context.ledger.gateway_kind
        costs = [
            price(call.model, sent.reading, simulated=source_of(sent.exchange, kind) == "simulated")
            for sent in self.sent
        ]
        amounts = [cost.amount for cost in costs]
        call.cost_source = costs[-1].source
        if all(amount is not None for amount in amounts):
            call.cost = float(sum(amount for amount in amounts if amount is not None))
        else:
            call.cost_reason = next(cost.reason for cost in costs if cost.amount is None)


def source_of(exchange: Exchange, kind: str) -> str:
    """`live` or `simulated`: a simulated gateway says so in a header, wherever it stands, and a cassette of one too.

    Where no header came, it is of the `kind` that the whole run is.
    """
    if exchange.status is None and kind == "simulated":
        return kind
    recorded = exchange.recorded is not None and exchange.recorded.source == "simulated"
    return "simulated" if recorded or SIMULATED in exchange.headers else "live"


def _is_timed(exchange: Exchange) -> bool:
    """False for what a cassette answers that does not know when what came."""
    return exchange.recorded is None or exchange.recorded.timed


def _length(exchange: Exchange, reading: Reading) -> float | None:
    """Seconds from the send to the last content, or to the end where no content was read."""
    if reading.outcome in TIMED_OUTCOMES and reading.last_content is not None:
        return reading.last_content
    return exchange.ended


def _attempt_row(sent: _Sent, zero: float) -> Attempt:
    exchange = sent.exchange
    known = exchange.sent is not None and _is_timed(exchange)
    began = exchange.sent - zero if known and exchange.sent is not None else None
    latency = _length(exchange, sent.reading) if known else None
    return Attempt(began, latency, exchange.status, sent.reading.outcome, sent.wait)


def _time_per_output_token(reading: Reading, output_tokens: int | None) -> float | None:
    """(last token - first token) / (output tokens - 1), with the server's count of tokens: chunks are no tokens."""
    if reading.first_token is None or reading.last_content is None or output_tokens is None or output_tokens < 2:
        return None
    return (reading.last_content - reading.first_token) / (output_tokens - 1)
