"""Limits: no more passes than they say, first come first served, and nobody is forgotten in the line."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.clock import VirtualClock, real_now, virtual_time
from pytest_swarm.traffic.bucket import Bucket, Buckets
from pytest_swarm.traffic.guess import FIRST_OUTPUT_TOKENS, TokenGuess
from pytest_swarm.traffic.limits import Limiter, Ticket
from pytest_swarm.values import Limit, parse_limits

amounts = st.floats(0.1, 200)
gaps = st.one_of(st.just(0.0), st.floats(0.001, 20))


def limits(*texts: str) -> tuple[Limit, ...]:
    return parse_limits(list(texts), "limit")


def body(tokens: int) -> bytes:
    """A request that comes to `tokens`, as long as no reply was seen."""
    return b'{"max_tokens": %d}' % (tokens - 5) + b" " * (20 - len(str(tokens - 5)) - 16)


# --- arithmetic -------------------------------------------------------------------------------------------------------


def most_in_any_window(passed: list[tuple[float, float]], rate: float) -> float:
    """The largest sum of amounts, less what flows in meanwhile, over all windows from one passage to another."""
    worst = best = 0.0
    before = None
    for at, amount in passed:
        best = amount + max(0.0, best - (0.0 if before is None else (at - before) * rate))
        before, worst = at, max(worst, best)
    return worst


@given(rate=st.floats(0.5, 100), burst=st.floats(0, 100), asked=st.lists(st.tuples(gaps, amounts), max_size=40))
def test_no_window_lets_more_through_than_the_burst_and_what_flows_in(
    rate: float, burst: float, asked: list[tuple[float, float]]
) -> None:
    bucket = Bucket(rate, burst)
    now, passed = 0.0, []
    for gap, amount in asked:
        now = bucket.ready_at(amount, now + gap)
        bucket.take(amount, now)
        passed.append((now, amount))
    largest = max((amount for _, amount in asked), default=0.0)
    assert most_in_any_window(passed, rate) <= max(burst, largest) * (1 + 1e-9) + 1e-6


@given(rate=st.floats(0.5, 100), burst=st.floats(0, 100), asked=st.lists(amounts, min_size=2, max_size=40))
def test_who_waits_all_the_time_gets_all_that_flows_in(rate: float, burst: float, asked: list[float]) -> None:
    bucket = Bucket(rate, burst)
    now = 0.0
    for amount in asked:
        now = bucket.ready_at(amount, now)
        bucket.take(amount, now)
    assert now == pytest.approx(max(0.0, sum(asked[:-1]) + min(asked[-1], burst) - burst) / rate, abs=1e-6)


def test_a_rate_with_a_burst_lets_both_through_in_its_first_second() -> None:
    bucket = Bucket(40, 50)
    now, passed = 0.0, []
    for _ in range(200):
        now = bucket.ready_at(1, now)
        bucket.take(1, now)
        passed.append(now)
    assert sum(at == 0 for at in passed) == 50
    assert sum(at < 1 - 1e-9 for at in passed) == 89
    assert sum(at <= 1 + 1e-9 for at in passed) == 90
    assert sum(1 + 1e-9 < at <= 2 + 1e-9 for at in passed) == 40


def test_without_a_burst_requests_are_evenly_spread() -> None:
    buckets = Buckets(limits("40/s"))
    now, passed = 0.0, []
    for _ in range(5):
        now = buckets.ready_at(1000, now)
        buckets.take(1, 1000, now)
        passed.append(now)
    assert passed == pytest.approx([0, 0.025, 0.05, 0.075, 0.1])


def test_what_is_larger_than_the_burst_waits_for_a_full_bucket_and_leaves_a_debt() -> None:
    bucket = Bucket(10, 20)
    bucket.take(5, 0.0)
    assert bucket.ready_at(100, 0.0) == pytest.approx(0.5)
    bucket.take(100, 0.5)
    assert bucket.ready_at(1, 0.5) == pytest.approx(0.5 + (80 + 1) / 10)


def test_what_is_put_back_is_there_again_but_never_more_than_the_burst() -> None:
    bucket = Bucket(10, 20)
    bucket.take(20, 0.0)
    bucket.take(-15, 0.0)
    assert bucket.ready_at(15, 0.0) == 0.0
    bucket.take(-100, 1.0)
    bucket.take(20, 1.0)
    assert bucket.ready_at(1, 1.0) == pytest.approx(1.1)


def test_a_request_must_pass_all_limits() -> None:
    buckets = Buckets(limits("10/s burst 2", "600 tokens/min burst 100"))
    assert buckets.counts_tokens
    buckets.take(1, 100, 0.0)
    assert buckets.ready_at(50, 0.0) == pytest.approx(5.0)
    assert buckets.ready_at(0, 0.0) == 0.0
    buckets.take(1, 0, 0.0)
    assert buckets.ready_at(0, 0.0) == pytest.approx(0.1)
    assert not Buckets(limits("10/s")).counts_tokens


# --- guesses ----------------------------------------------------------------------------------------------------------


def test_a_guess_is_a_quarter_of_the_bytes_and_what_the_request_allows() -> None:
    guess = TokenGuess()
    question = b'{"max_tokens": 100, "messages": []}'
    assert guess.tokens("m", question) == len(question) // 4 + 100
    assert guess.tokens("m", b'{"max_completion_tokens": 70}') == 7 + 70
    for unbounded in (b'{"messages": []}', b'{"max_tokens": true}', b'{"max_tokens": -1}', b"[1, 2, 3]", b"no json"):
        assert guess.tokens("m", unbounded) == len(unbounded) // 4 + FIRST_OUTPUT_TOKENS


def test_a_guess_learns_what_replies_of_a_model_come_to() -> None:
    guess = TokenGuess()
    guess.learn("m", 200)
    guess.learn("m", 100)
    assert guess.tokens("m", b'{"max_tokens": 4000}') == 5 + 150
    assert guess.tokens("m", b'{"max_tokens": 40}') == 4 + 40
    assert guess.tokens("m", b"{}") == 150
    assert guess.tokens("other", b"{}") == FIRST_OUTPUT_TOKENS


# --- the line, on virtual time ----------------------------------------------------------------------------------------


def on_virtual_time(work: Callable[[VirtualClock], Awaitable[None]]) -> None:
    """Run on a loop whose clock jumps; a line that nothing moves any more fails."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task: asyncio.Future[None] | None = None

        def stuck(reason: str) -> None:
            assert task is not None
            task.cancel(reason)

        with virtual_time(loop, stuck) as clock:
            task = asyncio.ensure_future(work(clock))
            await task

    asyncio.run(main())


@dataclass
class Line:
    """Requests that wait at a limiter, and when each was let go."""

    limiter: Limiter
    clock: VirtualClock
    passed: list[tuple[int, float]] = field(default_factory=list)
    tickets: dict[int, Ticket] = field(default_factory=dict)

    async def ask(self, number: int, tokens: int = 20) -> None:
        self.tickets[number] = await self.limiter.acquire("m", body(tokens))
        self.passed.append((number, self.clock.now()))


visitors = st.tuples(
    st.one_of(st.just(0.0), st.floats(0.001, 3)),  # after the one before
    st.integers(20, 400),  # tokens
    st.none() | st.floats(0, 5),  # gives up after that long
    st.none() | st.integers(0, 600),  # is settled at once, with that many tokens
)


@given(
    texts=st.sampled_from([("2/s",), ("5/s burst 3",), ("600 tokens/s burst 300",), ("4/s burst 2", "500 tokens/s")]),
    many=st.lists(visitors, min_size=1, max_size=25),
)
def test_the_line_is_first_come_first_served_forgets_nobody_and_keeps_every_limit(
    texts: tuple[str, ...], many: list[tuple[float, int, float | None, int | None]]
) -> None:
    asked = limits(*texts)
    left: set[int] = set()

    async def work(clock: VirtualClock) -> None:
        line = Line(Limiter(asked, clock.now), clock)
        arrivals: dict[int, float] = {}

        async def visit(number: int, tokens: int, patience: float | None, real: int | None) -> None:
            arrivals[number] = clock.now()
            try:
                async with asyncio.timeout(patience):
                    await line.ask(number, tokens)
            except TimeoutError:
                left.add(number)
                return
            assert line.tickets[number].waited == pytest.approx(clock.now() - arrivals[number])
            if real is not None:
                line.limiter.settle(line.tickets[number], real)

        visits = []
        for number, (gap, *rest) in enumerate(many):
            await asyncio.sleep(gap)
            visits.append(asyncio.create_task(visit(number, *rest)))
            await asyncio.sleep(0)
        await asyncio.gather(*visits)
        numbers = [number for number, _ in line.passed]
        assert numbers == sorted(numbers)
        assert set(numbers) | left == set(range(len(many)))
        for limit in asked:
            counted = [
                (at, 1.0 if limit.unit == "requests" else float(line.tickets[number].tokens))
                for number, at in line.passed
            ]
            # What a settlement gives back may pass once more.
            again = sum(
                max(0, line.tickets[number].tokens - real)
                for number in numbers
                if (real := many[number][3]) is not None and limit.unit == "tokens"
            )
            largest = max((amount for _, amount in counted), default=0.0)
            worst = most_in_any_window(counted, limit.per_second)
            assert worst <= max(limit.burst or 0, largest) + again + 1e-6

    on_virtual_time(work)


def test_who_gives_up_makes_room_for_the_next_at_once() -> None:
    async def work(clock: VirtualClock) -> None:
        line = Line(Limiter(limits("1/s"), clock.now), clock)
        tasks = [asyncio.create_task(line.ask(number)) for number in range(4)]
        await asyncio.sleep(0.5)
        tasks[1].cancel()
        tasks[2].cancel()
        await asyncio.wait(tasks)
        assert line.passed == [(0, 0.0), (3, pytest.approx(1.0))]

    on_virtual_time(work)


def test_who_gives_up_in_the_moment_he_is_let_go_takes_nothing() -> None:
    async def work(clock: VirtualClock) -> None:
        line = Line(Limiter(limits("1/s"), clock.now), clock)
        await line.ask(0)
        second = asyncio.create_task(line.ask(1))
        third = asyncio.create_task(line.ask(2))
        await asyncio.sleep(0)
        # Put back what the first took: that lets the second go, which is cancelled before it has run.
        line.limiter.give_back(line.tickets[0])
        second.cancel()
        await asyncio.wait({second, third})
        assert second.cancelled()
        assert line.passed == [(0, 0.0), (2, 0.0)]

    on_virtual_time(work)


def test_a_settlement_below_the_guess_lets_the_next_go_earlier_and_one_above_it_later() -> None:
    async def work(clock: VirtualClock) -> None:
        line = Line(Limiter(limits("100 tokens/s"), clock.now), clock)
        waiting = [asyncio.create_task(line.ask(number, 400)) for number in range(4)]
        await asyncio.sleep(1.0)
        line.limiter.settle(line.tickets[0], 200)
        await waiting[1]
        assert clock.now() == pytest.approx(2.0)
        line.limiter.settle(line.tickets[1], 600)
        await waiting[2]
        assert clock.now() == pytest.approx(8.0)
        line.limiter.settle(line.tickets[2], None)
        await waiting[3]
        assert clock.now() == pytest.approx(12.0)

    on_virtual_time(work)


def test_what_replies_come_to_is_learned_when_they_are_settled() -> None:
    limiter = Limiter(limits("1000 tokens/s burst 10000"), lambda: 0.0)
    first = limiter.take("m", b'{"max_tokens": 1000}')
    limiter.settle(first, 60, 55)
    assert limiter.take("m", b'{"max_tokens": 1000}').tokens == 60


def test_who_is_not_held_back_has_waited_exactly_nothing() -> None:
    async def main() -> None:
        limiter = Limiter(limits("1/s burst 2"), real_now)
        assert (await limiter.acquire(None, b"")).waited == 0.0
        assert limiter.acquire_blocking(None, b"").waited == 0.0

    asyncio.run(main())


# --- the line, in threads ---------------------------------------------------------------------------------------------


@contextmanager
def joined(threads: list[threading.Thread]) -> Iterator[None]:
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_threads_and_loops_wait_in_one_line_and_all_get_through() -> None:
    limiter = Limiter(limits("200/s burst 3"), real_now)
    passed: list[float] = []
    began = real_now()

    def blocking() -> None:
        for _ in range(10):
            limiter.acquire_blocking("m", b"{}")
            passed.append(real_now() - began)

    async def one() -> None:
        await limiter.acquire("m", b"{}")
        passed.append(real_now() - began)

    async def many() -> None:
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(one())

    threads = [threading.Thread(target=blocking) for _ in range(3)]
    threads += [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(2)]
    with joined(threads):
        pass
    assert len(passed) == 50
    assert max(passed) >= (50 - 3) / 200 - 1e-6


def test_a_thread_that_blocks_its_own_loop_does_not_block_those_before_it() -> None:
    async def main() -> list[str]:
        limiter = Limiter(limits("20/s"), real_now)
        order: list[str] = []
        await limiter.acquire("m", b"{}")

        async def behind() -> None:
            await limiter.acquire("m", b"{}")
            order.append("task")

        waiting = asyncio.create_task(behind())
        await asyncio.sleep(0)
        limiter.acquire_blocking("m", b"{}")
        order.append("thread")
        await waiting
        return order

    done: list[Any] = []
    with joined([threading.Thread(target=lambda: done.append(asyncio.run(main())), daemon=True)]):
        pass
    assert sorted(done[0]) == ["task", "thread"]


def test_a_thread_that_is_interrupted_while_it_waits_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    limiter = Limiter(limits("1/min"), real_now)
    first = limiter.acquire_blocking("m", b"{}")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Event, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            limiter.acquire_blocking("m", b"{}")
    limiter.give_back(first)
    assert limiter.acquire_blocking("m", b"{}").waited == 0.0
