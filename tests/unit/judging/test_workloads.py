"""Named sets of service levels: how they are written, and how measured figures fit them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging_samples import plain_run, swarm_of

from pytest_swarm.errors import SettingError
from pytest_swarm.judging.metrics import SwarmMetrics
from pytest_swarm.judging.workloads import fit_of, margin_of, parse_workloads

METRICS = SwarmMetrics(swarm_of(plain_run(["passed"] * 9 + ["failed"], seconds=2.0)))
"""Ten tasks of two seconds, one after the other; nine passed; nothing was streamed."""


def fit(*criteria, **more):
    [workload] = parse_workloads({"chat": {"sla": list(criteria), **more}})
    return fit_of(workload, METRICS)


def test_a_workload_is_a_list_or_a_table():
    listed, written = parse_workloads({"chat": ["p99 < 3s"], "batch": {"sla": ["p99 < 9s"], "note": " by night "}})
    assert (listed.name, [str(one) for one in listed.criteria], listed.note) == ("chat", ["latency.p99 < 3s"], "")
    assert (written.name, written.note) == ("batch", "by night")


def test_what_is_not_measurable_keeps_its_place():
    [workload] = parse_workloads({"chat": ["p50 < 3s", "Not  measurable: team size", "p99 < 3s"]})
    assert [str(one) for one in workload.criteria] == ["latency.p50 < 3s", "team size", "latency.p99 < 3s"]


@pytest.mark.parametrize(
    ("table", "answer"),
    [
        (
            {"chat": {"slas": ["p99 < 3s"]}},
            "[tool.pytest_swarm.workloads] chat: unknown key 'slas'; allowed are sla, note; did you mean 'sla'?",
        ),
        (
            {"chat": 5},
            '[tool.pytest_swarm.workloads] chat is 5; write a list of service levels such as ["p99 < 3s"]',
        ),
        (
            {"chat": []},
            '[tool.pytest_swarm.workloads] chat is []; write a list of service levels such as ["p99 < 3s"]',
        ),
        (
            {"chat": {"note": "x"}},
            '[tool.pytest_swarm.workloads] chat has no sla; write a list of service levels such as ["p99 < 3s"]',
        ),
        (
            {"chat": {"sla": ["p99 < 3s"], "note": 5}},
            "[tool.pytest_swarm.workloads] chat: note is 5; write a text",
        ),
        (
            {"chat": [5]},
            "[tool.pytest_swarm.workloads] chat: 5 is no service level; write a text such as 'p99 < 3s'",
        ),
        (
            {"chat": ["latncy.p99 < 3s"]},
            "[tool.pytest_swarm.workloads] chat: unknown metric 'latncy'; did you mean 'latency'?",
        ),
        (
            {"chat": ["not mesurable: team size"]},
            (
                "[tool.pytest_swarm.workloads] chat: 'not mesurable: team size' compares nothing; say a metric, one of "
                "< <= > >= == != and a value: 'latency.p99 < 12s'; did you mean 'not measurable'?"
            ),
        ),
        (
            {"chat": ["not measurable"]},
            (
                "[tool.pytest_swarm.workloads] chat: 'not measurable' does not say what; write such as "
                "'not measurable: team size'"
            ),
        ),
        (
            {"chat": ["p99 < baseline * 1.1"]},
            (
                "[tool.pytest_swarm.workloads] chat: 'p99 < baseline * 1.1' compares with a baseline; a workload names "
                "a value of its own"
            ),
        ),
        (
            {" ": ["p99 < 3s"]},
            "[tool.pytest_swarm.workloads] has an entry without a name; give each workload one",
        ),
    ],
)
def test_anything_else_is_an_error(table, answer):
    with pytest.raises(SettingError) as error:
        parse_workloads(table)
    assert str(error.value) == answer


def test_a_workload_is_met_when_every_criterion_holds():
    found = fit("p99 < 4s", "success_rate >= 75%")
    assert found.verdict == "meets"
    assert [one.margin for one in found.criteria] == [pytest.approx(0.5), pytest.approx(0.2)]
    assert found.margin == pytest.approx(0.2)


def test_one_criterion_that_fails_is_enough():
    found = fit("p99 < 1s", "success_rate >= 75%", "ttft.p95 < 1s")
    assert [one.verdict for one in found.criteria] == ["fail", "pass", "invalid"]
    assert (found.verdict, found.margin) == ("fails", pytest.approx(-1.0))


def test_without_data_nothing_is_met():
    found = fit("p99 < 4s", "ttft.p95 < 1s")
    assert (found.verdict, found.margin) == ("unknown", None)
    [_, unknown] = found.criteria
    assert (unknown.observed, unknown.margin) == (None, None)
    assert "no call was streamed" in unknown.reason


def test_what_is_not_measurable_neither_meets_nor_fails():
    assert fit("not measurable: team size").verdict == "not measurable"
    assert fit("not measurable: team size", "p99 < 4s").verdict == "meets"
    assert fit("not measurable: team size", "p99 < 1s").verdict == "fails"


def test_a_fit_is_plain_data():
    assert fit("p99 < 4s", "not measurable: team size", note="by night").to_dict() == {
        "workload": "chat",
        "note": "by night",
        "verdict": "meets",
        "margin": 0.5,
        "criteria": [
            {
                "criterion": "latency.p99 < 4s",
                "verdict": "pass",
                "metric": "latency.p99",
                "op": "<",
                "threshold": 4.0,
                "observed": 2.0,
                "margin": 0.5,
                "reason": "",
            },
            {
                "criterion": "team size",
                "verdict": "not measurable",
                "metric": None,
                "op": None,
                "threshold": None,
                "observed": None,
                "margin": None,
                "reason": "",
            },
        ],
    }


@pytest.mark.parametrize(
    ("op", "observed", "threshold", "margin"),
    [
        ("<", 9.0, 12.0, 0.25),
        ("<=", 15.0, 12.0, -0.25),
        (">", 0.96, 0.96, 0.0),
        (">=", 50.0, 40.0, 0.25),
        (">=", 30.0, 40.0, -0.25),
        ("<", 1.0, -2.0, -1.5),
        ("<=", 3.0, 0.0, None),
        ("==", 3.0, 4.0, None),
        ("!=", 3.0, 4.0, None),
    ],
)
def test_the_margin_is_a_share_of_the_threshold(op, observed, threshold, margin):
    assert margin_of(op, observed, threshold) == margin


@given(st.sampled_from("<>"), st.floats(0, 1e6), st.floats(1e-6, 1e6))
def test_the_sign_of_a_margin_is_the_side_of_the_threshold(op, observed, threshold):
    margin = margin_of(op, observed, threshold)
    holds = observed < threshold if op == "<" else observed > threshold
    assert (margin > 0) == holds
