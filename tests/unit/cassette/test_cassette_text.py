"""What is written is what any YAML or JSON reader reads."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from vcr.serializers.yamlserializer import deserialize

from pytest_swarm.exchange import Request
from pytest_swarm.sources.cassette.interaction import Interaction, from_vcr, to_vcr
from pytest_swarm.sources.cassette.quickly import read_items
from pytest_swarm.sources.cassette.text import json_item, yaml_item
from tests.unit.cassette.cassette_samples import EVERY, STREAMED

TEXTS = st.text(
    st.one_of(st.sampled_from("\n\n ab'\"\\{:#|-\t\r\x85\u2028\ufeff"), st.characters(exclude_categories=["Cs"])),
    max_size=30,
)


def load(text: str) -> Any:
    return deserialize(text)[0]


@pytest.mark.parametrize("interaction", EVERY.values(), ids=EVERY)
def test_both_forms_come_back_as_they_were(interaction: Interaction) -> None:
    assert from_vcr(load(yaml_item(to_vcr(interaction)))) == interaction
    assert from_vcr(json.loads(json_item(to_vcr(interaction)))) == interaction


@given(TEXTS, TEXTS, st.floats(0, 1e6), st.binary(max_size=4))
def test_any_text_comes_back(one: str, other: str, seconds: float, rest: bytes) -> None:
    written = replace(
        STREAMED,
        request=Request("POST", "http://h/v1", {"x-a": one, "b": other}, one.encode()),
        headers={"c d": other},
        body=other.encode() + rest,
        head=seconds,
        error=one,
    )
    item = to_vcr(written)
    text = yaml_item(item)
    assert yaml.load(text, Loader=yaml.SafeLoader) == yaml.load(text, Loader=yaml.CSafeLoader)
    (quickly,) = read_items(f"version: 1\ninteractions:\n{text}") or [None]
    assert quickly == load(text)
    for found in (from_vcr(load(text)), from_vcr(json.loads(json_item(item)))):
        assert found.head == pytest.approx(seconds, abs=1e-6)
        assert replace(found, head=seconds) == written


HEAD = "version: 1\ninteractions:\n"
WRITTEN = HEAD + "".join(yaml_item(to_vcr(interaction)) for interaction in EVERY.values())


def test_our_own_text_is_read_without_a_yaml_reader() -> None:
    assert read_items(WRITTEN) == [to_vcr(interaction) for interaction in EVERY.values()]


def test_no_edit_makes_the_quick_reader_read_anything_else() -> None:
    lines = WRITTEN.splitlines(keepends=True)
    for number in range(len(lines)):
        for edited in ("", lines[number].replace(": ", ":  "), f"# {lines[number]}", "  " + lines[number]):
            text = "".join((*lines[:number], edited, *lines[number + 1 :]))
            found = read_items(text)
            if found is not None:
                assert found == deserialize(text)["interactions"], (number, edited)


@pytest.mark.parametrize(
    "text", ["", HEAD, "[]", WRITTEN[:-5], WRITTEN + "more: 1\n", WRITTEN.replace("version: 1", "version: 2")]
)
def test_what_it_does_not_know_is_left_to_a_yaml_reader(text: str) -> None:
    assert read_items(text) is None


def test_a_number_is_never_written_with_an_exponent() -> None:
    tiny = replace(STREAMED, head=0.00001, end=1e-9, chunks=((1e-5, 1),))
    found = from_vcr(load(yaml_item(to_vcr(tiny))))
    assert (found.head, found.end, found.chunks) == (0.00001, 0.0, ((0.00001, 1),))


def test_people_can_read_it() -> None:
    text = yaml_item(to_vcr(STREAMED))
    assert """    body: '{"model": "m",""" in text
    assert """\n        data: {"id": "c1", "choices": [{""" in text
    assert not any(line.endswith(" ") for line in text.splitlines())
    assert text.splitlines()[-1].startswith("    x-swarm: {")
