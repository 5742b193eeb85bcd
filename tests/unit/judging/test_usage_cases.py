"""From what a gateway writes to dollars: the usage objects of `tests/cases`, read and priced."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from pytest_swarm.judging.prices import PriceTable
from pytest_swarm.reading.usage import read_usage

CASES = json.loads((Path(__file__).parents[2] / "cases" / "usage.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_what_a_gateway_writes_is_priced_to_the_digit(case):
    table = PriceTable({} if case["price_per_mtok"] is None else {"m": case["price_per_mtok"]})
    expected = case["expect"]["cost"]
    found = table.cost("m", read_usage(case["usage"], case["wire"]), None, "ok")
    assert found.amount == (None if expected is None else Decimal(expected))
    assert bool(found.reason) == (expected is None)
