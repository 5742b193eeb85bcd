"""A cassette is written so that nothing is lost: not by a kill, not by another process, not the older one."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_swarm.sources.cassette.file import read_cassette
from pytest_swarm.sources.cassette.writer import CassetteWriter
from tests.support.suites import untraced
from tests.unit.cassette.cassette_samples import STREAMED

FORMS = pytest.mark.parametrize("form", ["yaml", "json"])
KILLS = 50


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@FORMS
def test_a_kill_at_any_moment_loses_the_interaction_that_was_being_written_at_most(tmp_path: Path, form: str) -> None:
    command = [sys.executable, "-m", "tests.support.killed_writer", str(tmp_path), form, str(KILLS)]
    run = subprocess.run(
        command,
        cwd=Path(__file__).parents[3],
        env=untraced(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == KILLS
    assert any(not line.startswith("completed 0,") for line in lines), "no kill came after a whole recording"


def test_nothing_is_on_disk_before_the_first_interaction(tmp_path: Path) -> None:
    writer = CassetteWriter(tmp_path / "deep" / "test.yaml")
    writer.leave()
    writer.discard()
    assert list(tmp_path.iterdir()) == []


@FORMS
def test_the_older_cassette_stays_until_the_new_one_is_whole(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"test.{form}"
    older = CassetteWriter(path)
    older.append(STREAMED)
    older.complete()
    newer = CassetteWriter(path)
    for sequence in range(3):
        newer.append(replace(STREAMED, sequence=sequence))
    assert read_cassette(path).interactions == (STREAMED,)
    newer.leave()
    assert read_cassette(path).interactions == (STREAMED,)
    again = CassetteWriter(path)
    again.append(replace(STREAMED, sequence=9))
    again.complete()
    assert [one.sequence for one in read_cassette(path).interactions] == [9]
    assert names(tmp_path) == [path.name]


def test_a_cassette_in_the_other_form_is_replaced(tmp_path: Path) -> None:
    CassetteWriter(tmp_path / "test[1.5].yaml").complete()
    CassetteWriter(tmp_path / "test[1.5].json").complete()
    assert names(tmp_path) == ["test[1.5].json"]


@FORMS
def test_what_is_discarded_leaves_nothing(tmp_path: Path, form: str) -> None:
    writer = CassetteWriter(tmp_path / f"test.{form}")
    writer.append(STREAMED)
    writer.discard()
    assert names(tmp_path) == []


@FORMS
def test_parts_of_several_processes_merge(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"test.{form}"
    writers = [CassetteWriter(path, worker=f"gw{number}", session="s") for number in range(3)]
    for number, writer in enumerate(writers):
        writer.append(replace(STREAMED, agent=number))
        writer.append(replace(STREAMED, agent=9, error=f"by {number}"))
    assert len({writer.part for writer in writers}) == 3
    for writer in writers:
        writer.complete()
    found = read_cassette(path).interactions
    assert sorted(one.agent or 0 for one in found) == [0, 1, 2, 9]
    assert {one.error for one in found if one.agent == 9} == {"by 2"}
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("other", [("gw0", "s"), ("gw1", "later"), ("", "")], ids=["rerun", "later", "alone"])
def test_a_recording_of_its_own_replaces_the_older_one(tmp_path: Path, other: tuple[str, str]) -> None:
    path = tmp_path / "test.yaml"
    for (worker, session), sequence in ((("gw0", "s"), 0), (other, 1)):
        writer = CassetteWriter(path, worker=worker, session=session)
        writer.append(replace(STREAMED, sequence=sequence))
        writer.complete()
    assert [one.sequence for one in read_cassette(path).interactions] == [1]


@FORMS
def test_many_threads_may_write(tmp_path: Path, form: str) -> None:
    writer = CassetteWriter(tmp_path / f"test.{form}")

    def write(agent: int) -> None:
        for sequence in range(20):
            writer.append(replace(STREAMED, agent=agent, sequence=sequence))

    threads = [threading.Thread(target=write, args=(agent,)) for agent in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.complete()
    found = {(one.agent, one.sequence) for one in read_cassette(writer.path).interactions}
    assert (len(found), writer.count) == (160, 160)


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        CassetteWriter(tmp_path / "file" / "test.yaml").append(STREAMED)


@FORMS
def test_a_text_that_no_file_can_hold_is_written_all_the_same(tmp_path: Path, form: str) -> None:
    writer = CassetteWriter(tmp_path / f"test.{form}")
    writer.append(replace(STREAMED, error="half a character: \ud83d"))
    writer.complete()
    (found,) = read_cassette(writer.path).interactions
    assert found.error == "half a character: ?"
