"""Plain records: what a reply meant, what a call and a task came to. No behaviour beyond turning into report objects.

Times are seconds; unknown is None, never 0.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = [
    "CALL_OUTCOMES",
    "REPLY_OUTCOMES",
    "TASK_STATUSES",
    "TIMED_OUTCOMES",
    "TOOL_CALL_REASONS",
    "Arrival",
    "Attempt",
    "Call",
    "Reading",
    "Task",
    "Usage",
]

CALL_OUTCOMES: Final = (
    "ok",
    "incomplete",
    "content_filter",
    "refusal",
    "connect_error",
    "tls_error",
    "pool_timeout",
    "connect_timeout",
    "first_token_timeout",
    "idle_timeout",
    "timeout",
    "disconnected",
    "rate_limited",
    "quota_exhausted",
    "client_error",
    "server_error",
    "stream_error",
    "truncated",
    "empty",
    "malformed",
    "budget",
    "cancelled",
    "other",
)
"""Every way a call can end. `other` is a request that is no model call; it is counted and is in no metric."""

REPLY_OUTCOMES: Final = frozenset({"ok", "incomplete", "content_filter", "refusal"})
"""Outcomes with a reply that a caller can use; all others raise `CallFailed` from the gateway client."""

TIMED_OUTCOMES: Final = frozenset({"ok", "incomplete"})
"""Outcomes whose latencies enter the distributions of calls."""

TOOL_CALL_REASONS: Final = frozenset({"tool_calls", "tool_use", "function_call"})
"""Finish reasons of replies that call a tool, on the three wires: they are in no JSON rate."""

TASK_STATUSES: Final = ("passed", "failed", "skipped", "cancelled", "timeout", "json_invalid", "schema_invalid")


@dataclass(slots=True)
class Usage:
    """Tokens of one reply in one shape, whatever the wire said.

    `input_tokens` includes what was read from and written to a cache, `output_tokens` includes reasoning.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """Read from a prompt cache."""
    cache_write_tokens: int | None = None
    """Written to a prompt cache, all lifetimes together."""
    cache_write_1h_tokens: int | None = None
    """The part of `cache_write_tokens` that is kept for an hour."""
    reasoning_tokens: int | None = None
    reported_cost: float | None = None
    """US dollars, as the gateway says."""
    service_tier: str | None = None
    """The processing that is billed by its own rates (`flex`, `batch`, `priority`); None for the usual one."""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Reading:
    """What one exchange means. Offsets are seconds since the send."""

    outcome: str
    detail: str = ""
    """Evidence of a failure: status, code, message, the first bytes, with secrets removed."""
    first_token: float | None = None
    """First generated piece: content, reasoning or tool call. None for a reply that was not streamed."""
    first_output: float | None = None
    """First piece that is not reasoning."""
    last_content: float | None = None
    """Last piece of content; usage and end marks that come later do not count."""
    gaps: array[float] = field(default_factory=lambda: array("d"))
    """Seconds between consecutive content chunks of a stream."""
    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Usage | None = None
    model: str | None = None
    """The model that the reply names."""
    request_id: str | None = None
    raw: dict[str, Any] | None = None
    """The parsed body of a reply that was not streamed."""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Attempt:
    """One exchange of a call. `sent` counts from the run's first start; `wait` is the pause before it."""

    sent: float | None
    latency: float | None
    status: int | None
    outcome: str
    wait: float = 0.0


@dataclass(slots=True)
class Call:
    """One model request with all its attempts: a row of the report. Times count from the run's first start."""

    task: int | None
    """Index of the task within its run; None for a call made outside any agent."""
    run: int
    warmup: bool = False
    name: str | None = None
    model: str | None = None
    source: str = "live"
    outcome: str = "other"
    detail: str = ""
    due: float | None = None
    sent: float | None = None
    latency: float | None = None
    attempt_latency: float | None = None
    ttft: float | None = None
    ttfo: float | None = None
    tpot: float | None = None
    queued: float = 0.0
    connect: float | None = None
    attempts: list[Attempt] = field(default_factory=list)
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None
    cost_source: str | None = None
    cost_reason: str | None = None
    """Why the cost is not known; None where it is."""
    reported_cost: float | None = None
    finish_reason: str | None = None
    status: int | None = None
    request_id: str | None = None
    json_status: str | None = None
    """`valid`, `schema_invalid`, or why it is no JSON; None where no JSON was asked for."""
    notes: tuple[str, ...] = ()
    gaps: array[float] = field(default_factory=lambda: array("d"))
    """Seconds between content chunks; not in the report's rows."""

    def to_dict(self) -> dict[str, Any]:
        """The row of the JSON report."""
        return {
            "task": self.task,
            "run": self.run,
            "warmup": self.warmup,
            "name": self.name,
            "model": self.model,
            "source": self.source,
            "outcome": self.outcome,
            "detail": self.detail,
            "due": self.due,
            "sent": self.sent,
            "latency": self.latency,
            "attempt_latency": self.attempt_latency,
            "ttft": self.ttft,
            "ttfo": self.ttfo,
            "tpot": self.tpot,
            "queued": self.queued,
            "connect": self.connect,
            "attempts": len(self.attempts),
            "attempt_list": [
                {"sent": a.sent, "latency": a.latency, "status": a.status, "outcome": a.outcome, "wait": a.wait}
                for a in self.attempts
            ],
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "cost": self.cost,
            "cost_source": self.cost_source,
            "cost_reason": self.cost_reason,
            "reported_cost": self.reported_cost,
            "finish_reason": self.finish_reason,
            "status": self.status,
            "request_id": self.request_id,
            "json": self.json_status,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Arrival:
    """A row of an arrival trace: when something was asked for, and how much."""

    offset: float
    """Seconds since the start of the run."""
    input_tokens: int | None = None
    """Of the question; None where the trace does not tell."""
    output_tokens: int | None = None
    """Of the answer; None where the trace does not tell."""


@dataclass(slots=True)
class Task:
    """One execution of the test body: a row of the report. Times count from the run's first start."""

    index: int
    run: int
    warmup: bool
    status: str
    due: float
    start: float
    end: float
    error: str | None = None
    attempt: int = 0
    """How often the task had been run before: more than 0 only where the plan reschedules."""
    rescheduled: bool = False
    """Whether it was run again after this: then this row's status is not the task's."""

    def to_dict(self) -> dict[str, Any]:
        """The row of the JSON report."""
        return {
            "index": self.index,
            "run": self.run,
            "warmup": self.warmup,
            "status": self.status,
            "due": self.due,
            "start": self.start,
            "end": self.end,
            "error": self.error,
            "attempt": self.attempt,
            "rescheduled": self.rescheduled,
        }
