import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.errors import SettingError
from pytest_swarm.judging.catalogue import (
    CALL_NAMED,
    COUNTED_OUTCOMES,
    DISTRIBUTIONS,
    SCALARS,
    WORD_STATISTICS,
    Dimension,
)
from pytest_swarm.judging.sla import Metric, TaskBound, parse, parse_metric, parse_per_task


@pytest.mark.parametrize(
    ("text", "normal", "threshold"),
    [
        ("p99<3s", "latency.p99 < 3s", 3.0),
        ("latency.p99 < 12", "latency.p99 < 12", 12.0),
        ("  latency . p99.90  <=  250 ms ", "latency.p99.9 <= 250ms", 0.25),
        ("latency.max < 2m", "latency.max < 2m", 120.0),
        ("user_latency.mean < 1h", "user_latency.mean < 1h", 3600.0),
        ("latency.p099.0 < 1s", "latency.p99 < 1s", 1.0),
        ("latency.p0 > 0", "latency.p0 > 0", 0.0),
        ("latency.p100 < 1e1s", "latency.p100 < 1e1s", 10.0),
        ("latency.count >= 2k", "latency.count >= 2k", 2000.0),
        ("latency.sum < .5h", "latency.sum < .5h", 1800.0),
        ("success_rate >= 90%", "success_rate >= 90%", 0.9),
        ("success_rate >= 0.9", "success_rate >= 0.9", 0.9),
        ("success_rate == 1", "success_rate == 1", 1.0),
        ("error_rate != 100 %", "error_rate != 100%", 1.0),
        ("cost_per_100 <= $0.10", "cost_per_100 <= $0.10", 0.1),
        ("cost < 5$", "cost < 5$", 5.0),
        ("cost < $ 1.5k", "cost < $1.5k", 1500.0),
        ("throughput >= 40/s", "throughput >= 40/s", 40.0),
        ("throughput >= 7/min", "throughput >= 7/min", 7 / 60),
        ("output_token_rate > 2k", "output_token_rate > 2k", 2000.0),
        ("output_tokens.mean < 1M", "output_tokens.mean < 1M", 1e6),
        ("errors.rate_limited == 0", "errors.rate_limited == 0", 0.0),
        ("ttft[plan].p95 <= 800ms", "ttft[plan].p95 <= 800ms", 0.8),
        ("ttft[ a <= b.c ].p95 <= 1s", "ttft[a <= b.c].p95 <= 1s", 1.0),
        ("call_success_rate[plan] > 99%", "call_success_rate[plan] > 99%", 0.99),
        ("my.score.mean > -1.5", "my.score.mean > -1.5", -1.5),
        ("my.tool.calls.p99.9 < 3s", "my.tool.calls.p99.9 < 3s", 3.0),
        ("my.gain.min >= 20%", "my.gain.min >= 20%", 0.2),
        ("check.grounded >= 95%", "check.grounded >= 95%", 0.95),
    ],
)
def test_an_expression_is_read_and_told_in_its_normal_spelling(text, normal, threshold):
    expression = parse(text)
    assert str(expression) == normal
    assert expression.threshold == threshold
    assert expression.text == text
    assert parse(normal) == expression


def test_the_parts_of_an_expression():
    expression = parse("ttft[plan].p95 <= 800ms")
    assert expression.metric == Metric("ttft", "plan", "p95")
    assert (expression.op, expression.value, expression.unit) == ("<=", "800ms", "ms")
    assert (expression.baseline, expression.factor) == (False, 1.0)
    assert parse("cost < $2").unit == "$"


@pytest.mark.parametrize(
    ("op", "holds"),
    [("<", (1, 0, 0)), ("<=", (1, 1, 0)), (">", (0, 0, 1)), (">=", (0, 1, 1)), ("==", (0, 1, 0)), ("!=", (1, 0, 1))],
)
def test_every_comparison(op, holds):
    expression = parse(f"latency.p99 {op} 0.3")
    assert tuple(expression.holds(seen, 0.3) for seen in (0.29, 0.3, 0.1 + 0.2)) == holds


@pytest.mark.parametrize(
    ("text", "normal", "factor"),
    [
        ("latency.p99 <= baseline", "latency.p99 <= baseline", 1.0),
        ("latency.p99 <= baseline*1.10", "latency.p99 <= baseline * 1.10", 1.1),
        ("success_rate >= baseline * .98", "success_rate >= baseline * .98", 0.98),
    ],
)
def test_a_baseline_is_read(text, normal, factor):
    expression = parse(text)
    assert (str(expression), expression.factor, expression.threshold) == (normal, factor, None)
    assert parse(normal) == expression


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "an SLA line is empty; say what must hold, such as 'latency.p99 < 12s'"),
        (" \n", "an SLA line is empty; say what must hold, such as 'latency.p99 < 12s'"),
        ("latncy.p99 < 3s", "unknown metric 'latncy'; did you mean 'latency'?"),
        ("Latency.p99 < 3s", "unknown metric 'Latency'; did you mean 'latency'?"),
        ("latency p99 < 3s", "unknown metric 'latency p99'; did you mean 'latency.p99'?"),
        ("ttft_p95 < 3s", "unknown metric 'ttft_p95'; did you mean 'ttft.p95'?"),
        ("P99 < 3s", "unknown metric 'P99'; did you mean 'p99'?"),
        ("mean < 3s", "'mean' is a statistic, not a metric: say latency.mean"),
        (
            "p99 [plan] < 3s",
            "'p99' stands alone, for latency.p99; behind a call name it is a statistic: ttft[plan].p99",
        ),
        ("ttft[plan < 3s", "'ttft[plan' is no metric; say name[call name].statistic, such as ttft[plan].p95"),
        ("latency < 3s", "latency is a distribution: say latency.p99, latency.mean or latency.max"),
        ("ttft[plan] < 3s", "ttft is a distribution: say ttft.p99, ttft.mean or ttft.max"),
        ("latency. < 3s", "latency is a distribution: say latency.p99, latency.mean or latency.max"),
        ("success_rate.p99 > 90%", "success_rate is one number and has no statistics: leave '.p99' away"),
        ("latency.p100.1 < 3s", "'p100.1' of latency is outside p0 to p100"),
        ("success_rate >= 95", "success_rate is a share and never above 1: did you mean 95%?"),
        ("check.ok >= 1.5", "check.ok is a share and never above 1: did you mean 1.5%?"),
        ("success_rate >= 950", "'950' is above 100%, and success_rate never is"),
        ("success_rate >= 101%", "'101%' is above 100%, and success_rate never is"),
        ("success_rate >= -1%", "'-1%' is below 0, and success_rate never is"),
        ("latency.p99 < -3s", "'-3s' is below 0, and latency.p99 never is"),
        ("latency.p99 <", "'latency.p99 <' has no value behind '<': say 'latency.p99 < 3s'"),
        ("success_rate >", "'success_rate >' has no value behind '>': say 'success_rate > 95%'"),
        ("cost >", "'cost >' has no value behind '>': say 'cost > $0.10'"),
        ("throughput >", "'throughput >' has no value behind '>': say 'throughput > 40/s'"),
        ("tasks >", "'tasks >' has no value behind '>': say 'tasks > 10'"),
        ("my.x.p1 >", "'my.x.p1 >' has no value behind '>': say 'my.x.p1 > 10'"),
        ("latency.p99 < soon", "'soon' is not a number; latency.p99 is a time in ms, s, m or h"),
        ("latency.p99 < nan", "'nan' is not a number; latency.p99 is a time in ms, s, m or h"),
        ("success_rate < %", "'%' is not a number; success_rate is a share: 95% or 0.95"),
        ("< 3s", "'< 3s' names no metric before '<'; say 'latency.p99 < 12s'"),
        ("3s > latency.p99", "'3s > latency.p99' names no metric before '>'; say 'latency.p99 < 12s'"),
        (
            "latency.p99 3s",
            "'latency.p99 3s' compares nothing; say a metric, one of < <= > >= == != and a value: 'latency.p99 < 12s'",
        ),
        (
            "p99 < 3s and success_rate > 90%",
            "'p99 < 3s and success_rate > 90%' has more than one comparison; write each as a string of its own",
        ),
        ("1 < p99 < 3", "'1 < p99 < 3' has more than one comparison; write each as a string of its own"),
        ("p99 = 3s", "unknown comparison '=' in 'p99 = 3s'; allowed are < <= > >= == !=; did you mean '=='?"),
        ("p99 => 3s", "unknown comparison '=>' in 'p99 => 3s'; allowed are < <= > >= == !=; did you mean '>='?"),
        ("p99 =< 3s", "unknown comparison '=<' in 'p99 =< 3s'; allowed are < <= > >= == !=; did you mean '<='?"),
        ("p99 ≤ 3s", "unknown comparison '≤' in 'p99 ≤ 3s'; allowed are < <= > >= == !=; did you mean '<='?"),
        ("p99 << 3s", "unknown comparison '<<' in 'p99 << 3s'; allowed are < <= > >= == !="),
        ("p99 < 3S", "unknown unit 'S' in '3S'; allowed are ms, s, m, h; did you mean '3s'?"),
        ("p99 < 3 seconds", "unknown unit 'seconds' in '3 seconds'; allowed are ms, s, m, h; did you mean '3s'?"),
        ("p99 < 3min", "unknown unit 'min' in '3min'; allowed are ms, s, m, h; did you mean '3m'?"),
        ("p99 < 3,5s", "unknown unit ',5s' in '3,5s'; allowed are ms, s, m, h"),
        ("tasks > 3K", "unknown unit 'K' in '3K'; allowed are k, M; did you mean '3k'?"),
        ("throughput > 3rpm", "unknown unit 'rpm' in '3rpm'; allowed are /s, /min, k, M; did you mean '3/min'?"),
        ("throughput > 2k/s", "unknown unit 'k/s' in '2k/s'; allowed are /s, /min, k, M; did you mean '/s'?"),
        (
            "p99 < 3M",
            (
                "'3M' does not fit latency.p99, which is a time in ms, s, m or h;"
                " m is minutes and M is millions: did you mean '3m'?"
            ),
        ),
        (
            "calls > 3m",
            (
                "'3m' does not fit calls, which is a number, with k or M at most;"
                " m is minutes and M is millions: did you mean '3M'?"
            ),
        ),
        ("success_rate > 3M", "'3M' does not fit success_rate, which is a share: 95% or 0.95"),
        ("cost < 5%", "'5%' does not fit cost, which is an amount of US dollars: $0.10"),
        ("cost < $5$", "'$5$' does not fit cost, which is an amount of US dollars: $0.10"),
        ("cost < $5s", "'$5s' does not fit cost, which is an amount of US dollars: $0.10"),
        ("p99 < $5", "'$5' does not fit latency.p99, which is a time in ms, s, m or h"),
        ("throughput > 5s", "'5s' does not fit throughput, which is a rate in /s or /min"),
        ("tasks > 1e999", "'1e999' is too large a number"),
        ("tasks > 1e305M", "'1e305M' is too large a number"),
        (
            "latency[plan].p99 < 3s",
            f"latency is not told by call name, leave '[plan]' away; told by it are {', '.join(CALL_NAMED)}",
        ),
        ("errors[plan].timeout < 3", "errors is not told by call name: leave '[plan]' away"),
        ("my[plan].x.p9 < 3", "my is not told by call name: leave '[plan]' away"),
        ("ttft[].p95 < 3s", "ttft[] names no call: say ttft[plan] for the calls made with name='plan'"),
        ("errors < 3", f"errors needs an outcome; allowed are {', '.join(COUNTED_OUTCOMES)}"),
        (
            "errors.rate_limit < 3",
            (
                f"unknown outcome 'rate_limit' in errors.<outcome>; allowed are {', '.join(COUNTED_OUTCOMES)};"
                " did you mean 'rate_limited'?"
            ),
        ),
        ("check > 3%", "check needs a name: say check.grounded for agent.check('grounded', ...)"),
        ("check.ok.p95 > 3%", "check.ok is one number and has no statistics: leave '.p95' away"),
        ("my < 3", "my needs a name and a statistic: say my.score.mean for agent.record('score', ...)"),
        ("my.score < 3", "my.score is a distribution: say my.score.p99, my.score.mean or my.score.max"),
        ("my.score.p999 < 3", "'p999' of my.score is outside p0 to p100"),
        (
            "p99 < baseline + 3",
            "'baseline + 3' is no baseline; say 'baseline' or 'baseline * 1.1' with a factor above 0",
        ),
        (
            "p99 < 1.1 * baseline",
            "'1.1 * baseline' is no baseline; say 'baseline' or 'baseline * 1.1' with a factor above 0",
        ),
        (
            "p99 < baseline * 0",
            "'baseline * 0' is no baseline; say 'baseline' or 'baseline * 1.1' with a factor above 0",
        ),
    ],
)
def test_a_wrong_expression_is_refused_in_one_sentence(text, error):
    with pytest.raises(SettingError) as raised:
        parse(text)
    assert str(raised.value) == error


@pytest.mark.parametrize(
    ("text", "hint"),
    [("latency.median", "; did you mean 'mean'?"), ("latency.P99", "; did you mean 'p99'?"), ("my.x.avg", "")],
)
def test_an_unknown_statistic_lists_the_known_ones(text, hint):
    name, _, statistic = text.rpartition(".")
    with pytest.raises(SettingError) as raised:
        parse_metric(text)
    allowed = f"p0 to p100, {', '.join(WORD_STATISTICS)}"
    assert str(raised.value) == f"unknown statistic {statistic!r} of {name}; allowed are {allowed}{hint}"


def test_a_metric_like_no_other_lists_all_of_them():
    with pytest.raises(SettingError) as raised:
        parse("wibble < 3")
    for name in (*DISTRIBUTIONS, *SCALARS, "errors.<outcome>", "check.<name>", "my.<name>.<statistic>"):
        assert name in str(raised.value)


call_names = st.text(st.characters(blacklist_characters="[]", blacklist_categories=("Cs",)), min_size=1).filter(
    lambda name: name.strip() == name
)
statistics = st.one_of(
    st.sampled_from(WORD_STATISTICS),
    st.decimals(0, 100, places=2).map(lambda p: f"p{p.normalize():f}"),
)


@st.composite
def metrics(draw):
    kind = draw(st.sampled_from(["distribution", "scalar", "errors", "check", "my"]))
    if kind in ("distribution", "scalar"):
        name = draw(st.sampled_from(list(DISTRIBUTIONS if kind == "distribution" else SCALARS)))
        called = draw(st.none() | call_names) if name in CALL_NAMED else None
        return Metric(name, called, draw(statistics) if kind == "distribution" else None)
    if kind == "errors":
        return Metric(f"errors.{draw(st.sampled_from(COUNTED_OUTCOMES))}")
    own = draw(st.from_regex(r"[a-z_]{1,8}", fullmatch=True).filter(lambda name: name not in WORD_STATISTICS))
    return Metric(f"check.{own}") if kind == "check" else Metric(f"my.{own}", None, draw(statistics))


UNITS = {
    Dimension.SECONDS: ["", "ms", "s", "m", "h"],
    Dimension.SHARE: ["%"],
    Dimension.DOLLARS: ["", "$", "k", "M"],
    Dimension.PER_SECOND: ["", "/s", "/min", "k", "M"],
    Dimension.COUNT: ["", "k", "M"],
    Dimension.OWN: ["", "ms", "%", "/s", "M"],
}


@given(metrics(), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.data())
def test_what_is_told_is_read_back(metric, op, data):
    assert parse_metric(str(metric)) == metric
    number = data.draw(st.decimals(0, 100, places=3))
    expression = parse(f"{metric}{op}{number} {data.draw(st.sampled_from(UNITS[metric.dimension]))}")
    assert expression.metric == metric
    assert parse(str(expression)) == expression
    assert expression.threshold is not None
    assert math.isfinite(expression.threshold)


@given(st.text())
def test_any_text_is_read_or_refused_with_a_sentence(text):
    for read in (parse, parse_per_task):
        try:
            told = str(read(text))
        except SettingError as error:
            told = str(error)
        assert told


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("latency < 3s", TaskBound("", "latency", "<", 3.0)),
        ("ttft<=800 ms", TaskBound("", "ttft", "<=", 0.8)),
    ],
)
def test_a_bound_on_the_time_of_one_task(text, bound):
    read = parse_per_task(text)
    assert (read.kind, read.op, read.threshold, read.text) == (bound.kind, bound.op, bound.threshold, text)
    assert parse_per_task(str(read)) == read
    assert read.met(bound.threshold) == (bound.op == "<=")
    assert read.met(0.1)
    assert not read.met(math.nan)


@pytest.mark.parametrize("kind", ["json", "schema"])
def test_a_bound_on_the_replies_of_one_task(kind):
    read = parse_per_task(f" {kind}  valid ")
    assert (read.kind, str(read)) == (kind, f"{kind} valid")


KINDS = "latency < 3s, ttft < 800ms, json valid, schema valid"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", f"'' is no per-task bound; say one of {KINDS}"),
        ("jsn valid", f"'jsn valid' is no per-task bound; say one of {KINDS}; did you mean 'json valid'?"),
        ("latency.p99 < 3s", "a task has one latency, and a per-task bound no statistic: leave '.p99' away"),
        ("latency > 3s", "a per-task bound is an upper one: say 'latency < 3s', not '>'"),
        ("latency <", "'latency <' has no value behind '<': say 'latency < 3s'"),
        ("laten < 3s", "'laten' is no per-task bound; say latency or ttft; did you mean 'latency'?"),
        ("latency < 3%", "'3%' does not fit latency, which is a time in ms, s, m or h"),
    ],
)
def test_a_wrong_per_task_bound_is_refused_in_one_sentence(text, error):
    with pytest.raises(SettingError) as raised:
        parse_per_task(text)
    assert str(raised.value) == error
