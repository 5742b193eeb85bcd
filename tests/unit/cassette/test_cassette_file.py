"""Cassettes are read whole, and parts as far as they were written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_swarm.errors import CassetteError
from pytest_swarm.sources.cassette.file import form_of, part_files, read_cassette
from pytest_swarm.sources.cassette.writer import CassetteWriter
from tests.unit.cassette.cassette_samples import EVERY, OUTSIDE, STREAMED, request

FORMS = ("yaml", "json")


def written(path: Path, *, complete: bool = True) -> Path:
    writer = CassetteWriter(path)
    for interaction in EVERY.values():
        writer.append(interaction)
    if complete:
        writer.complete()
        return path
    writer.leave()
    return writer.part


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("complete", [True, False], ids=["whole", "part"])
def test_what_was_written_is_read(tmp_path: Path, form: str, complete: bool) -> None:
    cassette = read_cassette(written(tmp_path / f"test.{form}", complete=complete))
    assert cassette.interactions == tuple(EVERY.values())
    assert cassette.complete is complete


@pytest.mark.parametrize("form", FORMS)
def test_a_part_torn_anywhere_loses_its_last_interaction_only(tmp_path: Path, form: str) -> None:
    part = written(tmp_path / f"test.{form}", complete=False)
    data = part.read_bytes()
    found = set()
    for size in range(0, len(data), 7):
        part.write_bytes(data[:size])
        interactions = read_cassette(part).interactions
        assert interactions == tuple(EVERY.values())[: len(interactions)]
        found.add(len(interactions))
    assert found == set(range(len(EVERY)))


@pytest.mark.parametrize("form", FORMS)
def test_a_swarm_that_asked_nothing_has_an_empty_cassette(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"test.{form}"
    CassetteWriter(path).complete()
    cassette = read_cassette(path)
    assert (cassette.interactions, cassette.complete, cassette.recorded_at) == ((), True, None)
    assert cassette.models == cassette.base_urls == ()


def test_a_cassette_tells_where_it_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    writer = CassetteWriter(path)
    other = request({"model": "n"}, url="http://other/v1/messages")
    writer.append(STREAMED)
    writer.append(replace(OUTSIDE, request=other, recorded_at="2025-01-01T00:00:00.000Z"))
    writer.complete()
    cassette = read_cassette(path)
    assert cassette.models == ("m", "n")
    assert cassette.base_urls == ("http://127.0.0.1:8000/v1", "http://other/v1")
    assert cassette.recorded_at == "2025-01-01T00:00:00.000Z"
    assert (cassette.timed, cassette.simulated) == (True, "-")
    assert read_cassette(written(tmp_path / "other.yaml")).simulated == "-"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.yaml", "{", "is not YAML: "),
        ("a.json", "{", "is not JSON: "),
        ("a.yaml", "version: 1\n", "has no list of interactions"),
        ("a.json", "[5]", "interaction 0: it is not an interaction as vcrpy writes them: "),
        ("a.yaml", "interactions: [!!python/object:os.path {}]", "is not YAML: "),
    ],
)
def test_what_is_no_cassette_is_refused_by_name(tmp_path: Path, name: str, text: str, problem: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(CassetteError) as error:
        read_cassette(path)
    assert str(error.value).startswith(f"cassette {path}")
    assert problem in str(error.value)


def test_a_missing_cassette_is_named(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match=r"none\.yaml cannot be read: .*No such file"):
        read_cassette(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.yaml", "yaml"),
        ("a.yml", "yaml"),
        ("a.JSON", "json"),
        ("a.yaml.part", "yaml"),
        ("a.json~gw1.part", "json"),
        ("a.json.yaml.part", "yaml"),
        ("a[1.json].yaml", "yaml"),
    ],
)
def test_the_form_is_in_the_name(name: str, form: str) -> None:
    assert form_of(Path(name)) == form


def test_parts_are_found_beside_the_place_of_the_cassette(tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    assert part_files(tmp_path / "none" / "test.yaml") == []
    for name in ("test.yaml", "test.yaml.part", "test.yaml~gw0.part", "test_more.yaml.part"):
        (tmp_path / name).touch()
    assert {part.name for part in part_files(path)} == {"test.yaml.part", "test.yaml~gw0.part"}


def test_json_has_one_interaction_a_line(tmp_path: Path) -> None:
    lines = written(tmp_path / "test.json").read_text().splitlines()
    assert len(lines) == len(EVERY) + 2
    assert json.loads(lines[1])["request"]["method"] == "POST"
