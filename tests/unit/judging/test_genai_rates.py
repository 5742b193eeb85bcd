import sys
from datetime import date
from decimal import Decimal

import pytest

from pytest_swarm.judging.genai import genai_rates
from pytest_swarm.judging.prices import Cost, PriceTable
from pytest_swarm.records import Usage

DAY = date(2026, 6, 1)


@pytest.fixture
def prices():
    pytest.importorskip("genai_prices", reason="rates of public models need the optional package genai-prices")
    return PriceTable({}, genai_rates(DAY))


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        ("gpt-4o", Usage(10_000, 500, cached_tokens=8192), "0.01976"),
        ("openai/gpt-4o", Usage(10_000, 500, cached_tokens=8192), "0.01976"),
        ("my-proxy/openai/gpt-4o", Usage(10_000, 500, cached_tokens=8192), "0.01976"),
        ("gpt-5", Usage(2000, 1500, reasoning_tokens=1200), "0.0175"),
        ("claude-sonnet-4-5", Usage(188_107, 393, 0, 188_086), "0.7112805"),
        ("claude-sonnet-4-5", Usage(188_107, 393, 188_086), "0.0623838"),
        ("claude-sonnet-4-5", Usage(7100, 50, 4000, 3000, 2000), "0.018"),
        ("kimi-k2.5", Usage(10_000, 1000, 9000), "0.0045"),
        ("gpt-6-sol", Usage(272_000, 0), "0.544"),
        ("gpt-6-sol", Usage(272_001, 0), "1.088004"),
    ],
)
def test_a_public_model_is_priced_to_the_digit(prices, model, usage, dollars):
    assert prices.cost(model, usage, 99.0, "ok") == Cost(Decimal(dollars), "genai-prices")


def test_an_unknown_model_is_what_the_gateway_reports(prices):
    assert prices.cost("house-model", Usage(1, 1), 0.5, "ok") == Cost(Decimal("0.5"), "reported")
    assert prices.cost("openai/house-model", Usage(1, 1), None, "ok").amount is None


def test_a_provider_without_a_cache_rate_leaves_cached_tokens_unknown(prices):
    found = prices.cost("openrouter/openai/gpt-4o", Usage(10, 10, cached_tokens=5), None, "ok")
    assert found == Cost(None, None, "cache rate unknown for model 'openrouter/openai/gpt-4o'")


def test_the_users_table_goes_before(prices):
    table = PriceTable({"gpt-4o": {"input": 1, "output": 1}}, genai_rates(DAY))
    assert table.cost("gpt-4o", Usage(1_000_000, 0), None, "ok") == Cost(Decimal(1), "table")


def test_without_the_package_there_is_no_such_source(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    assert genai_rates(DAY) is None
