"""Models side by side, and by how much the better one is better."""

import pytest
import report_samples as samples

from pytest_swarm.reports.compare import COMPARED, compare


def rows_of(*each):
    """The rows of a comparison of the models a, b, c, ... with these changed metrics."""
    records = [
        samples.model(name, metrics=samples.metrics(**changed)) for name, changed in zip("abc", each, strict=False)
    ]
    [table] = compare(records)
    return {row["metric"]: row for row in table["rows"]}


def test_the_table_has_every_metric_in_order_with_a_value_for_every_model():
    [table] = compare(samples.COMPARED)
    assert table["test"] == "tests/test_summary.py::test_summarise"
    assert table["simulated"] is False
    assert [row["metric"] for row in table["rows"]] == [metric for metric in COMPARED if metric != "ttft.p50"]
    assert table["rows"][0] == {
        "metric": "latency.p50",
        "values": {"gpt-6-agent": 1.833, "kimi-k2.5-swarm": 2.315},
        "best": "gpt-6-agent",
        "advantage": "26% faster",
    }


@pytest.mark.parametrize(
    ("metric", "a", "b", "best", "advantage"),
    [
        ("latency.p95", 2.0, 1.0, "b", "2.0x faster"),
        ("latency.p95", 1.0, 1.26, "a", "26% faster"),
        ("latency.p95", 1.0, 1.004, None, "equal"),
        ("latency.p95", 0.0, 1.0, "a", "faster"),
        ("latency.p95", 0.0, 0.0, None, "equal"),
        ("success_rate", 0.96, 0.98, "b", "+2.0 points"),
        ("success_rate", 0.96, 0.9604, None, "equal"),
        ("throughput", 40.0, 50.0, "b", "25% more"),
        ("steady_throughput", 120.0, 40.0, "a", "3.0x more"),
        ("cost_per_100", 0.03, 0.04, "a", "25% cheaper"),
        ("cost_per_100", 0.08, 0.04, "b", "2.0x cheaper"),
        ("cost_per_100", 0.0, 0.04, "a", "cheaper"),
        ("output_tokens.mean", 100.0, 500.0, None, ""),
        ("latency.p99", None, 1.0, None, ""),
        ("latency.p99", None, None, None, ""),
    ],
)
def test_the_better_model_and_its_lead(metric, a, b, best, advantage):
    row = rows_of({metric: a}, {metric: b})[metric]
    assert (row["values"], row["best"], row["advantage"]) == ({"a": a, "b": b}, best, advantage)


def test_of_three_models_the_best_is_compared_with_the_next():
    row = rows_of({"latency.p50": 3.0}, {"latency.p50": 1.0}, {"latency.p50": 1.5})["latency.p50"]
    assert (row["best"], row["advantage"]) == ("b", "50% faster")


def test_an_unknown_model_is_not_compared_and_the_others_are():
    row = rows_of({"latency.p50": None}, {"latency.p50": 2.0}, {"latency.p50": 1.0})["latency.p50"]
    assert (row["best"], row["advantage"]) == ("c", "2.0x faster")


def test_time_to_first_token_is_left_out_only_when_nobody_streamed():
    assert "ttft.p50" not in rows_of({"ttft.p50": None}, {"ttft.p50": None})
    assert rows_of({"ttft.p50": None}, {"ttft.p50": 0.2})["ttft.p50"]["best"] is None


def test_one_model_and_tests_without_models_have_no_table():
    assert compare([]) == []
    assert compare([samples.PASSED, samples.FAILED]) == []
    assert compare(samples.COMPARED[:1]) == []


@pytest.mark.parametrize("verdict", ["skipped", "error", "interrupted"])
def test_what_did_not_run_to_its_end_is_not_compared(verdict):
    assert compare([samples.COMPARED[0], {**samples.COMPARED[1], "verdict": verdict}]) == []


def test_a_failed_test_is_compared():
    assert len(compare([samples.COMPARED[0], {**samples.COMPARED[1], "verdict": "fail"}])) == 1


def test_simulated_figures_are_marked():
    [table] = compare([samples.COMPARED[0], {**samples.COMPARED[1], "simulated": "simulated gateway, virtual time"}])
    assert table["simulated"] is True


def with_ids(*nodes):
    return [
        samples.record(nodeid=f"t.py::test[{ids}]", test="t.py::test", param_model=model, metrics=samples.metrics())
        for ids, model in nodes
    ]


def tables(*nodes):
    return {table["test"]: list(table["rows"][0]["values"]) for table in compare(with_ids(*nodes))}


def test_other_parameters_make_tables_of_their_own():
    found = tables(("short-gpt-6", "gpt-6"), ("long-gpt-6", "gpt-6"), ("short-kimi", "kimi"), ("long-kimi", "kimi"))
    assert found == {"t.py::test[short]": ["gpt-6", "kimi"], "t.py::test[long]": ["gpt-6", "kimi"]}


def test_parameters_on_both_sides_of_the_model_belong_together():
    assert tables(("a-gpt-1", "gpt"), ("a-kimi-1", "kimi")) == {"t.py::test[a-1]": ["gpt", "kimi"]}


def test_models_are_not_compared_across_other_parameters():
    assert tables(("short-gpt-6", "gpt-6"), ("long-kimi", "kimi")) == {}


def test_the_model_is_found_as_a_whole_word_only():
    found = tables(("gpt-6-mini-gpt-6", "gpt-6-mini"), ("gpt-6-gpt-6", "gpt-6"))
    assert found == {"t.py::test[gpt-6]": ["gpt-6-mini", "gpt-6"]}


def test_own_ids_are_compared_when_every_model_ran_once():
    assert tables(("cheap", "gpt"), ("fast", "kimi")) == {"t.py::test": ["gpt", "kimi"]}


def test_own_ids_with_other_parameters_are_not_guessed_at():
    assert tables(("cheap-1", "gpt"), ("cheap-2", "gpt"), ("fast-1", "kimi"), ("fast-2", "kimi")) == {}


def test_of_a_test_that_ran_again_the_last_run_counts():
    [table] = compare([*samples.COMPARED, samples.model("gpt-6-agent", metrics=samples.metrics(latency__p50=9.0))])
    assert table["rows"][0]["values"]["gpt-6-agent"] == 9.0
