"""Calls under a cost ceiling: what is sent, how the others end, and what is left of a swarm that was stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from pytest_swarm.errors import BudgetExceeded, CallFailed
from pytest_swarm.gateway.client import Gateway
from pytest_swarm.judging.prices import PriceTable
from pytest_swarm.judging.verdict import judge
from pytest_swarm.swarm.conductor import Conductor
from pytest_swarm.tap.routing import Agent
from pytest_swarm.traffic.budget import Budget
from tests.support.bench import Rows, swarm
from tests.support.small_gateway import SmallGateway

DOLLAR_A_TOKEN = PriceTable(
    {model: {"input": 0, "output": 1_000_000} for model in ("echo", "slow", "hang", "status-503", "flaky", "verbose")}
)
"""Every reply of five tokens costs $5."""


@pytest.fixture
def server() -> Iterator[SmallGateway]:
    with SmallGateway() as gateway:
        yield gateway


def run(*args: Any, **more: Any) -> tuple[Rows, Conductor]:
    """See `tests.support.bench.swarm`."""
    return asyncio.run(swarm(*args, **more))


async def ask(gateway: Gateway, agent: Agent) -> None:
    await gateway.chat("hi", model="echo", max_tokens=5)


def test_of_many_at_once_only_those_are_sent_that_fit_at_their_worst(server: SmallGateway) -> None:
    budget = Budget(17, "here")
    rows, conducting = run(server.base_url, ask, tasks=8, prices=DOLLAR_A_TOKEN, budget=budget)
    assert len(server.requests) == 3
    assert Counter(call["outcome"] for call in rows.calls) == {"ok": 3, "budget": 5}
    unsent = next(call for call in rows.calls if call["outcome"] == "budget")
    assert (unsent["sent"], unsent["latency"], unsent["cost"]) == (None, None, 0.0)
    assert "the cost ceiling of $17 (here) was reached: $0 spent, $15 reserved for 3 under way" in unsent["detail"]
    account = budget.standing().account
    assert (account.spent, account.reserved, account.refused) == (15, 0, 5)
    assert conducting.result.runs[0].over_budget


def test_a_stopped_swarm_starts_nothing_more_and_lets_finish_what_runs(server: SmallGateway) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        await gateway.chat("hi", model="slow" if agent.index == 0 else "echo", max_tokens=5)

    rows, conducting = run(
        server.base_url, body, tasks=50, concurrency=2, repeat=3, prices=DOLLAR_A_TOKEN, budget=Budget(20, "here")
    )
    statuses = Counter(task["status"] for task in rows.tasks)
    assert statuses == {"passed": 4, "cancelled": 1}
    assert {task["index"]: task["status"] for task in rows.tasks}[0] == "passed"
    assert len(conducting.result.runs) == 1
    judgement = judge(conducting.result, [])
    assert judgement.verdict == "invalid"
    assert judgement.reasons[0].startswith("the run ended early: the cost ceiling of $20 (here) was reached")


def test_a_failure_before_the_stop_does_not_make_the_verdict_one(server: SmallGateway) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        await gateway.chat("hi", model="echo", max_tokens=5)
        raise AssertionError("not good enough")

    rows, conducting = run(
        server.base_url, body, tasks=5, concurrency=1, prices=DOLLAR_A_TOKEN, budget=Budget(7, "here")
    )
    assert [task["status"] for task in rows.tasks] == ["failed", "cancelled"]
    judgement = judge(conducting.result, [])
    assert judgement.verdict == "invalid"
    assert any("did not pass" in reason for reason in judgement.reasons)


def test_a_retry_has_to_fit_like_a_first_attempt(server: SmallGateway) -> None:
    failures: list[CallFailed] = []

    async def body(gateway: Gateway, agent: Agent) -> None:
        with pytest.raises(CallFailed) as failed:
            await gateway.chat("hi", model="hang", max_tokens=5)
        failures.append(failed.value)

    budget = Budget(7, "here")
    rows, _ = run(server.base_url, body, timeout={"total": 0.05}, retries=2, prices=DOLLAR_A_TOKEN, budget=budget)
    assert rows.calls[0]["outcome"] == "timeout"
    account = budget.standing().account
    assert (account.spent, account.unknown, account.unknown_cost) == (5, 1, 5)

    async def refused(gateway: Gateway, agent: Agent) -> None:
        await gateway.chat("hi", model="status-503", max_tokens=5)

    budget = Budget(7, "here")
    rows, _ = run(server.base_url, refused, retries=1, prices=DOLLAR_A_TOKEN, budget=budget)
    assert [attempt["outcome"] for attempt in rows.calls[0]["attempt_list"]] == ["server_error", "server_error"]
    assert (budget.standing().account.requests, budget.standing().account.spent) == (2, 0)


def test_a_retry_that_does_not_fit_ends_the_call(server: SmallGateway) -> None:
    budget = Budget(7, "here")
    ended = asyncio.Event()

    async def body(gateway: Gateway, agent: Agent) -> None:
        if agent.index == 0:
            try:
                await gateway.chat("hi", model="status-503", max_tokens=5, name="tried again")
            finally:
                ended.set()
        while budget.standing().account.requests != 1 or budget.standing().account.under_way:
            await asyncio.sleep(0.001)
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(gateway.chat("hi", model="hang", max_tokens=5))
            await ended.wait()
            asked.cancel()

    rows, _ = run(server.base_url, body, tasks=2, retries=1, prices=DOLLAR_A_TOKEN, budget=budget)
    call = next(call for call in rows.calls if call["name"] == "tried again")
    assert [attempt["outcome"] for attempt in call["attempt_list"]] == ["server_error", "budget"]
    assert (call["outcome"], call["cost"]) == ("budget", 0.0)
    assert len(server.requests) == 2


def test_a_session_of_the_bodys_own_is_held_to_it_too(server: SmallGateway) -> None:
    refusals: list[str] = []

    async def body(gateway: Gateway, agent: Agent) -> None:
        async with aiohttp.ClientSession() as session:
            question = {"model": "echo", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
            try:
                async with session.post(f"{server.base_url}/chat/completions", json=question) as response:
                    await response.read()
            except BudgetExceeded as refused:
                refusals.append(str(refused))
                raise

    rows, _ = run(server.base_url, body, tasks=4, concurrency=1, prices=DOLLAR_A_TOKEN, budget=Budget(12, "here"))
    assert len(server.requests) == 2
    assert [call["outcome"] for call in rows.calls] == ["ok", "ok", "budget"]
    assert [task["status"] for task in rows.tasks] == ["passed", "passed", "cancelled"]
    assert len(refusals) == 1
    assert refusals[0] == rows.calls[-1]["detail"]


def test_a_body_that_asks_for_ever_can_still_be_stopped(server: SmallGateway) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        while True:
            with contextlib.suppress(CallFailed):
                await gateway.chat("hi", model="echo", max_tokens=5)

    rows, _ = run(server.base_url, body, task_timeout=0.2, prices=DOLLAR_A_TOKEN, budget=Budget(12, "here"))
    assert [task["status"] for task in rows.tasks] == ["timeout"]
    assert len(server.requests) == 2


def test_what_a_guess_let_through_is_told_with_the_call(server: SmallGateway) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        await gateway.chat("hi", model="verbose")

    budget = Budget(5000, "here")
    rows, _ = run(server.base_url, body, prices=DOLLAR_A_TOKEN, budget=budget)
    assert rows.calls[0]["notes"] == ["the cost ceiling was held by a guess: no max_tokens"]
    standing = budget.standing().to_dict()
    assert (standing["overspent"], standing["guessed"], standing["dearer"]) == (5000, 1, 1)


def test_a_request_that_was_never_written_costs_nothing() -> None:
    with SmallGateway() as gone:
        nowhere = gone.base_url
    budget = Budget(5, "here")
    rows, _ = run(nowhere, ask, prices=DOLLAR_A_TOKEN, budget=budget)
    assert rows.calls[0]["outcome"] == "connect_error"
    account = budget.standing().account
    assert (account.requests, account.spent, account.reserved) == (1, 0, 0)


def test_a_call_cut_off_by_the_end_of_its_task_counts_at_its_worst(server: SmallGateway) -> None:
    async def body(gateway: Gateway, agent: Agent) -> None:
        left = asyncio.create_task(gateway.chat("hi", model="hang", max_tokens=5))
        left.add_done_callback(lambda done: done.cancelled() or done.exception())
        while not server.requests:
            await asyncio.sleep(0.01)

    budget = Budget(50, "here")
    run(server.base_url, body, prices=DOLLAR_A_TOKEN, budget=budget)
    account = budget.standing().account
    assert (account.spent, account.unknown, account.reserved) == (5, 1, 0)
