"""Rows reach the file whatever happens to the process that makes them."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.errors import SwarmError
from pytest_swarm.rowfile import RowFile, encode, read_encoded, read_rows

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
rows = st.dictionaries(st.text(), scalars | st.lists(scalars, max_size=3), max_size=5)

KILLED_WHILE_BLOCKED = """
import asyncio, sys, time
from pathlib import Path
from pytest_swarm.rowfile import RowFile

async def main():
    file = RowFile(sys.argv[1])
    for index in range(1000):
        file.task({"index": index})
    # The loop is blocked from here on; only the thread can write.
    while not Path(sys.argv[1]).stat().st_size:
        time.sleep(0.01)
    print("written", flush=True)
    while True:
        time.sleep(0.01)

asyncio.run(main())
"""


def finite(value):
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@given(st.lists(st.tuples(st.sampled_from(["task", "call"]), rows), max_size=5))
def test_rows_come_back_as_they_were_given_with_null_for_what_is_not_finite(tmp_path_factory, given_rows):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    with RowFile(path) as file:
        for kind, row in given_rows:
            getattr(file, kind)(row)
    assert list(read_rows(path)) == [{kind: finite(row)} for kind, row in given_rows]
    for kind in ("task", "call"):
        expected = [finite(row) for of, row in given_rows if of == kind]
        assert [json.loads(text) for text in read_encoded(path, kind)] == expected


def test_numbers_keep_their_full_precision():
    assert json.loads(encode({"x": 0.1 + 0.2})) == {"x": 0.1 + 0.2}


def test_not_finite_numbers_are_null_at_any_depth():
    assert encode({"a": [math.nan, (math.inf, 1.5)], "b": {"c": -math.inf, "d": "x"}}) == (
        '{"a": [null, [null, 1.5]], "b": {"c": null, "d": "x"}}'
    )


def test_a_killed_process_leaves_its_rows_although_its_loop_was_blocked(tmp_path):
    path = tmp_path / "rows.jsonl"
    child = subprocess.Popen([sys.executable, "-c", KILLED_WHILE_BLOCKED, path], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "written\n"
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
    assert child.returncode == -signal.SIGKILL
    found = [row["task"]["index"] for row in read_rows(path)]
    # Only the last write may have been cut, and the rows before it are whole and in order.
    assert found
    assert found == list(range(len(found)))


def test_flush_makes_the_rows_readable_while_the_file_is_open(tmp_path):
    with RowFile(tmp_path / "rows.jsonl") as file:
        file.call({"task": 3})
        file.flush()
        assert list(read_rows(file.path)) == [{"call": {"task": 3}}]


def test_the_thread_starts_with_the_first_row_and_ends_at_close(tmp_path):
    def ours():
        return [thread for thread in threading.enumerate() if thread.name == "swarm-rows"]

    file = RowFile(tmp_path / "rows.jsonl")
    assert ours() == []
    file.task({})
    [thread] = ours()
    assert thread.daemon
    file.close()
    assert ours() == []


def test_rows_of_many_threads_are_all_there(tmp_path):
    path = tmp_path / "rows.jsonl"

    def write(worker):
        for index in range(200):
            file.task({"worker": worker, "index": index})
            if index % 20 == 0:
                file.flush()

    with RowFile(path) as file:
        threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [(row["task"]["worker"], row["task"]["index"]) for row in read_rows(path)]
    assert sorted(found) == [(worker, index) for worker in range(4) for index in range(200)]
    assert all([index for of, index in found if of == worker] == list(range(200)) for worker in range(4))


def test_closing_twice_is_closing_once(tmp_path):
    file = RowFile(tmp_path / "rows.jsonl")
    file.task({})
    file.close()
    file.close()
    assert len(list(read_rows(file.path))) == 1


def test_a_row_after_closing_is_an_error(tmp_path):
    file = RowFile(tmp_path / "rows.jsonl")
    file.close()
    with pytest.raises(ValueError, match=r"a row came after .*rows\.jsonl was closed"):
        file.call({})


def test_parent_directories_are_made(tmp_path):
    with RowFile(tmp_path / "a" / "b" / "rows.jsonl") as file:
        file.task({})
    assert len(list(read_rows(file.path))) == 1


def test_a_file_that_cannot_be_opened_is_one_clear_error(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(SwarmError, match=r"^rows cannot be written to .*taken/rows\.jsonl: (File exists|Not a dir)"):
        RowFile(tmp_path / "taken" / "rows.jsonl")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_once_at_close_and_does_not_disturb_before():
    file = RowFile("/dev/full")
    for _ in range(3):
        file.task({"index": 1})
        file.flush()
    with pytest.raises(SwarmError, match=r"^rows are missing in /dev/full: No space left on device$"):
        file.close()
    file.close()


@pytest.mark.parametrize("whole", [0, 1, 3, 3000])
@pytest.mark.parametrize("torn", [b"", b'{"task"', b'{"task": {"index": "' + b"x" * 200_000])
def test_a_torn_last_line_is_left_out_and_cut_off_when_more_rows_follow(tmp_path, whole, torn):
    path = tmp_path / "rows.jsonl"
    with RowFile(path) as file:
        for index in range(whole):
            file.task({"index": index})
    with path.open("ab") as raw:
        raw.write(torn)
    expected = [{"task": {"index": index}} for index in range(whole)]
    assert list(read_rows(path)) == expected
    assert len(list(read_encoded(path, "task"))) == whole
    with RowFile(path) as file:
        file.call({"task": 0})
    assert list(read_rows(path)) == [*expected, {"call": {"task": 0}}]


@pytest.mark.parametrize("line", ["not json", "[1]", "{}", '{"task": {}, "call": {}}', '{"other": {}}'])
def test_a_whole_line_that_is_no_row_is_an_error_that_names_the_line(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"task": {{}}}}\n{line}\n')
    with pytest.raises(SwarmError, match=r"rows\.jsonl, line 2: expected a row of a task or a call, found"):
        list(read_rows(path))
