"""Names of cassettes: stable, bounded, told apart, and never outside the directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.sources.cassette.names import cassette_path, find_cassette

DIRECTORY = Path("/somewhere/cassettes")


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("tests/test_chat.py::test_a", "tests/test_chat/test_a.yaml"),
        ("test_chat.py::test_a[gpt-6-agent]", "test_chat/test_a[gpt-6-agent].yaml"),
        ("test_chat.py::test_a[kimi-k2.5-swarm]", "test_chat/test_a[kimi-k2.5-swarm].yaml"),
    ],
)
def test_plain_names_stay(nodeid: str, name: str) -> None:
    assert cassette_path(DIRECTORY, nodeid) == DIRECTORY / name


def test_swarms_within_a_test_have_files_of_their_own() -> None:
    assert cassette_path(DIRECTORY, "t.py::test_a", number=2, form="json").name == "test_a.swarm-2.json"


@pytest.mark.parametrize(
    "nodeid",
    [
        "../../etc/test_x.py::test_a",
        "/etc/test_x.py::test_a",
        "t.py::test_a[../../../x]",
        "t.py::test_a[a/b\\c:d*e]",
        "t.py::test_a[" + "x" * 5000 + "]",
        "t.py::" + "x" * 5000,
        "con.py::nul[aux]",
        ".hidden.py::test_a",
        "t.py::test_a[]",
        "t.py::test_a[한국어]",
    ],
)
def test_odd_names_stay_inside_and_short(nodeid: str) -> None:
    path = cassette_path(DIRECTORY, nodeid)
    assert path.is_relative_to(DIRECTORY)
    assert ".." not in path.parts
    assert all(len(part.encode()) <= 200 for part in path.parts)
    assert not any(part.startswith(".") for part in path.relative_to(DIRECTORY).parts)


@given(st.text(min_size=1, max_size=100), st.text(max_size=100))
def test_any_id_names_a_file_below_the_directory(test: str, parameters: str) -> None:
    path = cassette_path(DIRECTORY, f"t.py::{test}[{parameters}]")
    assert path.is_relative_to(DIRECTORY)
    assert len(path.name.encode()) <= 200
    assert path.name.isascii()
    assert path.name.isprintable()


PARAMETERS = ["a", "A", "a ", " a", "a.", "A b", "a-b", "a/b", "a:b", "x" * 60, "x" * 61, "x" * 62, "é", "e"]


def test_no_two_tests_share_a_file_where_case_does_not_count() -> None:
    tests = [f"t.py::test_a[{one}]" for one in PARAMETERS]
    tests += [
        "t.py::test_a",
        "t.py::test_A",
        "t.py::TestX::test_a",
        "t.py::Testx::test_a",
        "T.py::test_a",
        "t/test_a.py::b",
    ]
    assert len({str(cassette_path(DIRECTORY, test)).lower() for test in tests}) == len(tests)


def test_a_cassette_is_found_in_either_form(tmp_path: Path) -> None:
    assert find_cassette(tmp_path, "t.py::test_a") is None
    path = cassette_path(tmp_path, "t.py::test_a", form="json")
    path.parent.mkdir()
    path.touch()
    assert find_cassette(tmp_path, "t.py::test_a") == path
    assert find_cassette(tmp_path, "t.py::test_a", number=1) is None
