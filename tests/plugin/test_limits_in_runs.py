"""Limits in runs: every client of every kind of body waits for its turn, and the report says how long."""

from __future__ import annotations

from typing import Any

import pytest

CLIENTS = """
import aiohttp
import httpx

URL = {url!r} + "/chat/completions"
ASK = {{"model": "echo", "messages": [{{"role": "user", "content": "hi"}}]}}
CLIENT = httpx.Client(verify=False)

@pytest.mark.swarm(tasks=8, limit="10/s burst 2")
async def test_gateway(gateway):
    await gateway.chat("hi", stream=True)

@pytest.mark.swarm(tasks=8, limit="10/s burst 2")
async def test_sdk(gateway):
    await gateway.openai().chat.completions.create(**ASK)

@pytest.mark.swarm(tasks=8, limit="10/s burst 2")
async def test_aiohttp():
    async with aiohttp.ClientSession() as session:
        await (await session.post(URL, json=ASK)).read()

@pytest.mark.swarm(tasks=8, limit="10/s burst 2")
async def test_httpx():
    async with httpx.AsyncClient(verify=False) as client:
        await client.post(URL, json=ASK)

@pytest.mark.swarm(tasks=8, limit="10/s burst 2")
def test_blocking_gateway(gateway):
    gateway.chat("hi")

@pytest.mark.swarm(tasks=8, limit="10/s burst 2")
def test_blocking_sdk(gateway):
    gateway.openai().chat.completions.create(**ASK)

@pytest.mark.swarm(tasks=8, limit="10/s burst 2")
def test_blocking_httpx():
    CLIENT.post(URL, json=ASK)
"""


def test_every_client_waits_for_its_turn(suite: Any, report: Any, small_gateway: Any) -> None:
    suite(CLIENTS.format(url=small_gateway.base_url)).assert_outcomes(passed=7)
    tests = report()["tests"]
    assert len(tests) == 7
    for test in tests:
        sent = sorted(call["sent"] for call in test["calls"])
        assert len(sent) == 8
        for number, at in enumerate(sent):
            # Not before its turn; how long after it, is the machine's business.
            assert at >= (number - 1) / 10 - 0.001, (test["nodeid"], sent)
        held_back = [call["queued"] for call in test["calls"]]
        assert held_back.count(0.0) >= 2
        assert max(held_back) > 0
        for call in test["calls"]:
            assert call["sent"] - call["due"] >= call["queued"] - 1e-6
        assert test["metrics"]["queued.max"] == max(held_back)
        assert test["metrics"]["user_latency.max"] >= max(held_back)
        assert test["plan"]["limit"] == ["10/s burst 2"]


VIRTUAL = """
@pytest.mark.swarm(tasks=60, concurrency=60, limit="10/s burst 5")
@pytest.mark.sla("success_rate >= 50%")
async def test_requests(gateway): await gateway.chat("hi")

@pytest.mark.swarm(tasks=30, concurrency=30, limit=["60/s burst 10", "6k tokens/min burst 400"])
@pytest.mark.sla("success_rate >= 50%")
async def test_tokens(gateway): await gateway.chat("hi", max_tokens=200)

@pytest.mark.swarm(tasks=20)
@pytest.mark.sla("success_rate >= 50%", "queued.p95 <= 0s")
async def test_unlimited(gateway): await gateway.chat("hi")
"""


def test_on_virtual_time_the_delivered_load_is_exactly_what_the_limit_says(suite: Any, report: Any) -> None:
    result = suite(VIRTUAL, gateway=None)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*limit 10/s burst 5*", "*held back by the limit p50 2.*s, p95 5.*s"])
    requests, tokens, unlimited = report()["tests"]
    sent = sorted(call["sent"] for call in requests["calls"])
    assert sent == pytest.approx([max(0.0, (number - 4) / 10) for number in range(60)])
    for call in requests["calls"]:
        assert call["queued"] == pytest.approx(call["sent"] - call["due"])
    ended = [call for call in tokens["calls"] if call["input_tokens"] is not None]
    used = sum(call["input_tokens"] + call["output_tokens"] for call in ended)
    assert used / 100 - 10 <= max(call["sent"] for call in ended)
    assert unlimited["metrics"]["queued.p95"] == 0.0


RETRIES = """
@pytest.mark.swarm(tasks=6, concurrency=6, limit="20/s", retries=2)
@pytest.mark.sla("success_rate >= 0%")
async def test_it(gateway): await gateway.chat("hi", model="status-503")
"""


def test_every_attempt_waits_for_its_turn(suite: Any, report: Any) -> None:
    suite(RETRIES)
    (test,) = report()["tests"]
    sent = sorted(attempt["sent"] for call in test["calls"] for attempt in call["attempt_list"])
    assert len(sent) == 18
    assert all(at >= number / 20 - 0.001 for number, at in enumerate(sent))


TIMEOUTS = """
import aiohttp

URL = {url!r} + "/chat/completions"
ASK = {{"model": "echo", "messages": [{{"role": "user", "content": "hi"}}]}}

@pytest.mark.swarm(tasks=3, limit="80/min", timeout=0.9)
async def test_gateway(gateway): await gateway.chat("hi")

@pytest.mark.swarm(tasks=3, limit="80/min")
async def test_aiohttp():
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.9)) as session:
        await (await session.post(URL, json=ASK)).read()

@pytest.mark.swarm(tasks=3, limit="80/min")
async def test_httpx():
    import httpx
    async with httpx.AsyncClient(timeout=0.9) as client:
        await client.post(URL, json=ASK)
"""


def test_timeouts_of_a_call_do_not_run_while_it_is_held_back(suite: Any, report: Any, small_gateway: Any) -> None:
    suite(TIMEOUTS.format(url=small_gateway.base_url)).assert_outcomes(passed=3)
    for test in report()["tests"]:
        assert max(call["queued"] for call in test["calls"]) > 0.9


GIVEN_UP = """
import httpx

@pytest.mark.swarm(tasks=4, limit="1/min", task_timeout=100)
@pytest.mark.sla("success_rate >= 0%")
async def test_a_body_that_takes_too_long(gateway): await gateway.chat("hi")

@pytest.mark.swarm(tasks=3, limit="1/min")
@pytest.mark.sla("success_rate >= 0%")
async def test_a_body_that_does_not_wait(gateway, agent):
    if agent.index == 1:
        asyncio.get_running_loop().left = asyncio.create_task(gateway.chat("hi"))
        await asyncio.sleep(1)
    elif agent.index == 0:
        await gateway.chat("hi")
        await asyncio.sleep(150)
        assert asyncio.get_running_loop().left.cancelled()
    else:
        await asyncio.sleep(90)
        await gateway.chat("hi")

@pytest.mark.swarm(tasks=10, limit="1/s", max_cost=0.0013)
@pytest.mark.sla("success_rate >= 0%")
async def test_a_ceiling(gateway): await gateway.chat("hi", max_tokens=1000)
"""


def test_who_gives_up_while_it_is_held_back_is_booked_and_takes_no_place(suite: Any, report: Any) -> None:
    suite(GIVEN_UP, gateway=None)
    timed_out, left, ceiling = report()["tests"]

    outcomes = sorted((call["due"], call["outcome"] == "cancelled") for call in timed_out["calls"])
    assert [cancelled for _, cancelled in outcomes] == [False, False, True, True]
    for call in timed_out["calls"]:
        if call["outcome"] == "cancelled":
            assert call["sent"] is None
            assert call["queued"] == pytest.approx(100)
            assert "limit of the plan held it back" in call["detail"]

    by_task = {call["task"]: call for call in left["calls"]}
    assert by_task[1]["outcome"] == "cancelled"
    assert by_task[1]["sent"] is None
    assert by_task[1]["queued"] == pytest.approx(1)
    assert by_task[2]["sent"] == pytest.approx(90)
    assert left["tasks"][-1]["status"] == "passed"

    stopped = [call for call in ceiling["calls"] if call["outcome"] == "budget"]
    assert len(stopped) > 3
    assert ceiling["verdict"] == "invalid"
    assert max(call["queued"] for call in stopped) <= 10 - len(stopped) + 1e-6


BLOCKED = """
import httpx

URL = {url!r} + "/chat/completions"
ASK = {{"model": "echo", "messages": [{{"role": "user", "content": "hi"}}]}}

@pytest.mark.swarm(tasks=3, limit="1/min")
async def test_it(): httpx.post(URL, json=ASK)
"""


def test_a_blocking_client_on_the_virtual_clock_is_counted_and_not_held_back(
    suite: Any, report: Any, small_gateway: Any
) -> None:
    suite(BLOCKED.format(url=small_gateway.base_url), gateway=None).assert_outcomes(passed=1)
    (test,) = report()["tests"]
    assert test["clock"] == "virtual"
    assert [call["queued"] for call in test["calls"]] == [0.0, 0.0, 0.0]
