import sys
from datetime import date
from decimal import Decimal
from types import SimpleNamespace

import pytest

from pytest_swarm.judging.genai import GenaiRates
from pytest_swarm.judging.prices import Cost, PriceTable
from pytest_swarm.records import Usage

DAY = date(2026, 6, 1)
TIERS_DAY = date(2026, 11, 1)
"""After the day from which the data knows service tiers."""


@pytest.fixture(scope="module")
def rates():
    return GenaiRates(DAY)


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        ("gpt-4o", Usage(10_000, 500, cached_tokens=8192), "0.01976"),
        ("openai/gpt-4o", Usage(10_000, 500, cached_tokens=8192), "0.01976"),
        ("my-proxy/openai/GPT-4o", Usage(10_000, 500, cached_tokens=8192), "0.01976"),
        ("azure/gpt-4o", Usage(10_000, 500, cached_tokens=8192), "0.01976"),
        ("gpt-5", Usage(2000, 1500, reasoning_tokens=1200), "0.0175"),
        ("claude-sonnet-4-5", Usage(188_107, 393, 0, 188_086), "0.7112805"),
        ("claude-sonnet-4-5", Usage(188_107, 393, 188_086), "0.0623838"),
        ("claude-sonnet-4-5", Usage(7100, 50, 4000, 3000, 2000), "0.018"),
        ("claude-sonnet-4-5-20250929", Usage(7100, 50, 4000, 3000, 2000), "0.018"),
        ("kimi-k2.5", Usage(10_000, 1000, 9000), "0.0045"),
        ("moonshot/kimi-k2.5", Usage(10_000, 1000, 9000), "0.0045"),
        ("gpt-6-sol", Usage(272_000, 0), "0.544"),
        ("gpt-6-sol", Usage(272_001, 0), "1.088004"),
    ],
)
def test_a_public_model_is_priced_to_the_digit(rates, model, usage, dollars):
    assert PriceTable({}, rates).cost(model, usage, 99.0, "ok") == Cost(Decimal(dollars), "genai-prices")


@pytest.mark.parametrize(
    "model",
    [
        "house-model",
        "openai/house-model",
        "house/gpt-4o",
        "groq/gpt-4o",
        "claude-sonnet-4-5-mine",
        "claude-sonnet-4-5-99999999",
        "my-gpt-4o",
        "gpt-6-agent",
        "kimi-k2.5-swarm",
        "anthropic-proxy/claude-sonnet-4-5",
        "openai/",
        "",
    ],
)
def test_a_name_that_only_looks_like_a_public_one_is_not_priced(rates, model):
    assert rates.find(model) is None


def test_an_unknown_model_is_what_the_gateway_reports(rates):
    assert PriceTable({}, rates).cost("house-model", Usage(1, 1), 0.5, "ok") == Cost(Decimal("0.5"), "reported")


def test_at_a_providers_own_address_its_rates_hold_and_no_others():
    there = GenaiRates(DAY, "https://openrouter.ai/api/v1")
    assert there.find("moonshotai/kimi-k2.5") == GenaiRates(DAY).find("openrouter/moonshotai/kimi-k2.5")
    assert there.find("moonshotai/kimi-k2.5") != GenaiRates(DAY).find("moonshotai/kimi-k2.5")
    assert there.find("gpt-4o") is None


def test_a_provider_without_a_cache_rate_leaves_cached_tokens_unknown(rates):
    model = "openrouter/openai/gpt-4o"
    found = PriceTable({}, rates).cost(model, Usage(10, 10, cached_tokens=5), None, "ok")
    reason = f"cache rate unknown for model '{model}': add [tool.pytest_swarm.prices.\"{model}\"] with cache_read"
    assert found == Cost(None, None, reason)


@pytest.mark.parametrize(
    ("tier", "dollars"), [(None, "11.25"), ("flex", "5.625"), ("batch", "5.625"), ("priority", "22.5")]
)
def test_service_tiers_are_priced_by_their_own_rates(tier, dollars):
    usage = Usage(1_000_000, 1_000_000, service_tier=tier)
    assert GenaiRates(TIERS_DAY).find("gpt-5").price(usage) == Decimal(dollars)


def test_a_service_tier_counts_from_the_day_on_which_it_is_known(rates):
    assert rates.find("gpt-5").services == ()


def test_the_day_decides_which_price_holds():
    assert GenaiRates(date(2025, 6, 9)).find("o3").base.input == 10
    assert GenaiRates(date(2025, 6, 10)).find("o3").base.input == 2


def test_a_model_that_charges_more_than_tokens_is_not_priced(monkeypatch):
    prices = SimpleNamespace(input_mtok=Decimal(1), output_mtok=Decimal(1), requests_kcount=Decimal(5))
    model = SimpleNamespace(
        id="m", match=SimpleNamespace(equals="n"), price_variants=None, get_prices=lambda when: prices
    )
    provider = SimpleNamespace(id="p", api_pattern="x://", models=[model], fallback_model_providers=None)
    snapshot = SimpleNamespace(get_snapshot=lambda: SimpleNamespace(providers=[provider]))
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", snapshot)
    assert GenaiRates(DAY).find("p/n") is None
    prices.requests_kcount = None
    assert GenaiRates(DAY).find("p/n").base.input == 1


def test_the_users_table_goes_before(rates):
    table = PriceTable({"gpt-4o": {"input": 1, "output": 1}}, rates)
    assert table.cost("gpt-4o", Usage(1_000_000, 0), None, "ok") == Cost(Decimal(1), "table")


def test_without_the_package_no_model_is_known(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    assert GenaiRates(DAY).find("gpt-4o") is None


def test_the_note_names_day_and_version(rates):
    assert rates.note.startswith("prices of public models as of 2026-06-01 (genai-prices ")
