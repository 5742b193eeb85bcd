"""What the terminal says of a cost ceiling."""

from decimal import Decimal

import pytest
import report_samples as samples

from pytest_swarm.reports.block import block_lines
from pytest_swarm.reports.ceiling import ceiling_lines
from pytest_swarm.reports.terminal import write_summary
from pytest_swarm.traffic.budget import Account, Standing


def standing(**sums):
    money = {name: Decimal(str(value)) if isinstance(value, float) else value for name, value in sums.items()}
    return Standing("--swarm-max-cost", Decimal(2), Account(**money)).to_dict()


def shown(width=100, **sums):
    return [line.text for line in ceiling_lines(standing(**sums), width)]


def test_it_tells_what_was_spent_beside_what_was_reserved_at_worst():
    assert shown(spent=0.25, requests=1, estimated=1.5) == [
        "  ceiling   $0.25 of $2.00 spent (--swarm-max-cost)   1 request, $1.50 at worst"
    ]


@pytest.mark.parametrize(
    ("sums", "said", "markup"),
    [
        ({"refused": 3}, "3 not sent", {"yellow": True}),
        (
            {"spent": 2.5, "guessed": 4, "dearer": 1},
            "OVERSPENT by $0.50: the worst case of 4 requests was a guess (no max_tokens, for example;",
            {"red": True},
        ),
        (
            {"spent": 2.5, "dearer": 2},
            "OVERSPENT by $0.50: 2 requests cost more than what was sent allows",
            {"red": True},
        ),
        (
            {"spent": 1.0, "unknown": 1, "unknown_cost": 0.5},
            "$0.50 of it is the worst case of 1 request whose cost",
            {},
        ),
        ({"reserved": 0.5, "under_way": 1}, "$0.50 more was reserved for requests that never ended", {}),
    ],
)
def test_what_there_is_to_know_is_said(sums, said, markup):
    lines = list(ceiling_lines(standing(**sums), 120))
    assert any(said in line.text for line in lines)
    assert all(line.markup == markup for line in lines)


def test_a_test_tells_its_own_ceiling_and_the_summary_that_of_all_tests():
    own = samples.record(ceiling=standing(spent=0.25, requests=1, estimated=1.5))
    assert sum("of $2.00 spent" in line.text for line in block_lines(own, 80)) == 1
    assert not any("ceiling" in line.text for line in block_lines(samples.PASSED, 80))

    class Paper:
        width = 80

        def __init__(self):
            self.lines = []

        def section(self, title):
            self.lines.append(title)

        def write_line(self, text, **markup):
            self.lines.append(text)

    paper = Paper()
    write_summary(paper, [samples.PASSED], ceiling=standing(spent=1.75, requests=9, estimated=1.9))
    start = paper.lines.index("all tests")
    assert paper.lines[start + 1].startswith("  ceiling   $1.75 of $2.00 spent (--swarm-max-cost)")


@pytest.mark.parametrize("width", [50, 80, 120])
def test_no_line_is_wider_than_the_terminal(width):
    sums = {
        "spent": 2.5,
        "guessed": 4,
        "refused": 9,
        "unknown": 2,
        "unknown_cost": 1.0,
        "reserved": 0.5,
        "requests": 99,
    }
    assert max(map(len, shown(width, **sums))) <= width
