"""The record of a test: what a swarm measured and how it was judged, as plain data."""

import json
from array import array

import pytest

from pytest_swarm.columns import Audit, Failure, RunResult, SwarmResult
from pytest_swarm.judging.sla import parse
from pytest_swarm.judging.verdict import judge
from pytest_swarm.records import Attempt, Call, Task
from pytest_swarm.reports import record as module

PLAN = {"tasks": 4, "concurrency": 2, "repeat": 1}


def run(index=0, latencies=(1.0, 2.0, 3.0, 4.0), **call):
    """A run of tasks with these latencies, one call each."""
    made = RunResult(index, in_flight_max=2 + index)
    for number, latency in enumerate(latencies):
        fields = {"model": "gpt-6", "outcome": "ok", "status": 200, "cost": 0.25, "sent": 0.0, "latency": latency}
        fields["attempts"] = [Attempt(0.0, latency, 200, "ok")]
        one = Call(number, index, **{**fields, **call})
        made.calls.append(one)
        made.tasks.append(Task(number, index, False, "passed", 0.0, 0.0, latency), [one])
    return made


def result(*runs, **changed):
    fields = {
        "nodeid": "tests/test_a.py::test_b[gpt-6]",
        "model": "gpt-6",
        "gateway_kind": "live",
        "base_url": "https://gateway.example.com/v1",
        "clock": "real",
        "plan": PLAN,
    }
    return SwarmResult(**{**fields, **changed}, runs=list(runs or [run()]))


def record(swarm, *lines, **more):
    judgement = judge(swarm, [parse(line) for line in lines], confidence=more.pop("confidence", 0.95))
    return module.test_record(swarm, judgement, test="tests/test_a.py::test_b", **more)


def plain(value):
    if isinstance(value, dict):
        return all(type(key) is str and plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(plain, value))
    return value is None or type(value) in (bool, int, float, str)


def test_a_record_is_plain_data_without_nan():
    made = record(result(run(), run(1)), "p50 < 3s", "ttft.p95 < 1s", "success_rate >= 90%", param_model="gpt-6")
    assert plain(made)
    assert json.loads(json.dumps(made, allow_nan=False)) == made


def test_a_record_says_what_ran_and_what_came_of_it():
    made = record(result(rows="rows.jsonl", notes=["a note"]), "p50 < 2s", param_model="gpt-6")
    assert made["nodeid"] == "tests/test_a.py::test_b[gpt-6]"
    assert made["test"] == "tests/test_a.py::test_b"
    assert (made["model"], made["param_model"]) == ("gpt-6", "gpt-6")
    assert made["gateway"] == {"kind": "live", "base_url": "https://gateway.example.com/v1"}
    assert (made["clock"], made["simulated"], made["plan"], made["rows"]) == ("real", None, PLAN, "rows.jsonl")
    assert (made["verdict"], made["reasons"]) == ("fail", ["latency.p50 < 2s: it is 2.5s"])
    assert (made["metrics"]["latency.p50"], made["metrics"]["cost"]) == (2.5, 1.0)
    assert (made["in_flight_max"], made["notes"], made["audit"]) == (2, ["a note"], None)


def test_service_levels_keep_what_cannot_be_proven():
    [line] = record(result(), "p99 < 12s")["sla"]
    assert line["verdict"] == "pass"
    assert line["note"] == "4 tasks cannot prove a p99 (299 needed at 95 %)"


def test_bounds_are_those_of_the_judgement():
    made = record(result(), confidence=0.5)
    assert made["confidence"] == 0.5
    assert made["bounds"]["latency.p50"] == 3.0
    assert made["bounds"]["latency.p99"] is None
    assert made["bounds"]["ttft.p50"] is None


def test_runs_have_their_own_metrics():
    second = run(1, latencies=(5.0, 6.0))
    second.interrupted = "the budget was spent"
    runs = record(result(run(), second))["runs"]
    assert [(entry["index"], entry["metrics"]["latency.p50"]) for entry in runs] == [(0, 2.5), (1, 5.5)]
    assert [entry["interrupted"] for entry in runs] == [None, "the budget was spent"]


def test_failures_are_counted_over_all_runs_with_the_first_example():
    first, second = run(), run(1)
    first.call_failures = {"rate_limited": Failure(2, "429 first")}
    second.call_failures = {"rate_limited": Failure(3, "429 second"), "refusal": Failure(1, "no")}
    second.task_failures = {"failed": Failure(1, "AssertionError")}
    assert record(result(first, second))["failures"] == [
        {"kind": "call", "outcome": "rate_limited", "count": 5, "example": "429 first"},
        {"kind": "task", "outcome": "failed", "count": 1, "example": "AssertionError"},
        {"kind": "call", "outcome": "refusal", "count": 1, "example": "no"},
    ]


def test_errors_count_the_calls_that_were_not_ok():
    made = record(result(run(), run(1, outcome="rate_limited", status=429, cost=0.0)))
    assert made["errors"] == {"rate_limited": 4}


def test_secrets_do_not_get_into_a_record():
    swarm = result(base_url="https://user:hunter22@gateway.example.com/v1")
    swarm.runs[0].task_failures = {"failed": Failure(1, "asked with Bearer sk-abcdef1234567890 " + "x" * 1000)}
    made = record(swarm)
    assert "hunter22" not in json.dumps(made)
    assert "sk-abcdef" not in json.dumps(made)
    assert len(made["failures"][0]["example"]) == 500


@pytest.mark.parametrize(
    ("fields", "simulated"),
    [
        ({"gateway_kind": "simulated", "clock": "virtual", "base_url": None}, "simulated gateway, virtual time"),
        ({"gateway_kind": "replay", "clock": "virtual"}, None),
        ({}, None),
    ],
)
def test_the_simulated_gateway_is_told_by_itself(fields, simulated):
    assert record(result(**fields))["simulated"] == simulated


def test_a_simulated_gateway_behind_an_address_is_told_by_the_caller():
    assert record(result(), simulated="simulated gateway kimi, speed 10")["simulated"] == (
        "simulated gateway kimi, speed 10"
    )


def test_what_was_spent_is_told_by_model_with_warm_up():
    first = run()
    first.calls.append(Call(None, 0, warmup=True, model="kimi", outcome="ok", status=200, cost=0.5))
    first.calls.append(Call(None, 0, outcome="ok", status=200, cost=0.125))
    assert record(result(first))["spent"] == {
        "by_model": {"(unnamed)": 0.125, "gpt-6": 1.0, "kimi": 0.5},
        "unpriced_calls": 0,
    }


def test_calls_that_may_have_been_billed_make_their_model_unpriced():
    first = run()
    for call in (
        Call(0, 0, model="house", outcome="ok", status=200),
        Call(0, 0, model="house", outcome="idle_timeout", sent=1.0),
        Call(0, 0, model="house", outcome="cancelled"),
        Call(0, 0, model="house", outcome="rate_limited", status=429, sent=1.0),
        Call(0, 0, model="house", outcome="other", sent=1.0),
        Call(0, 0, model="house", outcome="ok", status=200, cost=0.5),
    ):
        first.calls.append(call)
    assert record(result(first))["spent"] == {"by_model": {"gpt-6": 1.0, "house": None}, "unpriced_calls": 2}


def test_an_unknown_cost_says_why_in_a_note_but_not_twice():
    unpriced = result(run(cost=None, cost_reason="no price"))
    [note] = record(unpriced)["notes"]
    assert note == "the cost is unknown: no price (4 calls)"
    made = record(unpriced, "cost < $1")
    assert made["verdict"] == "invalid"
    assert made["notes"] == []


@pytest.mark.parametrize(
    ("reported", "told"),
    [
        (0.25, None),
        (0.2476, None),
        (0.2, "the gateway reported $0.8, our prices give $1 for the same calls (+25.0 %): 4 of 4 differ"),
        (0.0, "the gateway reported $0, our prices give $1 for the same calls: 4 of 4 differ by more than 1%"),
    ],
)
def test_a_gateway_that_reports_other_costs_than_ours_is_noted(reported, told):
    notes = record(result(run(cost_source="table", reported_cost=reported)))["notes"]
    assert (notes == []) if told is None else notes[0].startswith(told)


@pytest.mark.parametrize(
    "call",
    [
        {"cost_source": "reported", "reported_cost": 9.0},
        {"cost_source": "table", "reported_cost": None},
        {"cost_source": None, "cost": 0.0, "reported_cost": 9.0},
        {"cost_source": "table", "reported_cost": 9.0, "attempts": [Attempt(0.0, 1.0, 500, "server_error")] * 2},
    ],
)
def test_costs_that_are_not_of_the_same_thing_are_not_compared(call):
    assert record(result(run(**call)))["notes"] == []


def test_a_record_tells_who_priced_how_many_calls():
    made = record(result(run(cost_source="table"), run(1, cost_source="reported"), run(2, cost_source="table")))
    assert made["cost_sources"] == {"table": 8, "reported": 4}


def test_no_calls_are_no_unknown_cost():
    made = RunResult(0)
    made.tasks.append(Task(0, 0, False, "passed", 0.0, 0.0, 1.0), [])
    assert record(result(made))["notes"] == []


def test_the_audit_is_that_of_every_run_and_the_worst_of_all():
    runs = [run(), run(1), run(2)]
    runs[0].audit = Audit(array("d", [0.01]), array("d"), None, 1.0, threads=False, blocked_at="a.py:1 in f")
    runs[1].audit = Audit(array("d", [0.03]), array("d", [0.5]), 0.2, 0.5, threads=False, blocked_at=None)
    made = record(result(*runs))
    seen = {name: made["audit"][name] for name in ("lag_max", "late_p99", "undelivered", "blocked_at")}
    assert seen == {"lag_max": 0.03, "late_p99": 0.5, "undelivered": 0.2, "blocked_at": "a.py:1 in f"}
    assert [entry["audit"] and entry["audit"]["lag_max"] for entry in made["runs"]] == [0.01, 0.03, None]


def test_a_swarm_that_was_skipped_has_a_record():
    skipped = RunResult(0, task_failures={"skipped": Failure(1, "needs a key")})
    skipped.tasks.append(Task(0, 0, False, "skipped", 0.0, 0.0, 0.0), [])
    made = record(result(skipped))
    assert (made["verdict"], made["reasons"]) == ("skipped", ["all 1 tasks were skipped: needs a key"])


def test_a_swarm_that_never_ran_has_a_record():
    swarm = result()
    swarm.runs = []
    made = record(swarm)
    assert (made["verdict"], made["in_flight_max"], made["runs"]) == ("invalid", 0, [])


def test_own_numbers_and_checks_are_among_the_metrics():
    first = run()
    first.numbers["score"] = array("d", [1.0, 2.0])
    first.checks["grounded"] = [1, 2]
    metrics = record(result(first))["metrics"]
    assert (metrics["my.score.mean"], metrics["check.grounded"]) == (1.5, 0.5)


def test_what_is_most_often_wrong_with_json_comes_first_without_secrets():
    runs = [run(), run(1)]
    for number in range(12):
        runs[0].json_errors[f"$.a{number}: is wrong"] = Failure(1 + number, f"$.a{number}: {number} is wrong")
    runs[1].json_errors["$.a0: is wrong"] = Failure(50, "another example")
    runs[1].json_errors["not JSON: x"] = Failure(40, "the key is sk-" + "a1B2" * 12)
    first, second, *rest = record(result(*runs))["json_errors"]
    assert first == {"error": "$.a0: is wrong", "count": 51, "example": "$.a0: 0 is wrong"}
    assert second["count"] == 40
    assert "a1B2a1B2" not in second["example"]
    assert [entry["count"] for entry in rest] == [12, 11, 10, 9, 8, 7, 6, 5]
