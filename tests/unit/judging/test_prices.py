from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.errors import SettingError
from pytest_swarm.judging.prices import NOT_BILLED, Cost, PriceTable
from pytest_swarm.judging.rates import Rates, Tariff
from pytest_swarm.records import CALL_OUTCOMES, REPLY_OUTCOMES, Usage

WRITTEN = {"input": 2.5, "output": "10"}

KNOWN = [
    (
        "cached tokens inside the prompt",
        {"input": "2.5", "cache_read": "1.25", "output": "10"},
        Usage(10_000, 500, 8192),
        "0.01976",
    ),
    (
        "reasoning inside the output",
        {"input": "1.25", "output": "10"},
        Usage(2000, 1500, reasoning_tokens=1200),
        "0.0175",
    ),
    ("a part of it", {"input": "1", "output": "2"}, Usage(500, 500, reasoning_tokens=200), "0.0015"),
    ("few cached", {"input": "0.6", "cache_read": "0.1", "output": "3"}, Usage(19, 21, 10), "0.0000694"),
    ("most cached", {"input": "0.8", "cache_read": "0.08", "output": "4"}, Usage(2459, 23, 2455), "0.0002916"),
    (
        "written to the cache",
        {"input": "3", "cache_read": "0.3", "cache_write": "3.75", "output": "15"},
        Usage(12_307, 550, 0, 12_304),
        "0.054399",
    ),
    (
        "written and read",
        {"input": "2", "cache_read": "0.2", "cache_write": "2.5", "output": "10"},
        Usage(2600, 10, 2000, 400),
        "0.0019",
    ),
    ("plain", {"input": "1", "output": "1"}, Usage(5, 1), "0.000006"),
    (
        "a tier",
        {"input": "2", "output": "10", "tiers": [{"above": 272_000, "input": "4", "output": "15"}]},
        Usage(272_001, 0),
        "1.088004",
    ),
    (
        "a long prompt written to the cache",
        {"input": 3, "cache_read": 0.3, "cache_write": 3.75, "output": 15},
        Usage(188_107, 393, 0, 188_086),
        "0.7112805",
    ),
    (
        "the same prompt read from it",
        {"input": 3, "cache_read": 0.3, "cache_write": 3.75, "output": 15},
        Usage(188_107, 393, 188_086),
        "0.0623838",
    ),
    (
        "both lifetimes of a cache",
        {"input": 3, "cache_read": "0.3", "cache_write": "3.75", "cache_write_1h": 6, "output": 15},
        Usage(7100, 50, 4000, 3000, 2000),
        "0.018",
    ),
    ("cached and cheap", {"input": 0.6, "cache_read": 0.1, "output": 3}, Usage(10_000, 1000, 9000), "0.0045"),
    ("reasoning apart", {"input": 1, "output": 2, "reasoning": 8}, Usage(0, 100, reasoning_tokens=75), "0.00065"),
    ("reasoning untold", {"input": 1, "output": 2, "reasoning": 8}, Usage(0, 100), "0.0002"),
    ("free", {"input": 0, "output": 0}, Usage(10, 10), "0"),
]


def price(rates, usage, model="m"):
    return PriceTable({"m": rates}).cost(model, usage, None, "ok").amount


@pytest.mark.parametrize(
    ("rates", "usage", "dollars"), [known[1:] for known in KNOWN], ids=[known[0] for known in KNOWN]
)
def test_usage_is_priced_to_the_digit(rates, usage, dollars):
    assert price(rates, usage) == Decimal(dollars)


def test_the_whole_prompt_picks_the_tier():
    rates = {
        "input": 2,
        "output": 10,
        "cache_read": "0.2",
        "tiers": [{"above": 400_000, "input": 8}, {"above": 272_000, "input": 4, "output": 15}],
    }
    assert price(rates, Usage(272_000, 0)) == Decimal("0.544")
    assert price(rates, Usage(272_001, 0)) == Decimal("1.088004")
    assert price(rates, Usage(272_001, 1000)) == Decimal("1.103004")
    # A tier changes what it names and nothing else.
    assert price(rates, Usage(400_001, 1000, cached_tokens=1)) == Decimal("3.2100002")


@pytest.mark.parametrize(
    ("usage", "reason"),
    [
        (
            Usage(100, 10, cached_tokens=1),
            "cache rate unknown for model 'm': add [tool.pytest_swarm.prices.\"m\"] with cache_read",
        ),
        (
            Usage(100, 10, cache_write_tokens=1),
            "cache write rate unknown for model 'm': add [tool.pytest_swarm.prices.\"m\"] with cache_write",
        ),
        (
            Usage(100, 10, cache_write_tokens=1, cache_write_1h_tokens=1),
            "1-hour cache write rate unknown for model 'm': add [tool.pytest_swarm.prices.\"m\"] with cache_write_1h",
        ),
        (
            Usage(100, 10, service_tier="flex"),
            "no rates of the service tier 'flex' for model 'm': add [tool.pytest_swarm.prices.\"m\".flex]",
        ),
        (Usage(100, 10, service_tier="x1"), "no rates of the service tier 'x1' for model 'm' (outcome ok)"),
        (Usage(None, 10), "the reply told no usage for model 'm' (outcome ok)"),
        (Usage(10, None), "the reply told no usage for model 'm' (outcome ok)"),
        (None, "the reply told no usage for model 'm' (outcome ok)"),
        (
            Usage(10, 10, cached_tokens=11),
            "the reply told more cached tokens than input tokens for model 'm' (outcome ok)",
        ),
    ],
)
def test_what_has_no_rate_or_no_usage_is_unknown(usage, reason):
    table = PriceTable({"m": WRITTEN})
    assert table.cost("m", usage, None, "ok") == Cost(None, None, reason)
    assert table.cost("m", usage, 0.25, "ok") == Cost(Decimal("0.25"), "reported")


def test_the_table_goes_before_what_the_gateway_reports():
    table = PriceTable({"m": WRITTEN})
    assert table.cost("m", Usage(1_000_000, 0), 99.0, "ok") == Cost(Decimal("2.5"), "table")
    assert table.cost("other", Usage(1_000_000, 0), 99.0, "ok") == Cost(Decimal("99.0"), "reported")
    assert table.cost("other", None, 0.1, "ok").amount == Decimal("0.1")


@pytest.mark.parametrize("reported", [float("nan"), float("inf"), -1.0, None])
def test_a_report_that_is_no_amount_is_none(reported):
    found = PriceTable().cost("x/y", Usage(1, 1), reported, "ok")
    assert found == Cost(None, None, "no price for model 'x/y': add [tool.pytest_swarm.prices.\"x/y\"]")
    assert PriceTable().cost(None, Usage(1, 1), reported, "ok") == Cost(None, None, "the call names no model")


@pytest.mark.parametrize("outcome", CALL_OUTCOMES)
def test_what_was_refused_or_never_sent_costs_nothing(outcome):
    found = PriceTable({"m": WRITTEN}).cost("m", None, None, outcome)
    assert found.amount == (Decimal(0) if outcome in NOT_BILLED else None)
    assert not (NOT_BILLED & REPLY_OUTCOMES)


@pytest.mark.parametrize(
    ("written", "asked", "found"),
    [
        (["openai/gpt-4o"], "openai/gpt-4o", True),
        (["gpt-4o"], "openai/gpt-4o", True),
        (["openai/gpt-4o"], "gpt-4o", True),
        (["openai/gpt-4o"], "openrouter/openai/gpt-4o", True),
        (["openai/gpt-4o"], "azure/gpt-4o", False),
        (["gpt-4o"], "gpt-4o-mini", False),
        (["xgpt-4o"], "gpt-4o", False),
        ([], "gpt-4o", False),
    ],
)
def test_a_model_is_found_with_and_without_its_provider(written, asked, found):
    table = PriceTable(dict.fromkeys(written, WRITTEN))
    assert (table.cost(asked, Usage(1, 1), None, "ok").source == "table") is found


def test_an_exact_name_goes_before_a_shorter_one():
    table = PriceTable({"gpt-4o": WRITTEN, "azure/gpt-4o": {"input": 5, "output": 5}})
    assert table.cost("azure/gpt-4o", Usage(1_000_000, 0), None, "ok").amount == 5
    assert table.cost("openai/gpt-4o", Usage(1_000_000, 0), None, "ok").amount == Decimal("2.5")


def test_a_model_of_several_providers_with_different_prices_is_unknown():
    apart = {"azure/m": {"input": 5, "output": 5}, "openai/m": {"input": 4, "output": 5}}
    assert PriceTable(apart).find("m") is None
    assert PriceTable(dict.fromkeys(apart, WRITTEN)).find("m") == Tariff(Rates(Decimal("2.5"), Decimal(10)))


class Behind:
    name = "behind"

    def find(self, model):
        return Tariff(Rates(Decimal(1), Decimal(1), Decimal(1)))


def test_a_source_behind_the_table_prices_what_the_table_cannot():
    table = PriceTable({"m": WRITTEN}, Behind())
    assert table.cost("m", Usage(1_000_000, 0), None, "ok") == Cost(Decimal("2.5"), "table")
    assert table.cost("n", Usage(1_000_000, 0), 7.0, "ok") == Cost(Decimal(1), "behind")
    assert table.cost("m", Usage(1_000_000, 0, 1), 7.0, "ok") == Cost(Decimal(1), "behind")
    assert table.cost("m", None, None, "timeout").reason == "the reply told no usage for model 'm' (outcome timeout)"


def test_a_reply_may_be_priced_by_whoever_has_rates_for_cached_tokens():
    class Behind:
        name = "behind"

        def find(self, model):
            return Tariff(Rates(Decimal(7), Decimal(8), Decimal(9))) if model in ("m", "whole", "other") else None

    whole = {**WRITTEN, "cache_read": 1, "cache_write": 3}
    prices = PriceTable({"m": WRITTEN, "whole": whole, "mine": WRITTEN}, Behind())
    assert [tariff.base.input for tariff in prices.tariffs("m")] == [Decimal("2.5"), 7]
    assert [tariff.base.input for tariff in prices.tariffs("whole")] == [Decimal("2.5")]
    assert [tariff.base.input for tariff in prices.tariffs("mine")] == [Decimal("2.5")]
    assert [tariff.base.input for tariff in prices.tariffs("other")] == [7]
    assert prices.tariffs("nobody's") == []


def test_a_simulated_gateway_says_itself_what_it_costs():
    table = PriceTable({"m": WRITTEN}, Behind())
    assert table.cost("m", Usage(1_000_000, 0), 7.0, "ok", simulated=True) == Cost(Decimal("7.0"), "reported")
    assert table.cost("m", Usage(1_000_000, 0), None, "ok", simulated=True) == Cost(Decimal("2.5"), "table")
    assert table.cost("gpt-4o", Usage(1_000_000, 0), None, "ok", simulated=True).amount is None


def test_a_service_tier_has_its_own_rates_and_nothing_from_the_usual_ones():
    flex = {"input": 1, "output": 5, "tiers": [{"above": 10, "input": 2}]}
    table = PriceTable({"m": {**WRITTEN, "cache_read": 1, "flex": flex, "batch": {"input": 0, "output": 0}}})

    def cost(usage):
        return table.cost("m", usage, None, "ok").amount

    assert cost(Usage(10, 10)) == Decimal("0.000125")
    assert cost(Usage(10, 10, service_tier="flex")) == Decimal("0.00006")
    assert cost(Usage(11, 10, service_tier="flex")) == Decimal("0.000072")
    assert cost(Usage(10, 10, service_tier="batch")) == 0
    assert cost(Usage(10, 10, 1)) is not None
    assert cost(Usage(10, 10, 1, service_tier="flex")) is None


def test_what_calls_will_be_priced_with_is_looked_up_before():
    asked = []

    class Slow(Behind):
        def find(self, model):
            asked.append(model)

    table = PriceTable({"m": WRITTEN}, Slow())
    table.prepare("m")
    assert asked == []
    table.prepare("n")
    table.prepare(None)
    assert asked == ["n", ""]


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.data())
def test_a_cost_lies_between_that_of_its_cheapest_and_its_dearest_token(input_tokens, output_tokens, data):
    cached = data.draw(st.integers(0, input_tokens))
    found = price({"input": "3", "cache_read": "0.1", "output": "7"}, Usage(input_tokens, output_tokens, cached))
    tokens = Decimal(input_tokens + output_tokens) / 1_000_000
    assert Decimal("0.1") * tokens <= found <= 7 * tokens


WHERE = '[tool.pytest_swarm.prices."m"]'
TIERS = "batch, fast, flex, priority, scale"
KEYS = "input, output, cache_read, cache_write, cache_write_1h, reasoning"


@pytest.mark.parametrize(
    ("rates", "error"),
    [
        (3, f"{WHERE} is 3; say a table such as {{input = 2.5, output = 10}}"),
        ({"input": 1}, f"{WHERE} needs input and output, US dollars per million tokens; 0 where it is free"),
        (
            {"input": 1, "output": 1, "cache_reed": 1},
            f"{WHERE}: unknown key 'cache_reed'; allowed are {KEYS}, tiers, {TIERS}; did you mean 'cache_read'?",
        ),
        (
            {"input": 1, "output": 1, "flx": {"input": 1, "output": 1}},
            f"{WHERE}: unknown key 'flx'; allowed are {KEYS}, tiers, {TIERS}; did you mean 'flex'?",
        ),
        (
            {"input": 1, "output": 1, "flex": {"input": 1}},
            f"{WHERE} flex needs input and output, US dollars per million tokens; 0 where it is free",
        ),
        (
            {"input": 1, "output": 1, "flex": {"input": 1, "output": 1, "batch": {}}},
            f"{WHERE} flex: unknown key 'batch'; allowed are {KEYS}, tiers",
        ),
        (
            {"input": -1, "output": 1},
            f"{WHERE} input is -1; say US dollars per million tokens, 0 or more, such as 2.5",
        ),
        (
            {"input": 1, "output": "$1"},
            f"{WHERE} output is '$1'; say US dollars per million tokens, 0 or more, such as 2.5",
        ),
        (
            {"input": 1, "output": True},
            f"{WHERE} output is True; say US dollars per million tokens, 0 or more, such as 2.5",
        ),
        (
            {"input": 1, "output": float("nan")},
            f"{WHERE} output is nan; say US dollars per million tokens, 0 or more, such as 2.5",
        ),
        (
            {"input": 1, "output": 1, "tiers": {"above": 1}},
            f"{WHERE} tiers: {{'above': 1}} is no list; say [{{above = 200000, input = 4, output = 15}}]",
        ),
        (
            {"input": 1, "output": 1, "tiers": [5]},
            f"{WHERE} tiers is 5; say a table such as {{input = 2.5, output = 10}}",
        ),
        (
            {"input": 1, "output": 1, "tiers": [{"above": "1", "input": 1}]},
            f"{WHERE} tiers: above is '1'; say the number of input tokens above which the tier holds",
        ),
        (
            {"input": 1, "output": 1, "tiers": [{"input": 1}]},
            f"{WHERE} tiers: above is None; say the number of input tokens above which the tier holds",
        ),
        (
            {"input": 1, "output": 1, "tiers": [{"above": 5}]},
            f"{WHERE} tiers: the tier above 5 changes no rate; allowed are {KEYS}",
        ),
        (
            {"input": 1, "output": 1, "tiers": [{"abov": 5, "input": 1}]},
            f"{WHERE} tiers: unknown key 'abov'; allowed are above, {KEYS}; did you mean 'above'?",
        ),
    ],
)
def test_a_wrong_price_is_refused_in_one_sentence(rates, error):
    with pytest.raises(SettingError) as raised:
        PriceTable({"m": rates})
    assert str(raised.value) == error
