"""What both runners share: which task is next, how agents are made, and how the end of a task becomes a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytest_swarm.records import Task
from pytest_swarm.swarm.outcomes import TestOutcomes, describe
from pytest_swarm.swarm.punctuality import Punctuality
from pytest_swarm.swarm.release import Release, Releases, phases
from pytest_swarm.tap.routing import TaskContext

if TYPE_CHECKING:
    from pytest_swarm.exchange import Source
    from pytest_swarm.swarm.adaptive import Trouble
    from pytest_swarm.swarm.plan import Plan
    from pytest_swarm.tap.ledger import Ledger

__all__ = ["Course"]

FAILED: Final = frozenset({"failed", "timeout", "json_invalid", "schema_invalid"})
"""Statuses after which a task may be run again."""
TIMEOUTS: Final = frozenset({"pool_timeout", "connect_timeout", "first_token_timeout", "idle_timeout", "timeout"})


@dataclass(slots=True)
class Course:
    """One run of a plan, as far as it does not matter how bodies are run."""

    plan: Plan
    ledger: Ledger
    source: Source
    outcomes: TestOutcomes
    errors: dict[str, BaseException] = field(default_factory=dict)
    """The first exception behind each task status; warm-up left out."""
    confined: frozenset[str] | None = None
    """See `TaskContext.confined`."""
    counted: frozenset[str] | None = None
    """See `TaskContext.counted`."""
    played: str | None = None
    """See `TaskContext.played`."""
    in_flight: int = 0
    closed: bool = False
    """No further body is started; those that run may finish."""
    room: Callable[[], None] | None = None
    """Called when more tasks may be in flight than before, although none has made way."""
    punctuality: Punctuality = field(default_factory=Punctuality)
    """How an open loop keeps to its times."""
    _releases: Releases | None = None

    def phases(self) -> Iterator[None]:
        """Begin each phase of the run; the next when the loop over this comes round."""
        start = self.ledger.zero = self.ledger.now()
        for begin in phases(self.plan, self.ledger.run):
            self._releases = begin(start)
            yield
            start = self.ledger.now()

    def next_release(self, running: int) -> Release | None:
        """The task to start now beside those that are running, if there is one."""
        if self.closed or self._releases is None:
            return None
        return self._releases.take(self.ledger.now(), running)

    def advance(self, running: int) -> None:
        """Note what has become due by now, and write down what never will be started."""
        if self.closed or self._releases is None:
            return
        now = self.ledger.now()
        self._releases.advance(now, running)
        for release, reason in self._releases.left(now):
            self._shed(release, now, reason)

    def next_time(self) -> float | None:
        """When to `advance` next, if no task ends before; None when only the end of tasks matters."""
        return None if self.closed or self._releases is None else self._releases.next_time()

    def context(self, release: Release, attempt: int = 0) -> TaskContext:
        """The context of one task, or of the attempt at it that has this number."""
        return TaskContext(
            release.index,
            self.ledger.run.index,
            ledger=self.ledger,
            source=self.source,
            seed=self.plan.seed,
            warmup=release.warmup,
            due=release.due,
            arrival=release.arrival,
            attempt=attempt,
            waited=release.waited or attempt > 0,
            confined=self.confined,
            counted=self.counted,
            played=self.played,
        )

    def started(self, context: TaskContext, start: float) -> None:
        """A body starts."""
        if self.plan.is_open and not context.waited and not context.warmup:
            self.punctuality.started(context.due, start)
        self.in_flight += 1
        self.ledger.run.in_flight_max = max(self.ledger.run.in_flight_max, self.in_flight)

    def ended(
        self,
        context: TaskContext,
        start: float,
        error: BaseException | None,
        status: str | None,
        end: float | None = None,
    ) -> None:
        """A body has ended, at `end` or now, with `status` or with the one that `error` and its replies tell."""
        self.in_flight -= 1
        if context.stopped is not None and status in (None, "failed"):
            # Clients wrap what they do not know, or ask again: what stopped the request is what has to be told.
            error, status = context.stopped, "failed"
        text = None if error is None else describe(error)
        if status is None:
            status = _status_of_replies(context)
            if status != "passed":
                text = "a reply was not valid JSON" if status == "json_invalid" else "a reply did not fit the schema"
        if status == "failed" and any(call.outcome == "budget" for call in context.calls):
            # For want of a reply that a cost ceiling kept from being asked for: that tells nothing of the gateway.
            status = "cancelled"
        again = context.attempt < self.plan.reschedule and status in FAILED and not self.closed
        if error is not None and not context.warmup and not again:
            self.errors.setdefault(status, error)
        zero = self.ledger.zero
        assert context.index is not None
        end = self.ledger.now() if end is None else end
        row = Task(
            context.index,
            context.run,
            context.warmup,
            status,
            context.due - zero,
            start - zero,
            end - zero,
            text,
            context.attempt,
            again,
        )
        self.ledger.close_task(context, row)
        if isinstance(self.plan.concurrency, tuple) and self._releases is not None:
            more = self._releases.ended(end, end - start, _trouble(context, status))
            if more and self.room is not None:
                self.room()

    def _shed(self, release: Release, now: float, reason: str) -> None:
        """A task that was due is never started. Nobody cancelled it, but no status is nearer to the truth."""
        context = self.context(release)
        due, when = release.due - self.ledger.zero, now - self.ledger.zero
        row = Task(release.index, context.run, release.warmup, "cancelled", due, when, when, reason)
        self.ledger.close_task(context, row)
        if not release.warmup:
            self.ledger.run.shed += 1


def _status_of_replies(context: TaskContext) -> str:
    """A task that returned has passed, unless one of its replies was asked to be JSON and was not."""
    statuses = {call.json_status for call in context.calls} - {None, "valid"}
    if not statuses:
        return "passed"
    return "schema_invalid" if statuses == {"schema_invalid"} else "json_invalid"


def _trouble(context: TaskContext, status: str) -> Trouble | None:
    """What a task tells of the system's capacity; a request that was asked again counts too."""
    seen = {attempt.outcome for call in context.calls for attempt in call.attempts}
    if "rate_limited" in seen:
        return "rate_limited"
    if status == "timeout" or seen & TIMEOUTS:
        return "timeout"
    return None if status == "passed" else "failed"
