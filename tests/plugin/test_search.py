"""Capacity search: what it finds, what it costs, what it says when there is no answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

FOUND = """
import pytest_asyncio

@pytest_asyncio.fixture
async def asked_before(gateway):
    try:
        await gateway.chat("warm up")
    except Exception:
        pass

@pytest.mark.swarm(tasks=40)
@pytest.mark.swarm_search("concurrency", low=16, high=128, sla=["p50 < 600ms", "success_rate >= 80%"])
async def test_found(gateway, asked_before): await gateway.chat("hi")
"""


def test_the_largest_load_that_holds_is_found_with_its_curve(suite: Any, report: Any) -> None:
    result = suite(FOUND, gateway=None)
    result.assert_outcomes(passed=1)
    found = report()
    (test,) = found["tests"]
    search = test["search"]
    result.stdout.fnmatch_lines(
        [f"*search*concurrency {search['held']} holds, {search['missed']} does not (*runs, *tasks)"]
    )
    assert (search["metric"], search["low"], search["high"]) == ("concurrency", 16, 128)
    assert (search["verdict"], test["verdict"], test["reasons"]) == ("pass", "pass", [])
    # 32 workers serve the simulated agent: below that nothing waits, from twice that on everything does.
    assert 32 <= search["held"] < search["missed"] <= 80
    assert search["missed"] - search["held"] <= max(1, search["held"] * 0.05)

    probes = search["probes"]
    loads = [probe["load"] for probe in probes]
    assert loads == sorted(loads)
    assert {16, 32, search["held"], search["missed"]} <= set(loads)
    assert search["tasks"] == sum(probe["tasks"] for probe in probes)
    for probe in probes:
        assert probe["in_flight_max"] == probe["load"]
        assert probe["tasks"] == max(40, 5 * probe["load"])
        assert (probe["p50"] < 0.6) is (probe["verdict"] == "held")
        assert bool(probe["reasons"]) is (probe["verdict"] == "missed")
        assert loads.count(probe["load"]) in ((2, 3) if probe["near"] else (1, 2, 3))

    # Everything else in the record is of the run at the largest load that held.
    (shown,) = (
        probe for probe in probes if probe["load"] == search["held"] and probe["p50"] == test["metrics"]["latency.p50"]
    )
    assert test["plan"]["concurrency"] == search["held"] == test["in_flight_max"]
    assert len(test["tasks"]) == shown["tasks"]
    assert len(test["calls"]) == shown["tasks"]
    # What was spent is of all runs, and of the question before them.
    assert found["cost"]["total"] > sum(probe["cost"] for probe in probes)


def test_the_same_seed_finds_the_same(suite: Any, report: Any) -> None:
    code = FOUND.replace("gateway, asked_before", "gateway").replace("low=16, high=128", "low=8, high=24")
    curves = []
    for _ in range(2):
        suite(code, gateway=None).assert_outcomes(passed=1)
        curves.append(json.dumps(report()["tests"][0]["search"]["probes"]))
    assert curves[0] == curves[1]


UNFOUND = """
LEVELS = ["p50 < 600ms", "success_rate >= 80%"]

@pytest.mark.swarm(tasks=40)
@pytest.mark.swarm_search("concurrency", low=8, high=16, sla=LEVELS)
async def test_all(gateway): await gateway.chat("hi")

@pytest.mark.swarm(tasks=40)
@pytest.mark.swarm_search("concurrency", low=100, high=200, sla=LEVELS)
async def test_none(gateway): await gateway.chat("hi")

@pytest.mark.swarm(tasks=40)
@pytest.mark.swarm_search("concurrency", low=8, high=200, sla=LEVELS, max_tasks=100)
async def test_tasks(gateway): await gateway.chat("hi")

@pytest.mark.swarm(tasks=40, max_cost=0.05)
@pytest.mark.swarm_search("concurrency", low=8, high=200, sla=LEVELS)
async def test_money(gateway): await gateway.chat("hi", max_tokens=1000)

@pytest.mark.swarm(tasks=40)
@pytest.mark.swarm_search("concurrency", low=8, high=200, sla=["ttft.p95 < 3s", "success_rate >= 80%"])
async def test_unknown(gateway): await gateway.chat("hi")

@pytest.mark.swarm(tasks=4)
@pytest.mark.swarm_search("concurrency", low=2, high=4, sla=LEVELS)
async def test_skipped(gateway): pytest.skip("not today")
"""


def test_every_other_end_says_what_is_known(suite: Any, report: Any) -> None:
    result = suite(UNFOUND, gateway=None)
    result.assert_outcomes(passed=1, failed=4, skipped=1)
    tests = {test["nodeid"].partition("::test_")[2]: test for test in report()["tests"]}
    ends = {
        name: (test["search"]["verdict"], test["search"]["held"], test["search"]["missed"])
        for name, test in tests.items()
    }
    assert ends == {
        "all": ("pass", 16, None),
        "none": ("fail", None, 100),
        "tasks": ("invalid", 8, None),
        "money": ("invalid", ends["money"][1], None),
        "unknown": ("invalid", None, None),
        "skipped": ("skipped", None, None),
    }
    assert {name: test["verdict"] for name, test in tests.items()} == {name: end[0] for name, end in ends.items()}

    assert "concurrency 100, the lowest, does not hold: latency.p50 < 600ms: it is" in tests["none"]["reasons"][0]
    assert "used 40 of max_tasks=100, which leaves too few for the 80 of concurrency 16" in tests["tasks"]["reasons"][0]
    assert tests["tasks"]["reasons"][0].endswith("; 8 holds")
    assert tests["tasks"]["search"]["tasks"] == 40
    assert "the cost ceiling of $0.05 (swarm(max_cost=...)) was reached" in tests["money"]["reasons"][0]
    assert tests["money"]["ceiling"]["spent"] <= 0.05
    assert "ttft" in tests["unknown"]["reasons"][0]
    assert tests["skipped"]["reasons"] == ["all 10 tasks were skipped: test_it.py:27: Skipped: not today"]


BLOCKING = """
@pytest.mark.swarm(tasks=6)
@pytest.mark.swarm_search("concurrency", low=1, high=2, sla=["success_rate == 100%"])
def test_it(gateway): assert gateway.chat("hi").text == "hi"
"""


def test_a_sync_body_is_searched_in_threads_against_a_real_gateway(suite: Any, report: Any) -> None:
    suite(BLOCKING).assert_outcomes(passed=1)
    (test,) = report()["tests"]
    assert (test["clock"], test["gateway"]["kind"]) == ("real", "live")
    assert (test["search"]["held"], test["search"]["missed"]) == (2, None)
    assert [probe["load"] for probe in test["search"]["probes"]] == [1, 2]


INLINE = """
async def ask(gateway): await gateway.chat("hi")

@pytest.mark.asyncio
async def test_found(swarm):
    found = await swarm.search(ask, "concurrency", 8, 16, sla=["p50 < 600ms", "success_rate >= 80%"], tasks=40)
    assert found
    assert (found.held, found.missed, found.verdict, found.reasons) == (16, None, "pass", [])
    assert [probe["load"] for probe in found.probes] == [8, 16]
    assert repr(found) == "<pass: 16>"

@pytest.mark.asyncio
async def test_none(swarm):
    found = await swarm.search(ask, "concurrency", 8, 16, sla=["p50 < 1ms", "success_rate >= 80%"], tasks=40)
    assert not found
    assert "lowest, does not hold: latency.p50 < 1ms" in repr(found)

@pytest.mark.asyncio
@pytest.mark.parametrize(("arguments", "answer"), [
    ({"sla": "p50 < 1s"}, "is no list"), ({"sla": []}, "nothing says what must hold"),
    ({"sla": ["p50 < 1s"], "rate": "1/s"}, "exclude each other"),
])
async def test_wrong(swarm, arguments, answer):
    with pytest.raises(Exception, match=answer):
        await swarm.search(ask, "concurrency", 8, 16, **arguments)
"""


def test_the_swarm_fixture_searches_too(suite: Any, report: Any) -> None:
    suite(INLINE, gateway=None).assert_outcomes(passed=5)
    assert [(test["verdict"], test["search"]["held"]) for test in report()["tests"]] == [("pass", 16), ("fail", None)]


def test_a_search_of_the_fixture_without_a_gateway_is_told_too(suite: Any) -> None:
    result = suite(INLINE, "-k", "found", gateway="http://127.0.0.1:9/v1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*no gateway answers at http://127.0.0.1:9/v1*"])


RATE = """
@pytest.mark.swarm(tasks=100)
@pytest.mark.swarm_search("rate", low="10/s", high="80/s", sla=["p50 < 600ms", "success_rate >= 80%"])
async def test_it(gateway): await gateway.chat("hi")
"""


def test_the_largest_rate_that_holds_is_found_in_an_open_loop(suite: Any, report: Any) -> None:
    result = suite(RATE, gateway=None)
    result.assert_outcomes(passed=1)
    (test,) = report()["tests"]
    search = test["search"]
    result.stdout.fnmatch_lines([f"*search*rate {search['held']:.4g}/s holds, {search['missed']:.4g}/s does not*"])
    # 32 workers with 0.73 s of work each answer some 44 a second.
    assert 30 <= search["held"] < search["missed"] <= 60
    assert search["missed"] - search["held"] <= search["held"] * 0.05
    for probe in search["probes"]:
        assert probe["tasks"] >= 10 * probe["load"]
    assert test["plan"]["concurrency"] is None
    assert test["plan"]["rate"] == f"{search['held']:g}/s"


STOPPED = """
seen = []

@pytest.mark.swarm(tasks=40)
@pytest.mark.swarm_search("concurrency", low=8, high=200, sla=["p50 < 5s", "success_rate >= 80%"])
async def test_it(gateway):
    seen.append(1)
    if len(seen) > 60:
        pytest.exit("that is enough")
    await gateway.chat("hi")
"""


def test_a_search_that_is_stopped_tells_what_it_had(suite: Any, report: Any) -> None:
    result = suite(STOPPED, gateway=None)
    result.stdout.fnmatch_lines(["*test_it*INTERRUPTED*", "*search*concurrency 8 holds*"])
    (test,) = report()["tests"]
    assert test["verdict"] == test["search"]["verdict"] == "interrupted"
    assert [probe["verdict"] for probe in test["search"]["probes"]] == ["held", "undecided"]


def test_a_gateway_that_is_not_there_is_told_in_one_sentence(suite: Any) -> None:
    result = suite(BLOCKING, gateway="http://127.0.0.1:9/v1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*swarm: no gateway answers at http://127.0.0.1:9/v1*"])


def test_a_search_is_not_recorded(suite: Any) -> None:
    result = suite(BLOCKING, "--swarm-record")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*--swarm-record cannot record a capacity search*"])


BODY = "async def test_it(gateway): pass\n"
SWARM = "@pytest.mark.swarm()\n"
MISTAKES = {
    "metric": ('"concurency", 1, 2, sla=["p95 < 5s"]', "swarm_search(metric=...): 'concurency' *'concurrency'?"),
    "low": ('"concurrency", 0, 2, sla=["p95 < 5s"]', "swarm_search(low=...): 0 is not a whole number of at least 1*"),
    "high": ('"concurrency", 8, "many", sla=["p95 < 5s"]', "swarm_search(high=...): 'many' is not a whole number*"),
    "order": ('"concurrency", 8, 8, sla=["p95 < 5s"]', "swarm_search(high=...): 8 is not above low=8*"),
    "rate": ('"rate", 1, "2/s", sla=["p95 < 5s"]', "swarm_search(low=...): 1 is not a rate*did you mean '1/s'?"),
    "missing": ('"concurrency", 8, sla=["p95 < 5s"]', "swarm_search(high=...): missing; write one such as*"),
    "name": ('"concurrency", 1, 2, slas=["p95 < 5s"]', "swarm_search(slas=...): no such argument*'sla'?"),
    "twice": ('"concurrency", 1, 2, low=1, sla=["p95 < 5s"]', "swarm_search(low=...): given twice*"),
    "unnamed": ('"concurrency", 1, 2, ["p95 < 5s"]', "swarm_search(): ?'p95 < 5s'? has no name*"),
    "no level": ('"concurrency", 1, 2', "swarm_search(sla=...): nothing says what must hold*"),
    "level": ('"concurrency", 1, 2, sla=["p95 < 5 tokens"]', "swarm_search(sla=...): *tokens*"),
    "levels": ('"concurrency", 1, 2, sla="p95 < 5s"', "swarm_search(sla=...): 'p95 < 5s' is no list*"),
    "max_tasks": ('"concurrency", 1, 2, sla=["p95 < 5s"], max_tasks=0', "swarm_search(max_tasks=...): 0 is not*"),
}


def test_mistakes_are_collection_errors_that_name_the_argument(suite: Any, pytester: pytest.Pytester) -> None:
    files = {
        f"test_m{number}": f"import pytest\n{SWARM}@pytest.mark.swarm_search({arguments})\n{BODY}"
        for number, (arguments, _) in enumerate(MISTAKES.values())
    }
    files["test_alone"] = f'import pytest\n@pytest.mark.swarm_search("concurrency", 1, 2, sla=["p95 < 5s"])\n{BODY}'
    both = '@pytest.mark.swarm(4, concurrency=2)\n@pytest.mark.swarm_search("concurrency", 1, 2, sla=["p95 < 5s"])\n'
    files["test_both"] = f"import pytest\n{both}{BODY}"
    files["test_by_position"] = f"import pytest\n{both.replace('concurrency=2', '2')}{BODY}"
    pytester.makepyfile(**files)
    result = suite("", "--collect-only", gateway=None)
    result.assert_outcomes(errors=len(files))
    for number, (_, answer) in enumerate(MISTAKES.values()):
        result.stdout.fnmatch_lines([f"*test_m{number}.py::test_it: {answer.replace('[', '[[]')}"])
    exclude = "swarm(concurrency=...) and swarm_search('concurrency') exclude each other; drop one"
    result.stdout.fnmatch_lines(["*test_alone.py::test_it: @pytest.mark.swarm_search needs @pytest.mark.swarm*"])
    result.stdout.fnmatch_lines([f"*test_both.py::test_it: {exclude}"])
    result.stdout.fnmatch_lines([f"*test_by_position.py::test_it: {exclude}"])
