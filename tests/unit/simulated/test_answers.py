from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_parts import ANSWER, plain_system

from pytest_swarm.sources.simulated.answers import ANY_OBJECT, Answers
from pytest_swarm.sources.simulated.profile import Json, Prices, Tokens
from pytest_swarm.sources.simulated.prose import Prose
from pytest_swarm.sources.simulated.schemas import SchemaAnswers, UnsupportedSchema
from pytest_swarm.sources.simulated.tokens import Length, cost_of, draw_length, tokens_in


def value(schema: Any, seed: int = 1) -> Any:
    random = Random(seed)
    return SchemaAnswers(random, Prose(random)).value(schema)


def answers(**json_profile: Any) -> Answers:
    return Answers(plain_system(json=Json(**json_profile)), "1")


# --- values for schemas -----------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.just({"type": "number"}),
    st.builds(
        lambda low, span: {"type": "number", "minimum": low, "maximum": low + span},
        st.integers(-99, 99),
        st.integers(0, 9),
    ),
    st.builds(lambda low: {"type": "number", "exclusiveMinimum": low}, st.floats(-5, 5)),
    st.builds(lambda high: {"type": "number", "exclusiveMaximum": high}, st.floats(-5, 5)),
    st.builds(
        lambda low, span: {"type": "integer", "minimum": low, "maximum": low + span},
        st.integers(-99, 99),
        st.integers(0, 9),
    ),
    st.builds(lambda low: {"type": "integer", "exclusiveMinimum": low}, st.integers(-99, 99)),
    st.builds(lambda high: {"type": "integer", "exclusiveMaximum": high}, st.integers(-99, 99)),
    st.builds(lambda step: {"type": "integer", "multipleOf": step}, st.integers(1, 9)),
    st.just({"type": "number", "multipleOf": 0.25}),
)
TEXTS = st.builds(
    lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
    st.integers(0, 40),
    st.integers(0, 40),
)
LEAVES = st.one_of(
    NUMBERS,
    TEXTS,
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"const": 3}, {"enum": ["a", 1]}, True, {}]),
    st.sampled_from([{"type": ["string", "null"]}, {"minimum": 3}, {"items": {"type": "null"}}, {"required": ["a"]}]),
    st.sampled_from(
        ["date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid", "odd"]
    ).map(lambda name: {"type": "string", "format": name}),
)


def compound(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from("abcde")
    return st.one_of(
        st.builds(
            lambda properties, required, least: {
                "type": "object",
                "properties": properties,
                "required": sorted(required),
                "minProperties": least,
            },
            st.dictionaries(names, children, max_size=3),
            st.sets(names, max_size=3),
            st.integers(0, 6),
        ),
        st.builds(
            lambda items, low, more: {"type": "array", "items": items, "minItems": low, "maxItems": low + more},
            children,
            st.integers(0, 4),
            st.integers(0, 4),
        ),
        st.builds(
            lambda first, rest: {"type": "array", "prefixItems": first, "items": rest},
            st.lists(children, max_size=3),
            st.booleans().map(lambda _: False),
        ),
        st.builds(lambda several: {"anyOf": several}, st.lists(children, min_size=1, max_size=3)),
        st.builds(
            lambda one, other: {
                "allOf": [
                    {"properties": {"a": one}, "required": ["a"]},
                    {"properties": {"b": other}, "required": ["b"]},
                ]
            },
            children,
            children,
        ),
    )


@settings(max_examples=300)
@given(st.recursive(LEAVES, compound, max_leaves=8), st.integers(0, 99))
def test_values_fit_their_schemas(schema: Any, seed: int) -> None:
    jsonschema.Draft202012Validator(schema).validate(value(schema, seed))


RECURSIVE = {
    "$defs": {
        "node": {
            "type": "object",
            "required": ["name", "children"],
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
            },
        }
    },
    "$ref": "#/$defs/node",
}


@pytest.mark.parametrize("seed", range(10))
def test_recursive_schemas_come_to_an_end(seed: int) -> None:
    made = value(RECURSIVE, seed)
    jsonschema.Draft202012Validator(RECURSIVE).validate(made)
    assert len(json.dumps(made)) < 100_000


def test_a_required_recursion_ends_with_the_simplest_alternative() -> None:
    schema = {
        "type": "object",
        "required": ["next"],
        "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    }
    nullable = {"type": ["array", "null"], "items": {"$ref": "#"}, "minItems": 1}
    for seed in range(200):
        jsonschema.Draft202012Validator(schema).validate(value(schema, seed))
        jsonschema.Draft202012Validator(nullable).validate(value(nullable, seed))


FORMATS = {
    "date": r"20\d\d-[01]\d-[0-2]\d",
    "time": r"[0-2]\d:[0-5]\d:[0-5]\dZ",
    "date-time": r"20\d\d-[01]\d-[0-2]\dT[0-2]\d:[0-5]\d:[0-5]\dZ",
    "duration": r"PT\d+M",
    "email": r"\w+@example\.com",
    "hostname": r"\w+\.example\.com",
    "ipv4": r"192\.0\.2\.\d+",
    "ipv6": r"2001:db8::[0-9a-f]+",
    "uri": r"https://example\.com/\d+",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}",
}


@pytest.mark.parametrize(("name", "pattern"), FORMATS.items())
def test_texts_have_the_format_that_is_asked_for(name: str, pattern: str) -> None:
    assert re.fullmatch(pattern, value({"type": "string", "format": name}))


def test_references_are_json_pointers() -> None:
    schema = {"definitions": {"a/b~c": {"const": 7}, "list": [{"const": 8}]}, "prefixItems": [
        {"$ref": "#/definitions/a~1b~0c"}, {"$ref": "#/definitions/list/0"}], "items": False}  # fmt: skip
    assert value(schema) == [7, 8]


def test_an_alternative_that_cannot_be_made_is_passed_over() -> None:
    decimal = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[0-9]+$"}]}
    assert all(isinstance(value(decimal, seed), float) for seed in range(20))


def test_an_optional_property_that_cannot_be_made_is_left_out() -> None:
    schema = {"properties": {"a": {"pattern": "x", "type": "string"}, "b": {"const": 1}}, "minProperties": 1}
    assert value(schema) == {"b": 1}


def test_an_optional_property_is_there_about_every_other_time() -> None:
    schema = {"properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["a"]}
    made = [value(schema, seed) for seed in range(200)]
    assert all(one["a"] == 1 for one in made)
    assert 60 < sum("b" in one for one in made) < 140


def test_a_text_for_a_pattern_is_one_of_the_examples_that_fit() -> None:
    schema = {
        "type": "string",
        "pattern": "^[0-9]{1,3}(,[0-9]{3})*$",
        "examples": ["1,024", "1024", 7, "16,777,216", "65,536"],
        "maxLength": 6,
    }
    assert {value(schema, seed) for seed in range(30)} == {"1,024", "65,536"}


def test_unique_items_are_unique() -> None:
    schema = {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 1, "maxItems": 5}
    for seed in range(20):
        jsonschema.Draft202012Validator(schema).validate(value(schema, seed))


UNSUPPORTED = {
    "pattern": {"type": "string", "pattern": "a+"},
    "pattern without a fitting example": {"type": "string", "pattern": "a+", "examples": ["b"]},
    "examples that are no list": {"type": "string", "pattern": "a+", "examples": 3},
    "a pattern that is none": {"type": "string", "pattern": "(", "examples": ["("]},
    "a number for a pattern": {"type": "string", "pattern": 3, "examples": ["3"]},
    "a number for a schema": {"type": "array", "items": 3},
    "a number inside allOf": {"allOf": [3, {"type": "text"}]},
    "no such type": {"type": "text"},
    "false": False,
    "endless": {"required": ["a"], "properties": {"a": {"$ref": "#"}}},
    "circle": {"$ref": "#"},
    "remote": {"$ref": "https://example.com/schema"},
    "nowhere": {"$ref": "#/$defs/none"},
    "nowhere in a text": {"$ref": "#/type/a", "type": "object"},
    "no alternative": {"anyOf": []},
    "only impossible ones": {"oneOf": [{"type": "string", "pattern": "a"}]},
    "empty range": {"type": "number", "minimum": 2, "maximum": 1},
    "no whole number": {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
    "more different items than there are": {"items": {"enum": [1]}, "uniqueItems": True, "minItems": 2},
    "required, and nothing allowed": {"required": ["a"], "additionalProperties": False},
}


@pytest.mark.parametrize("schema", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_what_cannot_be_made_is_said(schema: Any) -> None:
    with pytest.raises(UnsupportedSchema, match=r"\w+ \w+"):
        value(schema)


def test_the_seed_decides_the_value() -> None:
    assert value(ANSWER, 1) == value(ANSWER, 1) != value(ANSWER, 2)


# --- spoiled answers --------------------------------------------------------------------------------------------------


def status(text: str, schema: Any) -> str:
    try:
        parsed = json.loads(text)
    except ValueError:
        return "invalid"
    return "valid" if jsonschema.Draft202012Validator(schema).is_valid(parsed) else "schema_invalid"


def test_json_is_spoiled_as_often_as_the_profile_says() -> None:
    system = answers(invalid_rate=0.1, schema_invalid_rate=0.2)
    found = Counter(status(system.json_text(ANSWER), ANSWER) for _ in range(200))
    assert found == {"valid": 140, "invalid": 20, "schema_invalid": 40}


@pytest.mark.parametrize("kind", ["cut", "fenced", "prose"])
@pytest.mark.parametrize(
    "schema", [ANSWER, ANY_OBJECT, {"const": 1234}, {"type": "string"}, {"const": {}}, {"type": "boolean"}]
)
def test_every_kind_of_bad_json_is_none(kind: str, schema: Any) -> None:
    system = answers(invalid_rate=1.0, invalid_kinds=(kind,))
    assert {status(system.json_text(schema), schema) for _ in range(20)} == {"invalid"}


@pytest.mark.parametrize(
    "schema",
    [
        ANSWER,
        {"type": "array", "items": {"type": "string"}},
        {"type": "string"},
        {"type": ["string", "null", "object"]},
        {"$ref": "#/$defs/a", "$defs": {"a": ANSWER}},
        {"type": "object", "properties": {"a": {"const": 1}}},
        {"type": "object", "properties": {"a": {"const": 1}, "b": {"type": "integer"}}},
    ],
)  # fmt: skip
def test_json_of_a_wrong_type_is_json_that_does_not_fit(schema: Any) -> None:
    system = answers(schema_invalid_rate=1.0)
    assert {status(system.json_text(schema), schema) for _ in range(20)} == {"schema_invalid"}


def test_where_a_schema_forbids_no_type_nothing_can_be_of_a_wrong_one() -> None:
    assert status(answers(schema_invalid_rate=1.0).json_text({}), {}) == "valid"


# --- prose and tokens -------------------------------------------------------------------------------------------------


def test_prose_is_about_as_long_as_the_profile_says() -> None:
    system = answers()
    lengths = [tokens_in(system.text()) for _ in range(200)]
    assert sum(lengths) / len(lengths) == pytest.approx(120, rel=0.15)
    assert len({system.text() for _ in range(20)}) > 10


def test_a_text_has_at_least_one_sentence() -> None:
    assert Prose(Random(1)).text(0).endswith(".")


@given(st.text(max_size=50))
def test_four_characters_are_a_token(text: str) -> None:
    assert len(text) <= 4 * tokens_in(text) <= len(text) + 3


@given(st.integers(1, 5000), st.floats(0, 1), st.one_of(st.none(), st.integers(1, 5000)), st.integers(0, 99))
def test_a_reply_is_about_as_long_as_the_mean_and_no_longer_than_allowed(
    mean: int, spread: float, bound: int | None, seed: int
) -> None:
    length = draw_length(Tokens(mean, spread), bound, Random(seed))
    assert max(1, round(mean * (1 - spread))) <= length.wanted <= round(mean * (1 + spread)) + 1
    assert length.given == (length.wanted if bound is None else min(bound, length.wanted))
    assert length.cut == (length.given < length.wanted)


@given(st.text(min_size=2, max_size=400), st.integers(2, 3000), st.data())
def test_a_cut_text_is_a_beginning_that_fits(text: str, wanted: int, data: st.DataObject) -> None:
    length = Length(wanted, data.draw(st.integers(1, wanted - 1)))
    cut = length.cut_text(text)
    assert text.startswith(cut)
    assert 1 <= len(cut) < len(text)
    assert tokens_in(cut) <= length.given
    assert Length(wanted, wanted).cut_text(text) == text


def test_the_price_counts_every_kind_of_token_once() -> None:
    usage = {"input_tokens": 1000, "cached_tokens": 600, "written_tokens": 100, "output_tokens": 50}
    assert cost_of(Prices(1.0, 0.5, 2.0, 10.0), **usage) == pytest.approx((300 + 300 + 200 + 500) / 1e6)
    assert cost_of(Prices(1.0, 0.5, None, 10.0), **usage) == pytest.approx((300 + 300 + 100 + 500) / 1e6)


def test_changing_one_rate_moves_no_other_draw() -> None:
    base = plain_system()
    spoiling = replace(base, json=Json(invalid_rate=0.5, invalid_kinds=("prose",)))
    good, spoiled = (Answers(system, "1") for system in (base, spoiling))
    assert good.text() == spoiled.text()
