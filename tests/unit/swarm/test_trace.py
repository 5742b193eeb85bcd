"""Arrival traces in the forms of the public ones, and what is wrong with a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_swarm.errors import SettingError
from pytest_swarm.records import Arrival
from pytest_swarm.swarm.plan import Plan, with_trace
from pytest_swarm.swarm.trace import is_trace, read_trace

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""
AZURE_LATER = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:00.017335+00:00,2399,6
"""
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens\n5,ChatGPT,472,18,490\n45,ChatGPT,1087,230,1317\n"
MOONCAKE = """{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}

{"timestamp": 3052, "input_length": 7322, "output_length": 490, "hash_ids": [0, 14]}
"""
OWN = "\ufeffoffset, input_tokens\r\n2.5, 10\r\n0.5,\r\n"

TRACES = {
    "azure.csv": (AZURE, [(0.0, 374, 44), (4.314579, 396, 109), (4.541877, 879, 55)]),
    "azure_later.CSV": (AZURE_LATER, [(0.0, 2162, 5), (0.007405, 2399, 6)]),
    "burst.csv": (BURST, [(0.0, 472, 18), (40.0, 1087, 230)]),
    "mooncake.jsonl": (MOONCAKE, [(0.0, 6758, 500), (3.052, 7322, 490)]),
    "own.csv": (OWN, [(0.5, None, None), (2.5, 10, None)]),
    "own.jsonl": ('{"offset": 1, "output_tokens": 4}\n', [(1.0, None, 4)]),
}


def written(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_is_read(tmp_path: Path, name: str) -> None:
    text, expected = TRACES[name]
    rows = read_trace(written(tmp_path, name, text), "x")
    assert [(row.input_tokens, row.output_tokens) for row in rows] == [row[1:] for row in expected]
    assert [row.offset for row in rows] == pytest.approx([row[0] for row in expected], abs=1e-6)


WRONG = {
    "no time": (
        "a.csv",
        "offset,input_tokens\n1,5\n,6\n",
        "line 3: there is no offset and no timestamp; a row needs one",
    ),
    "a negative offset": ("a.csv", "offset\n-1\n", "line 2: offset '-1' is no time; write seconds of 0 or more"),
    "no number": (
        "a.csv",
        "timestamp\n1\nsoon\n",
        "line 3: timestamp 'soon' is no time; write a number, or a date such as 2024-05-10 00:00:01.25",
    ),
    "not finite": ("a.jsonl", '{"offset": Infinity}\n', "line 1: offset inf is no time; write seconds of 0 or more"),
    "half a token": (
        "a.jsonl",
        '{"timestamp": 1}\n{"timestamp": 2, "input_length": 1.5}\n',
        "line 2: input_length 1.5 is no number of tokens; write a whole number",
    ),
    "no JSON": (
        "a.jsonl",
        '{"offset": 1}\n\n{"offset"\n',
        "line 3: '{\"offset\"' is no JSON object; write one per line",
    ),
    "a list": ("a.jsonl", "[1]\n", "line 1: '[1]' is no JSON object; write one per line"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_row_is_told_with_its_file_and_line(tmp_path: Path, case: str) -> None:
    name, text, message = WRONG[case]
    path = written(tmp_path, name, text)
    with pytest.raises(SettingError) as error:
        read_trace(path, "swarm(arrival=...)")
    assert str(error.value) == f"swarm(arrival=...): {path} {message}"


def test_a_trace_without_rows_or_file_is_told(tmp_path: Path) -> None:
    empty = written(tmp_path, "empty.csv", "offset\n")
    with pytest.raises(SettingError, match=r"^x: the trace .*empty\.csv has no rows; name one that has$"):
        read_trace(empty, "x")
    with pytest.raises(SettingError, match=r"^x: the trace .*gone\.csv cannot be read \(No such file"):
        read_trace(tmp_path / "gone.csv", "x")


def test_a_changed_trace_is_read_again(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "offset\n1\n")
    assert len(read_trace(path, "x")) == 1
    written(tmp_path, "a.csv", "offset\n1\n2\n")
    assert len(read_trace(path, "x")) == 2


def test_the_plan_holds_the_rows_and_a_relative_path_counts_from_the_root(tmp_path: Path) -> None:
    written(tmp_path, "a.csv", "offset\n1\n")
    plan = with_trace(Plan(tasks=None, concurrency=None, arrival="a.csv"), tmp_path)
    assert plan.trace == (Arrival(1.0),)
    assert plan.is_open
    assert with_trace(Plan(), tmp_path) == Plan()


@pytest.mark.parametrize(("text", "expected"), [("a.csv", True), ("b/c.JSONL", True), ("poisson", False)])
def test_a_path_is_told_from_a_process(text: str, expected: bool) -> None:
    assert is_trace(text) is expected
