"""Levels that must be proven: `sla(confidence=...)` and `--swarm-confidence`."""

from __future__ import annotations

from typing import Any

CODE = """
@pytest.mark.swarm(20)
@pytest.mark.sla("p50 < 10s", {confidence})
@pytest.mark.sla("p99 < 10s")
async def test_it(gateway): await gateway.chat("hi")
"""


def test_only_the_levels_of_a_marker_that_asks_for_it_must_be_proven(suite: Any, report: Any) -> None:
    result = suite(CODE.format(confidence="confidence=0.95"))
    result.assert_outcomes(passed=1)
    median, tail = report()["tests"][0]["sla"]
    assert (median["confidence"], median["verdict"]) == (0.95, "pass")
    assert (tail["confidence"], tail["verdict"]) == (None, "pass")
    result.stdout.fnmatch_lines(["*20 tasks cannot prove a p99 (299 needed at 95 %)"])


def test_the_command_line_asks_it_of_every_level(suite: Any, report: Any) -> None:
    result = suite(CODE.format(confidence="confidence=0.5"), "--swarm-confidence=0.99", "--swarm-sla=p90 < 10s")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["swarm INVALID: latency.p99 < 10s: it is *, which 20 tasks do not prove at 99 %; some 459 tasks would, *"]
    )
    assert [line["confidence"] for line in report()["tests"][0]["sla"]] == [0.99] * 3


def test_a_confidence_without_a_level_or_that_is_none_is_an_error(suite: Any) -> None:
    for marker, sentence in {
        "confidence=0.95": 'sla(): names no service level; write one such as sla("p99 < 3s")',
        '"p99 < 3s", confidence=95': "sla(confidence=...): 95 is not a share between 0 and 1; write 0.95 or '95%'*",
    }.items():
        code = f"@pytest.mark.swarm(2)\n@pytest.mark.sla({marker})\nasync def test_it(gateway): pass"
        result = suite(code)
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines([f"*{sentence}"])


INLINE = """
@pytest.mark.asyncio
async def test_it(swarm):
    async def body(gateway): await gateway.chat("hi")
    result = await swarm.run(body, tasks=20)
    judgement = result.judge("p50 < 10s", "p99 < 10s"{confidence})
    assert [line.verdict for line in judgement.lines] == {verdicts}
"""


def test_levels_of_a_swarm_inside_a_test_are_proven_too(suite: Any) -> None:
    plain, proven = ["pass", "pass"], ["pass", "invalid"]
    suite(INLINE.format(confidence="", verdicts=plain)).assert_outcomes(passed=1)
    suite(INLINE.format(confidence=", confidence=0.95", verdicts=proven)).assert_outcomes(passed=1)
    suite(INLINE.format(confidence="", verdicts=proven), "--swarm-confidence=0.95").assert_outcomes(passed=1)
    result = suite(INLINE.format(confidence=", confidence=95", verdicts=proven))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*judge(confidence=...): 95 is not a share between 0 and 1; *"])
