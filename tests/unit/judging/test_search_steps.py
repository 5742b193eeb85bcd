"""The steps of a capacity search, against systems whose capacity is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.columns import SwarmResult
from pytest_swarm.judging.metrics import SwarmMetrics
from pytest_swarm.judging.search import NARROW, Search, is_near
from pytest_swarm.judging.sla import parse
from pytest_swarm.judging.verdict import Judgement, SlaLine, Verdict

System = Callable[[float], tuple[bool, bool]]
"""Whether it holds a load, and whether that was close."""


def search(system: System, low: float, high: float, *, whole: bool = True) -> tuple[Search, list[float]]:
    found, tried = Search(low, high, whole=whole), []
    while found.load is not None:
        tried.append(found.load)
        held, near = system(found.load)
        found.tell(held=held, near=near)
    return found, tried


def up_to(capacity: float) -> System:
    return lambda load: (load <= capacity, False)


@given(low=st.integers(1, 500), factor=st.floats(1.01, 300), capacity=st.floats(0.1, 200_000))
def test_a_whole_load_is_found_to_one_in_twenty(low: int, factor: float, capacity: float) -> None:
    high = math.ceil(low * factor)
    found, tried = search(up_to(capacity), low, high)
    assert all(load == int(load) and low <= load <= high for load in tried)
    assert len(set(tried)) == len(tried) <= math.log2(high / low) + 8
    if capacity < low:
        assert (found.held, found.missed, tried) == (None, low, [low])
    elif capacity >= high:
        assert (found.held, found.missed) == (high, None)
    else:
        assert found.held is not None
        assert found.missed is not None
        assert found.held <= capacity < found.missed
        assert found.missed - found.held <= max(1, found.held * NARROW)


@given(low=st.floats(0.1, 50), factor=st.floats(1.01, 300), share=st.floats(0.01, 0.99))
def test_a_rate_is_found_to_one_in_twenty(low: float, factor: float, share: float) -> None:
    high = low * factor
    capacity = low + (high - low) * share
    found, _ = search(up_to(capacity), low, high, whole=False)
    assert found.held is not None
    assert found.missed is not None
    assert found.held <= capacity < found.missed
    assert found.missed - found.held <= found.held * NARROW * (1 + 1e-9)


def test_it_doubles_and_then_halves() -> None:
    found, tried = search(up_to(45), 8, 256)
    assert tried == [8, 16, 32, 64, 48, 40, 44, 46, 45][: len(tried)]
    assert (found.held, found.missed) == (44, 46)


@pytest.mark.parametrize(
    ("verdicts", "asked", "held"),
    [
        ([(True, False)], 1, True),
        ([(True, True), (True, True)], 2, True),
        ([(True, True), (False, True), (True, True)], 3, True),
        ([(False, True), (True, False), (False, False)], 3, False),
        ([(False, True), (False, False)], 2, False),
    ],
)
def test_a_close_verdict_is_asked_again_until_two_agree(
    verdicts: list[tuple[bool, bool]], asked: int, held: bool
) -> None:
    found = Search(10, 100, whole=True)
    for number, (one, near) in enumerate(verdicts):
        assert found.load == 10, number
        found.tell(held=one, near=near)
    assert len(verdicts) == asked
    assert found.load == (20 if held else None)
    assert (found.held, found.missed) == ((10, None) if held else (None, 10))


def test_chance_near_the_threshold_moves_the_answer_a_little_only() -> None:
    capacity, off = 100.0, []
    for seed in range(300):
        rng = random.Random(seed)

        def noisy(load: float, rng: random.Random = rng) -> tuple[bool, bool]:
            # The figure that is judged is off by 4 % (one standard deviation) in every probe.
            seen = load / capacity * rng.gauss(1, 0.04)
            return seen <= 1, abs(seen - 1) <= 0.1

        found, tried = search(noisy, 8, 512)
        assert len(tried) <= 3 * 12
        assert found.held is not None
        off.append(abs(found.held / capacity - 1))
    assert sum(one <= 0.08 for one in off) >= 0.95 * len(off)


# --- what is close ----------------------------------------------------------------------------------------------------


def judged(verdict: Verdict, *figures: tuple[str, float | None], reason: str = "") -> bool:
    expressions = [parse(text) for text, _ in figures]
    lines = []
    for expression, (_, observed) in zip(expressions, figures, strict=True):
        threshold = expression.threshold
        assert threshold is not None
        holds = observed is not None and expression.holds(observed, threshold)
        lines.append(
            SlaLine(
                str(expression),
                str(expression.metric),
                observed,
                threshold,
                expression.op,
                "pass" if holds else "fail",
                "" if holds else f"{expression}: it is {observed}",
                None,
                None,
            )
        )
    reasons = [line.reason for line in lines if line.reason] + ([reason] if reason else [])
    metrics = SwarmMetrics(SwarmResult("test", None, "live", None, "real", {}), ())
    return is_near(Judgement(verdict, lines, reasons, metrics), expressions)


def test_a_pass_is_close_when_one_line_nearly_failed() -> None:
    assert judged("pass", ("p95 < 10s", 9.5), ("p50 < 10s", 1.0))
    assert not judged("pass", ("p95 < 10s", 8.5), ("p50 < 10s", 1.0))


def test_a_fail_is_close_when_every_line_that_failed_nearly_passed() -> None:
    assert judged("fail", ("p95 < 10s", 10.5), ("p50 < 10s", 1.0))
    assert not judged("fail", ("p95 < 10s", 10.5), ("p50 < 10s", 30.0))
    assert not judged("fail", ("p95 < 10s", 10.5), reason="2 of 10 tasks did not pass")


def test_of_a_share_what_is_missing_counts() -> None:
    assert judged("pass", ("success_rate >= 90%", 0.905))
    assert not judged("pass", ("success_rate >= 90%", 0.96))
    assert judged("fail", ("error_rate <= 2%", 0.0215))


def test_what_must_be_equal_is_never_close() -> None:
    assert not judged("fail", ("tasks == 100", 101.0))
    assert not judged("pass", ("retries != 100", 101.0))
