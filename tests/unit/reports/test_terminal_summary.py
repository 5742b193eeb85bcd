"""What the terminal shows, compared with transcripts in `golden/`.

After a wanted change, look at the new transcripts and keep them::

    RENEW_GOLDEN=1 python -m pytest tests/unit/reports/test_terminal_summary.py
"""

import os
from pathlib import Path

import pytest
import report_samples as samples
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.reports.block import block_lines
from pytest_swarm.reports.choice import margin
from pytest_swarm.reports.figures import cells
from pytest_swarm.reports.layout import flow, table, wrapped
from pytest_swarm.reports.terminal import write_summary

GOLDEN = Path(__file__).parent / "golden"
EVERY = [samples.PASSED, samples.FAILED, samples.INVALID, samples.SIMULATED, samples.SKIPPED]
SCENES = {
    "pass": [samples.PASSED],
    "fail": [samples.FAILED],
    "invalid": [samples.INVALID],
    "simulated": [samples.SIMULATED],
    "comparison": samples.COMPARED,
    "projection": samples.PROJECTED,
    "workloads": samples.FITTED,
    "several": [samples.PASSED, samples.SKIPPED, samples.SIMULATED],
}


class Paper:
    """A terminal that remembers."""

    def __init__(self, width=80):
        self.width = width
        self.lines = []

    def section(self, title):
        self.lines.append((f" {title} ".center(self.width, "="), {}))

    def write_line(self, text, **markup):
        self.lines.append((text, markup))

    @property
    def text(self):
        return "".join(f"{text}\n" for text, _ in self.lines)


def written(records, width=80, **more):
    paper = Paper(width)
    write_summary(paper, records, **more)
    return paper


@pytest.mark.parametrize("scene", SCENES)
def test_the_transcript_at_80_columns(scene):
    golden = GOLDEN / f"{scene}.txt"
    text = written(SCENES[scene], project_to=1_000_000 if scene == "projection" else None).text
    if os.environ.get("RENEW_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_nothing_is_written_when_no_swarm_ran():
    assert written([]).lines == []


@pytest.mark.parametrize("width", [50, 72, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_or_than_the_eye_follows(width):
    wide = samples.record(
        notes=["日本語のメモ" * 30, "x" * 300],
        failures=[{"kind": "task", "outcome": "failed", "count": 1, "example": "応答が壊れています" * 20}],
    )
    paper = written([*EVERY, *samples.COMPARED, *samples.PROJECTED, *samples.FITTED, wide], width, project_to=10**8)
    assert max(cells(text) for text, markup in paper.lines if not text.startswith("=")) <= min(width, 120)


def test_a_terminal_of_no_width_still_gets_whole_columns():
    assert "p50 1.84s   p95 4.68s   p99 9.03s" in written([samples.FAILED], 10).text


def test_every_verdict_has_its_colour_and_simulated_ones_say_so():
    def head(**changed):
        return next(iter(block_lines(samples.record(**changed), 80)))

    assert head(verdict="pass").markup == {"green": True, "bold": True}
    for verdict in ("fail", "error", "interrupted"):
        assert head(verdict=verdict).markup == {"red": True, "bold": True}
    for verdict in ("invalid", "skipped"):
        assert head(verdict=verdict).markup == {"yellow": True, "bold": True}
    assert head(simulated="simulated gateway, virtual time").text.endswith(" PASS (SIMULATED)")


def test_service_levels_are_coloured_by_their_verdict():
    coloured = {text.split()[-4 if "sla" in text else 0]: markup for text, markup in written([samples.FAILED]).lines}
    assert coloured["FAIL"] == {"red": True}
    assert coloured["pass"] == {"green": True}


def test_the_source_of_simulated_figures_is_loud():
    [(text, markup)] = [line for line in written([samples.SIMULATED]).lines if "source" in line[0]]
    assert "SIMULATED" in text
    assert markup == {"yellow": True, "bold": True}


def test_a_simulated_gateway_behind_a_real_address_is_loud_too():
    served = samples.record(simulated="simulated gateway at http://127.0.0.1:8000/v1, speed 10")
    text = written([served]).text
    assert "SIMULATED: simulated gateway at http://127.0.0.1:8000/v1, speed 10;" in text
    assert "live" not in text


def test_a_value_that_rounds_to_its_threshold_is_told_with_more_digits():
    def shown(metric, observed, threshold):
        return written(
            [samples.record(sla=[samples.level("x < y", metric=metric, observed=observed, threshold=threshold)])]
        ).text

    assert " 12.004s\n" in shown("latency.p99", 12.004, 12.0)
    assert " 95.996%\n" in shown("success_rate", 0.95996, 0.96)
    assert " 40.04/s\n" in shown("throughput", 40.04, 40.01)
    assert " 0.10001\n" in shown("cost", 0.10001, 0.1)
    assert " 12.0s\n" in shown("latency.p99", 12.0, 12.0)


def test_a_bound_is_told_on_the_side_the_service_level_asks_for():
    both = {"lower": 7.9, "upper": 11.2}
    record = samples.record(sla=[samples.level("p99 < 12s", **both), samples.level("p99 > 1s", **both)])
    text = written([record]).text
    assert "p99 < 12s   9.03s   <= 11.2s at 95 %" in text
    assert "p99 > 1s    9.03s   >= 7.90s at 95 %" in text


def test_what_stands_beside_a_service_level_is_not_said_again():
    text = written([samples.FAILED, samples.INVALID]).text
    assert "it is 9.001s" not in text
    assert text.count("no price for model 'house-model'") == 1
    assert "  why       6 of 60 tasks did not pass (6 failed)" in text


def test_unknown_figures_are_called_unknown():
    for empty in (samples.record(metrics={}), samples.SKIPPED):
        assert "latency" not in written([empty]).text
    text = written([samples.record(metrics=dict.fromkeys(samples.METRICS))]).text
    assert "p50 unknown   p95 unknown   p99 unknown" in text
    assert "unknown of unknown tasks   throughput unknown" in text
    assert "  cost      unknown\n" in text


def test_what_is_wrong_with_json_is_told_with_an_example_where_that_says_more():
    wrong = [
        {"error": "$.n: is not of type 'number'", "count": 1200, "example": "$.n: 'many' is not of type 'number'"},
        {"error": "$: 'n' is a required property", "count": 1, "example": "$: 'n' is a required property"},
    ]
    texts = [text for text, _ in written([samples.record(json_errors=wrong)], width=110).lines]
    (at,) = [position for position, text in enumerate(texts) if text.startswith("  json ")]
    assert texts[at].split(maxsplit=1)[1] == (
        "1,200 replies   $.n: is not of type 'number'   such as $.n: 'many' is not of type 'number'"
    )
    assert texts[at + 1].strip() == "1 reply   $: 'n' is a required property"


@pytest.mark.parametrize(
    ("sources", "label"),
    [
        ({"table": 3}, None),
        ({"reported": 3}, "as the gateway reports"),
        ({"table": 3, "reported": 1}, "1 call as the gateway reports"),
    ],
)
def test_a_cost_that_is_the_gateways_word_is_labelled(sources, label):
    [line] = [line for line in written([samples.record(cost_sources=sources)]).lines if line[0].startswith("  cost ")]
    assert line[0].endswith("per 100 tasks" if label is None else f"per 100 tasks   {label}")


def test_the_plan_is_told_in_its_own_words():
    def plan(**plan):
        lines = written([samples.record(plan=plan)]).text.splitlines()
        return next(line[12:] for line in lines if line.startswith("  plan"))

    assert plan(tasks=1000, concurrency="8..256") == "1,000 tasks   8..256 in flight (50 reached)"
    assert plan(tasks=None, concurrency=None, rate="40/s", duration=90.0) == (
        "40/s   for 1m30s   any number in flight (50 reached)"
    )
    assert plan(tasks=None, concurrency=80, stages=[[30.0, 50], [60.0, 80]]) == (
        "30s to 50, 1m00s to 80   80 in flight (50 reached)"
    )
    assert plan(tasks=20, concurrency=100) == "20 tasks   20 in flight: tasks=20 (50 reached)"
    assert (
        plan(tasks=1, concurrency=1, repeat=5, warmup=3) == "1 task   1 in flight (50 reached)   3 to warm up   5 runs"
    )


def test_control_characters_of_an_example_do_not_reach_the_terminal():
    hostile = {"kind": "call", "outcome": "server_error", "count": 2, "example": "500 \x1b[31mred\x07\r\nnext\tline"}
    text = written([samples.record(failures=[hostile])]).text
    assert "2 calls   server_error   500 ?[31mred? next line" in text


def side_by_side(names, width):
    """The lines of the comparison of models that are the slower the later they are named."""
    records = [samples.model(name, metrics=samples.metrics(latency__p50=1 + 0.5 * n)) for n, name in enumerate(names)]
    lines = [text for text, _ in written(records, width).lines]
    return lines[next(n for n, line in enumerate(lines) if "side by side" in line) + 1 :]


def test_models_that_do_not_fit_beside_each_other_follow_below():
    lines = side_by_side([f"model-{letter}" for letter in "abcdef"], 80)
    heads = [line.split() for line in lines if "model-" in line]
    assert heads == [["model-a", "model-b", "model-c", "model-d"], ["model-e", "model-f"]]
    assert [line.split() for line in lines if line.startswith("  p50")] == [
        ["p50", "1.00s", "*", "1.50s", "2.00s", "2.50s", "50%", "faster"],
        ["p50", "3.00s", "3.50s"],
    ]


def test_long_names_of_models_are_numbered_so_that_they_stay_apart():
    lines = side_by_side([f"a-vendor/a-model-with-a-long-name-{letter}-and-more" for letter in "ab"], 80)
    assert lines[1:4] == [
        "  (1) a-vendor/a-model-with-a-long-name-a-and-more",
        "  (2) a-vendor/a-model-with-a-long-name-b-and-more",
        "                          (1)         (2)",
    ]


def test_a_comparison_of_simulated_models_says_so():
    compared = [{**record, "simulated": "simulated gateway, virtual time"} for record in samples.COMPARED]
    assert ("  SIMULATED: figures of simulated gateways, not of models", {"yellow": True, "bold": True}) in written(
        compared
    ).lines


def test_every_table_of_simulated_models_says_so():
    records = [{**record, "simulated": "simulated gateway, virtual time"} for record in samples.FITTED[:2]]
    text = written(records, project_to=1000).text
    assert text.count("LLM swarm: ") == 3
    assert text.count("  SIMULATED: figures of simulated gateways, not of models") == 3


def test_no_projection_is_told_unless_one_was_asked_for():
    assert "projected" not in written(samples.PROJECTED).text
    assert "projected" not in written([samples.SKIPPED], project_to=1000).text


def test_a_workload_is_green_where_a_model_meets_it_and_red_where_all_fail():
    failing = [samples.fitted(name, 1.31, 0.082) for name in "ab"]
    for records, colour in ((samples.FITTED[:2], "green"), (failing, "red")):
        [markup] = [markup for text, markup in written(records).lines if text.startswith("  realtime-chat")]
        assert markup == {colour: True, "bold": True}
    [markup] = [markup for text, markup in written(failing).lines if text.startswith("  regulated")]
    assert markup == {"yellow": True, "bold": True}


def test_tests_of_one_model_have_workloads_where_no_test_has_a_choice():
    text = written(samples.FITTED[2:]).text
    assert "tests/test_a.py::test_one_model\n  margin" in text
    assert "left out" not in text


def test_models_that_do_not_fit_beside_each_other_have_their_workloads_below():
    records = [samples.fitted(f"model-{letter}", 0.6, 0.04) for letter in "abcd"]
    lines = written(records).text.split("which model for which workload")[1].splitlines()
    heads = [line.split() for line in lines if "model-" in line]
    assert heads == [["model-a", "model-b", "model-c"], ["model-d"]]
    assert sum(line.startswith("  realtime-chat") for line in lines) == 2


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.25, "+25%"),
        (-1.25, "-125%"),
        (0.083, "+8.3%"),
        (-0.0004, "-0.0%"),
        (0.0, "+0%"),
        (9.99, "+999%"),
        (-40, "-40x"),
    ],
)
def test_a_margin_keeps_its_sign(fraction, text):
    assert margin(fraction) == text


@given(st.lists(st.text(max_size=30), max_size=8), st.integers(10, 60))
def test_items_side_by_side_keep_order_and_width(items, width):
    lines = flow(items, width)
    assert all(cells(line) <= width for line in lines)
    if all(cells(item) <= width for item in items):
        assert "".join(lines).replace(" ", "") == "".join(items).replace(" ", "")


@given(st.text(max_size=400), st.integers(10, 60), st.integers(1, 5))
def test_prose_is_wrapped_between_words_and_bounded(text, width, most):
    lines = wrapped(text, width, most)
    assert len(lines) <= most
    assert all(cells(line) <= width for line in lines)


@given(st.lists(st.tuples(st.text("ab日", max_size=9), st.text("ab日", max_size=9)), min_size=1, max_size=5))
def test_columns_of_a_table_line_up(rows):
    for line, (left, right) in zip(table(rows, "><"), rows, strict=True):
        first = max(cells(row[0]) for row in rows)
        assert line == (" " * (first - cells(left)) + left + "   " + right).rstrip()
