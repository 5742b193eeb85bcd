"""The tables of pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_swarm.errors import SettingError
from pytest_swarm.tables import Tables, read_tables


def tables_of(folder: Path, text: str) -> Tables:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return read_tables(folder)


def test_no_file_means_empty_tables(tmp_path: Path) -> None:
    assert read_tables(tmp_path) == Tables({}, {})


@pytest.mark.parametrize("text", ["", "[tool.other]\nx = 1", "# pytest_swarm", "tool = 'pytest_swarm'"])
def test_a_file_without_tables_means_empty_tables(tmp_path: Path, text: str) -> None:
    assert tables_of(tmp_path, text) == Tables({}, {})


def test_tables_are_kept_as_they_are_written(tmp_path: Path) -> None:
    text = """
    [tool.pytest_swarm.prices."openai/gpt-4o"]
    input = 2.5
    [tool.pytest_swarm.workloads.chat]
    sla = ["p95 < 3s"]
    """
    assert tables_of(tmp_path, text) == Tables({"openai/gpt-4o": {"input": 2.5}}, {"chat": {"sla": ["p95 < 3s"]}})


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            "[tool.pytest_swarm.price.x]",
            "[tool.pytest_swarm] has no 'price'; allowed are the tables prices, workloads; did you mean 'prices'?",
        ),
        (
            "[tool.pytest_swarm]\nconcurrency = 5",
            (
                "[tool.pytest_swarm] has no 'concurrency'; allowed are the tables prices, workloads, "
                "and options stand in pytest's own section as swarm_..."
            ),
        ),
        ("[tool.pytest_swarm]\nprices = 5", "tool.pytest_swarm.prices is 5; write a table"),
        ("[tool]\npytest_swarm = 5", "tool.pytest_swarm is 5; write a table"),
        (
            "[tool.pytest_swarm.prices]\ngpt-4o = 2.5",
            (
                "[tool.pytest_swarm.prices] has 'gpt-4o' = 2.5; write each entry as a table of its own, such as "
                '[tool.pytest_swarm.prices."openai/gpt-4o"]'
            ),
        ),
    ],
)
def test_anything_else_is_an_error(tmp_path: Path, text: str, answer: str) -> None:
    with pytest.raises(SettingError) as error:
        tables_of(tmp_path, text)
    assert str(error.value) == f"pyproject.toml: {answer}"


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    with pytest.raises(SettingError) as error:
        tables_of(tmp_path, "[tool.pytest_swarm\n")
    assert str(error.value).startswith("pyproject.toml: is not TOML (")
    assert len(str(error.value).splitlines()) == 1


def test_a_file_that_is_no_toml_is_not_our_business_without_our_tables(tmp_path: Path) -> None:
    assert tables_of(tmp_path, "[tool.other\n") == Tables({}, {})


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").mkdir()
    with pytest.raises(SettingError, match=r"^pyproject.toml: cannot be read \(Is a directory\); see "):
        read_tables(tmp_path)


def test_a_file_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"# \xff pytest_swarm")
    with pytest.raises(SettingError, match=r"^pyproject.toml: cannot be read \('utf-8' codec "):
        read_tables(tmp_path)
