"""`gateway.chat` and `gateway.stream`: model calls through the gateway under test, with retries and timeouts."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pytest_swarm.errors import CallFailed, SettingError
from pytest_swarm.exchange import Ending, Request
from pytest_swarm.gateway.reply import JsonRule, Reply
from pytest_swarm.gateway.sdk import SharedClients, make_anthropic, make_openai
from pytest_swarm.records import REPLY_OUTCOMES, Reading
from pytest_swarm.tap.admission import admit
from pytest_swarm.tap.follow import exchange_for
from pytest_swarm.tap.routing import TaskContext, current
from pytest_swarm.traffic.deadlines import Deadlines, Limits
from pytest_swarm.traffic.retry import Retry, Stop, decide

if TYPE_CHECKING:
    from pytest_swarm.tap.opencall import OpenCall

__all__ = ["Gateway", "Messages", "Terms"]

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Terms:
    """What every call of one test shares: where it goes, as what, and what it may take."""

    base_url: str
    headers: Mapping[str, str] = field(repr=False)
    """Sent with every request; holds the key."""
    model: str | None
    limits: Limits
    retries: int = 0
    json_rule: JsonRule | None = None
    """Set under the marker `json_output`."""


class Gateway:
    """The `gateway` fixture: asks models through the gateway under test.

    Every agent of a test may share it; a call belongs to the agent whose task makes it.
    """

    def __init__(self, terms: Terms, outside: Callable[[], TaskContext]) -> None:
        self._terms = terms
        self._outside = outside
        self.clients = SharedClients(terms)

    async def chat(
        self,
        prompt: str | Messages,
        *,
        model: str | None = None,
        stream: bool = False,
        max_tokens: int | None = None,
        name: str | None = None,
        **body: Any,
    ) -> Reply:
        """Ask for a chat completion and wait for the whole reply.

        Args:
            prompt: text of one user message, or a list of messages as the wire has them.
            model: overrides the model of the marker and of ``--swarm-model``.
            stream: have the reply streamed, which measures the time to the first token.
            max_tokens: bound of the reply's length.
            name: a label for metrics, ``ttft[plan].p95`` for example.
            body: any further field of the request (``temperature=0``, ``tools=[...]``); one that is None is left out.

        Raises:
            CallFailed: there is no usable reply: transport, HTTP or stream error, truncated, malformed, empty.
            SettingError: no model is named anywhere.
        """
        opened, request = self._open(prompt, model=model, stream=stream, max_tokens=max_tokens, name=name, body=body)
        return self._reply(opened, await self._perform(opened, request))

    async def stream(
        self,
        prompt: str | Messages,
        *,
        model: str | None = None,
        max_tokens: int | None = None,
        name: str | None = None,
        **body: Any,
    ) -> AsyncGenerator[str]:
        """Yield the pieces of visible text as they arrive; arguments and errors as with `chat`.

        The reply is read as fast as it comes, whatever the loop over it does: a slow loop distorts no figure.
        """
        opened, request = self._open(prompt, model=model, stream=True, max_tokens=max_tokens, name=name, body=body)
        grown = asyncio.Event()
        performing = asyncio.create_task(self._perform(opened, request, grown.set))
        performing.add_done_callback(lambda _: grown.set())
        given = 0
        try:
            while True:
                await grown.wait()
                grown.clear()
                done = performing.done()
                pieces = opened.pieces()
                while given < len(pieces):
                    yield pieces[given]
                    given += 1
                if done:
                    break
            self._reply(opened, performing.result())
        finally:
            if not performing.done():
                performing.cancel()
                await asyncio.wait({performing})

    @property
    def model(self) -> str | None:
        """The model of the test; SDK clients want it named with every request."""
        return self._terms.model

    def openai(self, **options: Any) -> Any:
        """An ``AsyncOpenAI`` client of the package ``openai`` that asks this gateway, with its own retries off.

        All tasks of a test share it, and it is closed for you. With `options`, arguments of the class such as
        ``max_retries=2`` or ``http_client=...``, it is a client of your own.

        Raises `SettingError` when the package is not installed.
        """
        return self.clients.get(make_openai, options)

    def anthropic(self, **options: Any) -> Any:
        """An ``AsyncAnthropic`` client of the package ``anthropic``; see `openai`."""
        return self.clients.get(make_anthropic, options)

    def _open(
        self,
        prompt: str | Messages,
        *,
        model: str | None,
        stream: bool,
        max_tokens: int | None,
        name: str | None,
        body: dict[str, Any],
    ) -> tuple[OpenCall, Request]:
        """The call, open from now on, and what is to be sent for it."""
        terms = self._terms
        model = model or terms.model
        if model is None:
            raise SettingError(
                "no model is named: give gateway.chat(..., model=...), @pytest.mark.swarm(model=...) or --swarm-model"
            )
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        fields: dict[str, Any] = {"model": model, "messages": messages}
        if max_tokens is not None:
            fields["max_tokens"] = max_tokens
        if stream:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        if terms.json_rule is not None and terms.json_rule.schema is not None:
            fields["response_format"] = _response_format(terms.json_rule.schema)
        fields |= body
        fields = {key: value for key, value in fields.items() if value is not None}
        context = current.get() or self._outside()
        request = Request(
            "POST",
            f"{terms.base_url}/chat/completions",
            {"content-type": "application/json", **terms.headers},
            json.dumps(fields, ensure_ascii=False).encode(),
        )
        return context.ledger.open_call(context, model=model, name=name), request

    async def _perform(self, opened: OpenCall, request: Request, grew: Callable[[], None] = lambda: None) -> Reading:
        """Make the attempts of a call and close it, however they end. Returns what the last one meant."""
        ledger, limits = opened.context.ledger, self._terms.limits
        total_at = None if limits.total is None else ledger.now() + limits.total
        wait = 0.0
        try:
            for attempt in itertools.count(1):
                reading = await self._attempt(opened, request, total_at, wait, grew)
                decision = self._decide(opened, reading, attempt)
                if isinstance(decision, Stop):
                    if decision.reason and attempt <= self._terms.retries:
                        opened.notes.append(decision.reason)
                    return reading
                wait = decision.wait
                if total_at is not None and ledger.now() + wait > total_at + opened.queued:
                    opened.notes.append(
                        f"not retried: a wait of {wait:.1f} s would pass the timeout of {limits.total:g} s"
                    )
                    return reading
                await asyncio.sleep(wait)
            raise AssertionError("unreachable")
        finally:
            if opened.closed is None:
                ledger.close_call(opened)
            checking = opened.context.checking.get(opened)
            if checking is not None:
                await asyncio.wait({checking})

    async def _attempt(
        self, opened: OpenCall, request: Request, total_at: float | None, wait: float, grew: Callable[[], None]
    ) -> Reading:
        context = opened.context
        exchange = exchange_for(context, request, "chat")
        try:
            await admit(opened, exchange)
            if exchange.ending is None:
                # What limits held back is no slowness of the gateway: the total does not count it.
                ends_at = None if total_at is None else total_at + opened.queued
                async with Deadlines(exchange, self._terms.limits, ends_at):
                    async for _ in context.source.send(exchange):
                        grew()
            else:
                # A cost ceiling stands before it. A body that asks again and again must leave the loop room to stop it.
                await asyncio.sleep(0)
        finally:
            exchange.finish(exchange.clock(), Ending.CANCELLED)
            if opened.exchange is exchange:
                opened.attempt_ended(exchange.read(), wait)
        return opened.sent[-1].reading

    def _decide(self, opened: OpenCall, reading: Reading, attempt: int) -> Retry | Stop:
        exchange = opened.sent[-1].exchange
        # What a cassette says of a moment was said at its own time.
        ended = None if exchange.recorded is None else exchange.recorded.ended
        return decide(
            reading.outcome,
            exchange.status,
            exchange.headers,
            reading.raw,
            attempt=attempt,
            retries=self._terms.retries,
            saw_token=reading.first_token is not None,
            rng=lambda: opened.context.jitter,
            wall_now=time.time() if ended is None else ended,
        )

    def _reply(self, opened: OpenCall, reading: Reading) -> Reply:
        call = opened.closed
        assert call is not None
        reply = Reply(call, reading, self._terms.json_rule or _NO_RULE, opened.checked)
        if call.outcome not in REPLY_OUTCOMES:
            raise CallFailed(call.outcome, call.detail, call, reply if reading.text else None)
        return reply


_NO_RULE: Final = JsonRule()


def _response_format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
