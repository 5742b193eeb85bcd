"""The baseline in a test's summary, and what of it is noted."""

from pytest_swarm.reports.baselined import baseline_lines
from pytest_swarm.reports.block import block_lines
from tests.unit.reports.report_samples import record


def moved(baseline, now, p=None, significant=None):
    change = now / baseline - 1 if baseline else None
    return {"baseline": baseline, "now": now, "change": change, "p": p, "test": None, "significant": significant}


COMPARED = {
    "file": "main.json",
    "created": "2026-11-01T00:00:00Z",
    "verdict": "pass",
    "missing": None,
    "differences": [],
    "metrics": {
        "latency.p50": moved(1.84, 2.12, 0.0004, True),
        "latency.p95": moved(4.7, 4.7, 0.81, False),
        "success_rate": moved(0.0, 0.9, 1.0, False),
        "throughput": moved(38.2, 33.1),
        "calls": moved(1, 2),
    },
    "distributions": {
        "latency": {"ratio": 1.152, "p": 0.002, "significant": True},
        "ttft": {"ratio": None, "p": 0.2, "significant": False},
    },
}


def test_main_figures_stand_beside_those_of_the_baseline():
    assert baseline_lines(COMPARED, 68) == [
        "main.json of 2026-11-01T00:00:00Z",
        "                   then      now   change   chance",
        "latency.p50       1.84s    2.12s   +15.2%   p < 0.001 *",
        "latency.p95       4.70s    4.70s     same   p = 0.81",
        "success_rate       0.0%    90.0%            p = 1",
        "throughput       38.2/s   33.1/s   -13.4%   -",
        "all of latency                     +15.2%   p = 0.002 *",
        "* more than chance may do; -: one figure each, and so no test",
    ]


def test_the_table_is_part_of_the_summary_of_a_test():
    lines = [line.text for line in block_lines(record(baseline=COMPARED), 80)]
    at = lines.index("  baseline  main.json of 2026-11-01T00:00:00Z")
    assert lines[at + 2] == "            latency.p50       1.84s    2.12s   +15.2%   p < 0.001 *"
    assert all(len(line) <= 80 for line in lines)
    assert not any("baseline" in line.text for line in block_lines(record(), 80))


def test_a_baseline_without_the_test_says_so():
    missing = {**COMPARED, "created": None, "missing": "main.json has no test 'x'", "metrics": {}, "distributions": {}}
    assert baseline_lines(missing, 68) == ["main.json does not have this test"]


def test_a_report_without_a_date_is_named_alone():
    assert baseline_lines({**COMPARED, "created": None}, 68)[0] == "main.json"
