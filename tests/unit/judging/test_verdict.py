import pytest
from judging_samples import call, plain_run, run_of, swarm_of, task

from pytest_swarm.columns import Failure
from pytest_swarm.judging.sla import parse, parse_per_task
from pytest_swarm.judging.verdict import judge


def judged(result, *lines, **more):
    return judge(result, [parse(line) for line in lines], **more)


def statuses(*names):
    return swarm_of(plain_run(list(names)))


def test_where_every_task_passed_and_every_line_holds_the_test_passes():
    judgement = judged(statuses(*["passed"] * 4), "latency.p99 < 2s", "success_rate >= 90%")
    assert (judgement.verdict, judgement.reasons) == ("pass", [])
    assert [line.verdict for line in judgement.lines] == ["pass", "pass"]
    assert judged(statuses("passed")).verdict == "pass"


def test_a_line_is_an_entry_of_the_report():
    judgement = judged(statuses(*["passed"] * 6), "p50<=500ms")
    assert judgement.verdict == "fail"
    assert [line.to_dict() for line in judgement.lines] == [
        {
            "expression": "latency.p50 <= 500ms",
            "metric": "latency.p50",
            "observed": 1.0,
            "threshold": 0.5,
            "op": "<=",
            "verdict": "fail",
            "reason": "latency.p50 <= 500ms: it is 1s",
            "lower": 1.0,
            "upper": 1.0,
            "note": "",
            "confidence": None,
        }
    ]
    assert judgement.reasons == ["latency.p50 <= 500ms: it is 1s"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("success_rate >= 90%", "success_rate >= 90%: it is 66.67%"),
        ("success_rate > 66.6667%", "success_rate > 66.6667%: it is 66.6666667%"),
        ("throughput >= 2/s", "throughput >= 2/s: it is 0.6667/s"),
        ("cost <= $0.10", "cost <= $0.10: it is $370.4"),
        ("input_tokens.sum < 10k", "input_tokens.sum < 10k: it is 24691356"),
        ("latency.p99 != 1", "latency.p99 != 1: it is 1s"),
        ("error_rate == 0.33", "error_rate == 0.33: it is 33.33%"),
    ],
)
def test_a_line_that_fails_says_what_was_observed(line, reason):
    tasks = [task(i, i, i + 1, status) for i, status in enumerate(["passed", "passed", "failed"])]
    run = run_of(tasks, [call(i, cost=123.456, input_tokens=12345678, latency=1) for i in range(3)])
    lines = judged(swarm_of(run), line, "success_rate >= 0").lines
    assert (lines[0].verdict, lines[0].reason) == ("fail", reason)


# --- every task must pass ---


def test_every_task_must_pass():
    judgement = judged(statuses("passed", "failed", "timeout", "failed", "skipped", "cancelled"), "latency.p99 < 2s")
    assert judgement.verdict == "fail"
    assert judgement.reasons == [
        "3 of 4 tasks did not pass (2 failed, 1 timeout), and no line on success_rate allows that"
    ]


@pytest.mark.parametrize("line", ["success_rate >= 50%", "error_rate <= 50%"])
@pytest.mark.parametrize("status", ["failed", "timeout", "json_invalid", "schema_invalid"])
def test_a_line_on_the_success_of_tasks_lifts_the_demand(line, status):
    assert judged(statuses("passed", status), line).verdict == "pass"
    assert judged(statuses("passed", status, status), line).verdict == "fail"


def replies(*pairs):
    """Tasks of these statuses, each with one reply of the JSON status beside it."""
    tasks = [task(i, i, i + 1, status) for i, (status, _) in enumerate(pairs)]
    return swarm_of(run_of(tasks, [call(i, name="plan", json_status=json) for i, (_, json) in enumerate(pairs)]))


GOOD = ("passed", "valid")
NO_JSON = ("json_invalid", "invalid")
NO_FIT = ("schema_invalid", "schema_invalid")


@pytest.mark.parametrize(
    ("line", "pairs", "verdict"),
    [
        ("json_valid_rate >= 50%", [GOOD, NO_JSON], "pass"),
        ("schema_valid_rate >= 50%", [GOOD, NO_JSON], "pass"),
        ("schema_valid_rate >= 50%", [GOOD, NO_FIT], "pass"),
        ("json_valid_rate >= 50%", [GOOD, NO_FIT], "fail"),
        ("json_valid_rate >= 60%", [GOOD, NO_JSON], "fail"),
        ("json_valid_rate[plan] >= 50%", [GOOD, NO_JSON], "fail"),
        ("call_success_rate >= 50%", [GOOD, NO_JSON], "fail"),
        ("json_valid_rate >= 50%", [GOOD, NO_JSON, ("failed", "valid")], "fail"),
    ],
)
def test_a_line_on_json_lifts_the_demand_for_these_tasks_only(line, pairs, verdict):
    assert judged(replies(*pairs), line).verdict == verdict


@pytest.mark.parametrize(
    ("pairs", "allowing"),
    [
        ([GOOD, NO_JSON], "success_rate or json_valid_rate or schema_valid_rate"),
        ([GOOD, NO_JSON, NO_FIT], "success_rate or schema_valid_rate"),
        ([GOOD, NO_JSON, ("failed", "valid")], "success_rate"),
    ],
)
def test_the_demand_names_the_lines_that_would_lift_it(pairs, allowing):
    assert judged(replies(*pairs)).reasons[0].endswith(f"and no line on {allowing} allows that")


def test_the_demand_is_over_all_runs():
    result = swarm_of(plain_run(["passed"] * 3, 0), plain_run(["passed", "passed", "failed"], 1))
    assert judged(result).reasons == ["1 of 6 tasks did not pass (1 failed), and no line on success_rate allows that"]


def test_a_single_task_is_told_in_the_singular():
    assert judged(statuses("failed")).reasons[0].startswith("1 of 1 task did not pass")


# --- invalid ---


def test_a_metric_without_data_is_invalid():
    judgement = judged(statuses("passed"), "ttft.p99 < 3s", "latency.p99 < 3s")
    assert judgement.verdict == "invalid"
    assert [line.verdict for line in judgement.lines] == ["invalid", "pass"]
    assert judgement.reasons == ["ttft.p99 < 3s: no data: no call was streamed, so there is no ttft"]
    line = judgement.lines[0]
    assert (line.observed, line.lower, line.upper, line.note) == (None, None, None, "")


def test_an_unknown_cost_is_invalid():
    judgement = judged(statuses("passed"), "cost <= $1")
    assert judgement.verdict == "invalid"
    assert judgement.reasons == ["cost <= $1: cost unknown (1 call)"]


def test_what_failed_outweighs_what_could_not_be_told():
    judgement = judged(statuses("passed"), "ttft.p99 < 3s", "latency.p99 < 500ms")
    assert judgement.verdict == "fail"
    assert [reason.partition(":")[0] for reason in judgement.reasons] == ["latency.p99 < 500ms", "ttft.p99 < 3s"]


def test_a_baseline_that_is_not_there_is_invalid():
    judgement = judged(statuses("passed"), "latency.p99 < baseline")
    assert judgement.verdict == "invalid"
    (reason,) = judgement.reasons
    assert reason == (
        "latency.p99 < baseline: there is no baseline to compare with; "
        "write one with --swarm-json=FILE and name it with --swarm-baseline=FILE"
    )
    assert judgement.lines[0].observed == 1.0


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (swarm_of(), "nothing was measured: no task was finished"),
        (swarm_of(run_of([])), "nothing was measured: no task was finished"),
        (statuses("cancelled", "skipped"), "nothing was measured: no task was finished (1 skipped, 1 cancelled)"),
    ],
)
def test_where_nothing_was_measured_nothing_is_judged(result, reason):
    judgement = judged(result)
    assert (judgement.verdict, judgement.reasons) == ("invalid", [reason])
    judgement = judged(result, "errors.rate_limited == 0")
    assert judgement.verdict == "invalid"


def test_a_run_that_ended_early_is_invalid_unless_something_failed():
    early = plain_run(["passed"] * 2, interrupted="the gateway answers 401")
    judgement = judged(swarm_of(early), "latency.p99 < 3s")
    assert (judgement.verdict, judgement.reasons) == ("invalid", ["the run ended early: the gateway answers 401"])
    assert judgement.lines[0].verdict == "pass"
    judgement = judged(swarm_of(plain_run(["passed"]), plain_run(["failed"], 1, interrupted="it burns")))
    assert judgement.verdict == "fail"
    assert judgement.reasons[1] == "run 1 ended early: it burns"


def test_json_that_was_asked_for_must_have_been_seen():
    judgement = judged(statuses("passed"), json_expected=True)
    assert judgement.verdict == "invalid"
    assert judgement.reasons == ["json_output asks for JSON, and no reply came to be checked"]
    assert judged(replies(GOOD), json_expected=True).verdict == "pass"
    assert judged(statuses(), json_expected=True).reasons == ["nothing was measured: no task was finished"]


# --- skipped and interrupted ---


def test_where_every_task_was_skipped_the_test_is():
    run = plain_run(["skipped"] * 3)
    judgement = judged(swarm_of(run), "latency.p99 < 3s")
    assert (judgement.verdict, judgement.lines, judgement.reasons) == ("skipped", [], ["all 3 tasks were skipped"])
    run.task_failures["skipped"] = Failure(3, "no key")
    assert judged(swarm_of(run)).reasons == ["all 3 tasks were skipped: no key"]


def test_one_task_that_was_not_skipped_is_judged():
    assert judged(statuses("skipped", "passed")).verdict == "pass"
    assert judged(statuses("skipped", "failed")).verdict == "fail"


@pytest.mark.parametrize("status", ["passed", "failed", "skipped"])
def test_what_the_user_stopped_is_interrupted_whatever_its_part_shows(status):
    judgement = judged(statuses(status), "latency.p99 < 500ms", interrupted=True)
    assert judgement.verdict == "interrupted"
    assert len(judgement.lines) == 1
    assert judgement.reasons


def test_an_interrupted_swarm_has_a_reason():
    assert judged(statuses("passed"), interrupted=True).reasons == ["the swarm was interrupted"]


# --- bounds and notes ---


@pytest.mark.parametrize(
    ("line", "many", "note"),
    [
        ("latency.p99 < 12s", 100, "100 tasks cannot prove a p99 (299 needed at 95 %)"),
        ("latency.p99 <= 12s", 299, ""),
        ("call_latency.p95 < 12s", 58, "58 calls cannot prove a p95 (59 needed at 95 %)"),
        ("latency.p1 > 0s", 100, "100 tasks cannot prove a p1 (299 needed at 95 %)"),
        ("latency.p99 > 0s", 100, ""),
        ("latency.p99 == 1s", 100, ""),
        ("latency.max < 12s", 5, ""),
        ("latency.mean < 12s", 5, ""),
        ("latency.p100 < 12s", 5, "no number of tasks can prove a p100"),
        ("latency.p0 > 0s", 5, "no number of tasks can prove a p0"),
        ("success_rate > 50%", 5, ""),
    ],
)
def test_a_line_says_when_its_samples_are_too_few(line, many, note):
    judgement = judged(statuses(*["passed"] * many), line)
    assert judgement.verdict == "pass"
    assert judgement.lines[0].note == note


@pytest.mark.parametrize(("line", "noun"), [("itl.p99 < 3s", "3 gaps"), ("my.score.p99 < 3", "1 values")])
def test_a_note_names_its_samples(line, noun):
    run = run_of([task(0, 0, 1)], [call(ttft=0.1, gaps=(0.1, 0.1, 0.1))], numbers={"score": [1.0]})
    assert judged(swarm_of(run), line).lines[0].note.startswith(noun)


def test_bounds_are_told_at_the_confidence_asked_for():
    result = statuses(*["passed"] * 100)
    assert judged(result, "latency.p95 < 3s").confidence == 0.95
    strict = judged(result, "latency.p99 < 3s", "success_rate >= 90%", confidence=0.99)
    assert strict.lines[0].note == "100 tasks cannot prove a p99 (459 needed at 99 %)"
    assert strict.lines[1].lower == pytest.approx(0.01**0.01)
    assert strict.lines[1].upper == 1.0


def test_per_task_bounds_reach_goodput():
    result = statuses(*["passed"] * 4)
    assert judged(result, "goodput_rate == 100%", per_task=[parse_per_task("latency <= 1s")]).verdict == "pass"
    assert judged(result, "goodput_rate == 100%", per_task=[parse_per_task("latency < 1s")]).verdict == "fail"
    assert judged(result, "goodput_rate == 100%").verdict == "invalid"


def test_a_run_that_a_cost_ceiling_ended_is_invalid_whatever_its_part_shows():
    for names in (["passed"] * 3, ["passed", "failed"], ["skipped"]):
        run = plain_run(names)
        run.over_budget, run.interrupted = True, "the cost ceiling of $2 was reached"
        judgement = judged(swarm_of(run), "latency.p99 < 1ms")
        assert judgement.verdict == "invalid"
        assert judgement.reasons[0] == "the run ended early: the cost ceiling of $2 was reached"
    assert judged(swarm_of(run), interrupted=True).verdict == "interrupted"
