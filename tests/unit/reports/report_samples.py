"""Test records made by hand, in the shape of `reports.record`."""

from copy import deepcopy

METRICS = {
    "latency.p50": 1.8412,
    "latency.p90": 3.1,
    "latency.p95": 4.683,
    "latency.p99": 9.031,
    "latency.mean": 2.1,
    "latency.max": 9.4,
    "ttft.p50": 0.2104,
    "ttft.p95": 0.8399,
    "ttft.p99": 1.2,
    "success_rate": 0.96,
    "throughput": 38.21,
    "steady_throughput": 41.7,
    "input_tokens.mean": 812.4,
    "output_tokens.mean": 245.1,
    "cost": 0.0824,
    "cost_per_100": 0.0824,
    "tasks": 100,
    "calls": 104,
    "attempts": 108,
    "retries": 4,
}


def level(expression, verdict="pass", *, metric="latency.p99", observed=9.031, threshold=12.0, **more):
    op = expression.split()[-2]
    line = {"expression": expression, "metric": metric, "observed": observed, "threshold": threshold, "op": op}
    rest = {"verdict": verdict, "reason": "", "lower": None, "upper": None, "note": "", "confidence": None}
    return {**line, **rest, **more}


def run(index, figures):
    load = {"in_flight_max": 50, "backlogged": 0, "backlog_max": 0, "shed": 0, "rescheduled": 0}
    rest = {"interrupted": None, "load": {**load, "limits": [], "settled": None}, "audit": None}
    return {"index": index, "metrics": figures, **rest}


def record(**changed):
    """A live test that passed, with `changed` in it."""
    plain = {
        "nodeid": "tests/test_summary.py::test_summarise[gpt-6-agent]",
        "test": "tests/test_summary.py::test_summarise",
        "param_model": None,
        "model": "gpt-6-agent",
        "gateway": {"kind": "live", "base_url": "https://gateway.example.com/v1"},
        "clock": "real",
        "plan": {"tasks": 100, "concurrency": 50, "repeat": 1, "warmup": 0, "rate": None, "duration": None},
        "verdict": "pass",
        "reasons": [],
        "sla": [],
        "metrics": METRICS,
        "bounds": {},
        "confidence": 0.95,
        "runs": [run(0, METRICS)],
        "errors": {},
        "failures": [],
        "notes": [],
        "simulated": None,
        "replay": None,
        "in_flight_max": 50,
        "audit": None,
        "rows": None,
        "spent": {"by_model": {"gpt-6-agent": 0.0824}, "unpriced_calls": 0},
        "cost_sources": {"table": 100},
        "ceiling": None,
        "search": None,
        "baseline": None,
        "without_cache": None,
        "workloads": [],
        "json_errors": [],
    }
    return deepcopy({**plain, **changed})


REPLAY = {
    "cassette": "cassettes/tests/test_customer_support_answers/test_answers_in_time.yaml",
    "recorded_at": "2026-11-19T03:04:05.678Z",
    "age": 12.5 * 86_400,
    "simulated": None,
    "models": ["kimi-k2.5-swarm"],
    "timed": True,
    "speed": "virtual",
    "recorded": 66,
    "asked": 66,
    "missed": 0,
    "unused": 0,
    "in_flight_max": 20,
    "recorded_in_flight_max": 20,
}


def metrics(**changed):
    """The metrics of `METRICS` with some changed: `__` stands for a dot."""
    return {**METRICS, **{name.replace("__", "."): value for name, value in changed.items()}}


PASSED = record(
    plan={"tasks": 500, "concurrency": 50, "repeat": 1, "warmup": 5},
    metrics=metrics(tasks=500, calls=504, success_rate=0.998, cost=0.412),
    bounds={"latency.p50": 1.93, "latency.p95": 5.4, "latency.p99": 11.21, "ttft.p50": 0.2309, "ttft.p95": 0.91},
    sla=[
        level("latency.p99 < 12s", lower=7.9, upper=11.21),
        level("success_rate >= 99%", metric="success_rate", observed=0.998, threshold=0.99, lower=0.9905, upper=1.0),
        level("cost_per_100 <= $0.10", metric="cost_per_100", observed=0.0824, threshold=0.1),
    ],
    failures=[{"kind": "task", "outcome": "failed", "count": 1, "example": "AssertionError: assert 0.2 > 0.5"}],
)

FAILED = record(
    nodeid="tests/integration/features/test_customer_support_answers.py::TestAnswers::"
    "test_answers_in_time[kimi-k2.5-swarm-long-conversation]",
    verdict="fail",
    plan={"tasks": 20, "concurrency": 100, "repeat": 3, "stages": None},
    in_flight_max=20,
    gateway={"kind": "replay", "base_url": "https://gateway.example.com/v1"},
    clock="virtual",
    replay=REPLAY,
    model="kimi-k2.5-swarm",
    metrics=metrics(tasks=60, calls=66, success_rate=0.9, ttft__p50=None),
    sla=[
        level(
            "latency.p99 < 9s",
            "fail",
            threshold=9.0,
            observed=9.001,
            lower=7.9,
            reason="latency.p99 < 9s: it is 9.001s",
            note="60 tasks cannot prove a p99 (299 needed at 95 %)",
        ),
        level("ttft[plan the whole answer before it is written].p95 <= 800ms", metric="ttft.p95", observed=0.6),
        level(
            "errors.rate_limited == 0",
            "fail",
            metric="errors.rate_limited",
            observed=9,
            threshold=0.0,
            reason="errors.rate_limited == 0: it is 9",
        ),
    ],
    reasons=[
        "latency.p99 < 9s: it is 9.001s",
        "errors.rate_limited == 0: it is 9",
        "6 of 60 tasks did not pass (6 failed), and no line on success_rate allows that",
    ],
    runs=[
        run(0, metrics()),
        run(1, metrics(latency__p99=11.31, success_rate=0.85)),
        run(2, metrics(throughput=None)),
    ],
    failures=[
        {"kind": "call", "outcome": "incomplete", "count": 1, "example": "finish_reason length after 512 tokens"},
        {
            "kind": "call",
            "outcome": "rate_limited",
            "count": 9,
            "example": "429 rate_limit_exceeded: Rate limit reached "
            "for requests per minute,\nplease try again in 1.2s. Visit the console to raise it.",
        },
        {"kind": "task", "outcome": "failed", "count": 6, "example": "CallFailed: rate_limited: 429"},
    ],
    notes=["the cassette was recorded with 50 in flight, so that waiting in its queues is not what it would be here"],
)

INVALID = record(
    nodeid="tests/test_prices.py::test_cost",
    verdict="invalid",
    plan={"tasks": None, "concurrency": 200, "rate": "40/s", "duration": 30.0, "limit": ["40/s burst 50"]},
    in_flight_max=87,
    metrics=metrics(cost=None, cost_per_100=None, ttft__p50=None, tasks=1204, calls=1204, retries=0),
    sla=[
        level(
            "cost_per_100 <= $0.10",
            "invalid",
            metric="cost_per_100",
            observed=None,
            threshold=0.1,
            reason="cost_per_100 <= $0.10: no price for model 'house-model' (1204 calls): "
            'add [tool.pytest_swarm.prices."house-model"]',
        ),
        level("latency.p99 < 12s"),
    ],
    notes=["the gateway closed 12 idle connections; these calls were sent again"],
)

SIMULATED = record(
    nodeid="tests/test_summary.py::test_summarise[kimi-k2.5-swarm]",
    model="kimi-k2.5-swarm",
    gateway={"kind": "simulated", "base_url": None},
    clock="virtual",
    simulated="simulated gateway, virtual time",
    sla=[level("latency.p99 < 12s", note="100 tasks cannot prove a p99 (299 needed at 95 %)")],
)

SKIPPED = record(
    nodeid="tests/test_summary.py::test_other",
    verdict="skipped",
    metrics=dict.fromkeys(METRICS),
    runs=[],
    in_flight_max=0,
    reasons=["all 100 tasks were skipped: needs a key"],
)


def model(name, **changed):
    return record(nodeid=f"tests/test_summary.py::test_summarise[{name}]", model=name, param_model=name, **changed)


COMPARED = [
    model("gpt-6-agent", metrics=metrics(latency__p50=1.833, ttft__p50=None)),
    model(
        "kimi-k2.5-swarm",
        metrics=metrics(
            latency__p50=2.315,
            latency__p95=5.23,
            latency__p99=None,
            ttft__p50=None,
            success_rate=0.94,
            steady_throughput=38.7,
            throughput=38.2,
            output_tokens__mean=198.0,
            cost_per_100=0.0412,
        ),
    ),
]


def priced(name, per_task, without_cache=None, reason="", hits=0.0, **changed):
    """A model of one test that was measured to cost so much per task."""
    without = {"cost_per_task": without_cache, "reason": reason}
    return model(name, metrics=metrics(cost_per_task=per_task, cache_hit_rate=hits), without_cache=without, **changed)


PROJECTED = [
    priced("gpt-6-agent", 0.00082, 0.00091, hits=0.35),
    priced("kimi-k2.5-swarm", 0.00041, 0.00041),
    record(
        nodeid="tests/test_prices.py::test_cost",
        model="house-model",
        metrics=metrics(cost_per_task=0.0101, cache_hit_rate=None),
        without_cache={"cost_per_task": None, "reason": "nobody knows what fresh input of model 'house-model' costs"},
        spent={"by_model": {"house-model": 1.01}, "unpriced_calls": 0},
    ),
    record(
        nodeid="tests/test_prices.py::test_unknown",
        model="other-model",
        metrics=metrics(cost_per_task=None, cache_hit_rate=None),
        without_cache={"cost_per_task": None, "reason": "no price for model 'other-model'"},
        spent={"by_model": {"other-model": None}, "unpriced_calls": 100},
    ),
]


def criterion(text, metric, observed, margin, verdict="pass", reason=""):
    op, threshold = text.split()[-2], 1.0
    figures = {"metric": metric, "op": op, "threshold": threshold, "observed": observed, "margin": margin}
    return {"criterion": text, "verdict": verdict, "reason": reason, **figures}


TEAM_SIZE = {
    **criterion("team < 5", None, None, None, "not measurable"),
    "criterion": "team size",
    "op": None,
    "threshold": None,
}


def fit(name, verdict, margin, *criteria, note=""):
    return {"workload": name, "note": note, "verdict": verdict, "margin": margin, "criteria": list(criteria)}


def fitted(name, ttft, cost, **changed):
    """A model of one test with how it fits three workloads."""
    fast = criterion("latency.p99 < 12s", "latency.p99", 9.03, 0.2475)
    first = criterion("ttft.p95 < 1s", "ttft.p95", ttft, 1 - ttft, "pass" if ttft < 1 else "fail")
    cheap = criterion(
        "cost_per_100 <= $0.05", "cost_per_100", cost, 1 - cost / 0.05, "pass" if cost <= 0.05 else "fail"
    )
    valid = criterion("schema_valid_rate >= 98%", "schema_valid_rate", None, None, "invalid", "no data")
    chat = fit("realtime-chat", "meets" if ttft < 1 else "fails", min(0.2475, 1 - ttft), first, fast)
    batch = fit("prototype", "meets" if cost <= 0.05 else "fails", 1 - cost / 0.05, cheap, TEAM_SIZE, note="first bill")
    return model(name, workloads=[chat, batch, fit("regulated", "unknown", None, valid)], **changed)


FITTED = [
    fitted("gpt-6-agent", 0.64, 0.082),
    fitted("kimi-k2.5-swarm", 1.31, 0.041),
    record(nodeid="tests/test_a.py::test_one_model", workloads=fitted("m", 0.5, 0.01)["workloads"]),
]
