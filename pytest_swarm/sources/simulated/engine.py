"""The engine of one simulated system: what each request meets, in the order of arrival, from one seed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from random import Random
from typing import Final

from pytest_swarm.sources.simulated.answers import Answers
from pytest_swarm.sources.simulated.asking import Answer, Ask, Refused
from pytest_swarm.sources.simulated.cache import Piece, Prefix, PromptCache, prefixes_of
from pytest_swarm.sources.simulated.capacity import Worker, make_pool
from pytest_swarm.sources.simulated.faults import Fate, FateDraws, Journey
from pytest_swarm.sources.simulated.limits import RateLimiter
from pytest_swarm.sources.simulated.profile import System
from pytest_swarm.sources.simulated.schemas import UnsupportedSchema
from pytest_swarm.sources.simulated.service import QuantileFunction, Strata
from pytest_swarm.sources.simulated.timeline import Timeline
from pytest_swarm.sources.simulated.tokens import CHARACTERS, Length, cost_of, draw_length, tokens_in
from pytest_swarm.values import plain

__all__ = ["Engine", "Plan"]

EPOCH: Final = 1_767_225_600
"""1 January 2026: what `created` counts from, so that the same run gives the same bytes on any day."""


@dataclass(slots=True)
class Plan:
    """What will happen to one request once a worker takes it. All times are seconds."""

    number: int
    """Counts the requests of this system from 0."""
    journey: Journey
    seconds: float
    """Work on the whole answer."""
    first_token: float
    """Work before its first token."""
    answer: Answer
    headers: dict[str, str]
    prefixes: list[Prefix]
    failure: Refused | None = None
    """The error that a doomed request gets."""


class Engine:
    """One system at work. Make a fresh one for each run: it remembers its cache, its queue and its draws."""

    def __init__(self, system: System, seed: str, timeline: Timeline, speed: float = 1.0) -> None:
        """`speed` is told to clients only: whoever makes the engine gives it a timeline that runs so fast."""
        self.system = system
        self.timeline = timeline
        self._seed = seed = f"{seed}:{system.name}"
        self._speed = plain(float(speed))
        self._zero = timeline.time()
        self._count = 0
        self._fates = FateDraws(system.faults, seed)
        self._quantiles = QuantileFunction(system.service.shares, system.service.seconds)
        self._services = Strata(Random(f"{seed}:service"))
        self._lengths = Random(f"{seed}:length")
        self._gaps = Random(f"{seed}:gaps")
        self._answers = Answers(system, seed)
        self._limiter = RateLimiter(system.limits, self._zero, speed)
        shared = PromptCache(system.cache)
        own = system.cache.scope == "worker"
        self.pool = make_pool(system.capacity, lambda: PromptCache(system.cache) if own else shared, timeline)

    def plan_reply(self, ask: Ask, now: float) -> Plan:
        """Decide what becomes of the next request. Raises `Refused` when that is clear at once."""
        number, self._count = self._count, self._count + 1
        identity = hashlib.blake2b(f"{self._seed}:{number}".encode(), digest_size=12).hexdigest()
        headers = {"x-swarm-simulated": f"{self.system.name};{self._speed}", "x-request-id": f"req_{identity}"}
        input_tokens = sum(tokens_in(piece.text) for piece in ask.pieces)
        length = draw_length(self.system.tokens, ask.max_tokens, self._lengths)
        verdict = self._limiter.admit(input_tokens + length.given, now)
        headers |= verdict.headers
        if verdict.wait > 0:
            message = f"too many {verdict.unit} for {self.system.name}; try again in {verdict.wait:.3f} s"
            raise Refused(429, message, "rate_limit_exceeded", headers)
        text = self._text(ask, headers)
        journey = self._fates.draw()
        seconds, first_token = self._work(journey, length)
        return Plan(
            number,
            journey,
            seconds,
            first_token,
            self._answer(ask, identity, text, length, input_tokens, now),
            headers,
            self._prefixes(ask.pieces, input_tokens),
            self._failure() if journey.fate is Fate.DOOMED else None,
        )

    def start(self, plan: Plan, worker: Worker, now: float) -> None:
        """A worker begins with the answer: from now on it is known what it finds in its cache, and the cost."""
        answer = plan.answer
        if plan.prefixes:
            cache = worker.cache
            writable = cache.writable(plan.prefixes)
            answer.cached_tokens = cache.read(plan.prefixes, now)
            if writable:
                answer.written_tokens = max(0, writable[-1].tokens - answer.cached_tokens)
            cache.write(plan.prefixes, now, now + plan.first_token)
        answer.cost = cost_of(
            self.system.prices,
            input_tokens=answer.input_tokens,
            cached_tokens=answer.cached_tokens,
            written_tokens=answer.written_tokens,
            output_tokens=answer.output_tokens,
        )

    def end(self, plan: Plan, worker: Worker, now: float) -> None:
        """The answer is complete: where the context grows, it is a part of what the cache knows."""
        if not self.system.cache.keeps_replies:
            return
        answer = plan.answer
        if answer.input_tokens + tokens_in(answer.text) >= self.system.cache.min_tokens:
            pieces = [*(Piece(piece.text) for piece in answer.ask.pieces), Piece(f"assistant\n{answer.text}")]
            worker.cache.write(prefixes_of(pieces, self.system.cache.block_tokens), now, now)

    def pieces(self, plan: Plan) -> list[tuple[float, str]]:
        """The text of a stream in pieces, each with its time since the worker began; the last comes with the end."""
        text = plan.answer.text
        count = min(self.system.stream.max_chunks, tokens_in(text))
        if count < 2:
            return [(plan.seconds, text)]
        gap = (plan.seconds - plan.first_token) / (count - 1)
        # Neighbours stray by less than half a gap each, so that they never change places.
        stray = self.system.stream.gap_jitter * gap / 2
        jitter = self._gaps.random
        times = [plan.first_token + i * gap + stray * (2 * jitter() - 1) for i in range(1, count - 1)]
        ends = [len(text) * (i + 1) // count for i in range(count)]
        return [
            (time, text[begin:end])
            for time, begin, end in zip([plan.first_token, *times, plan.seconds], [0, *ends], ends, strict=False)
        ]

    def _text(self, ask: Ask, headers: dict[str, str]) -> str:
        if ask.schema is None:
            return self._answers.text()
        try:
            return self._answers.json_text(ask.schema)
        except UnsupportedSchema as unsupported:
            message = f"the simulated gateway cannot answer this schema: {unsupported}"
            raise Refused(400, message, "unsupported_schema", headers) from None

    def _work(self, journey: Journey, length: Length) -> tuple[float, float]:
        """Seconds of work in all, and before the first token; a cut answer saves its share of what comes after that."""
        if journey.fate is Fate.HANG or (journey.fate is Fate.DOOMED and not journey.pauses):
            return 0.0, 0.0
        seconds = self._quantiles(self._services.draw())
        first_token = seconds * self.system.service.first_token_share
        seconds = first_token + (seconds - first_token) * length.share
        if journey.fate is Fate.STALL:
            stall = self.system.faults.stall_seconds
            return seconds + stall, first_token + stall
        return seconds, first_token

    def _answer(self, ask: Ask, identity: str, text: str, length: Length, input_tokens: int, now: float) -> Answer:
        text = length.cut_text(text)
        # What is not visible was thought: a usage that is no more than its text would not be this system's.
        reasoning = max(0, length.given - -(-len(text) // CHARACTERS))
        return Answer(
            identity,
            self.system.name,
            EPOCH + int(now - self._zero),
            text,
            length.cut,
            length.given,
            reasoning,
            input_tokens,
            ask=ask,
        )

    def _prefixes(self, pieces: list[Piece], input_tokens: int) -> list[Prefix]:
        profile = self.system.cache
        if profile.scope == "none" or input_tokens < profile.min_tokens:
            return []
        return prefixes_of(pieces, profile.block_tokens)

    def _failure(self) -> Refused:
        status = self.system.faults.doomed_status
        return Refused(status, f"{self.system.name} failed, as its profile says some requests do", "simulated_failure")
