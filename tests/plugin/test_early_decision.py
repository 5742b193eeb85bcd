"""Runs that end as soon as a level is lost: `sla(..., abort=True)` and `--swarm-abort`."""

from __future__ import annotations

from typing import Any

ASYNC = """
@pytest.mark.swarm(200, 4)
@pytest.mark.sla("success_rate >= 95%"{terms})
async def test_it(gateway, agent):
    await gateway.chat("hi")
    assert agent.index % 2
"""
SYNC = ASYNC.replace("async ", "").replace("await ", "")


def test_a_run_ends_when_its_level_is_lost_and_fails_as_the_whole_would_have(suite: Any, report: Any) -> None:
    for code in (ASYNC, SYNC):
        result = suite(code.format(terms=", abort=True"))
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["swarm FAILED: success_rate >= 95%: it is*", "*ended early: decided after*"])
        test = report()["tests"][0]
        assert test["verdict"] == "fail"
        assert 21 <= len(test["tasks"]) <= 40
        assert "of 200 tasks: success_rate >= 95% can no longer be met" in result.stdout.str()


def test_the_command_line_asks_it_of_every_level_and_without_it_all_tasks_run(suite: Any, report: Any) -> None:
    code = ASYNC.format(terms="").replace("200", "60")
    suite(code).assert_outcomes(failed=1)
    assert len(report()["tests"][0]["tasks"]) == 60
    suite(code, "--swarm-abort").assert_outcomes(failed=1)
    assert len(report()["tests"][0]["tasks"]) < 30


def test_abort_is_yes_or_no(suite: Any) -> None:
    result = suite(ASYNC.format(terms=', abort="soon"'))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*sla(abort=...): 'soon' is neither True nor False"])
