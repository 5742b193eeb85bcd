"""The recordings that come with the repository: their suites pass without a server, and say what they are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_swarm.sources.cassette.file import read_cassette

ROOT = Path(__file__).parents[2]
CASSETTES = sorted((ROOT / "cassettes").rglob("*.yaml"))
ENGINE = "test_offline_replay"
"""The one suite that a real engine has answered; the simulated gateway has answered the others."""
MOST = 15_000_000
"""Bytes of all cassettes together."""


def test_example_suites_pass_in_a_replay(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    report = tmp_path / "report.json"
    options = ("-p", "no:cacheprovider", "--swarm-replay", f"--swarm-json={report}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "example_suites"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("SWARM_")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    tests = json.loads(report.read_text())["tests"]
    assert {test["gateway"]["kind"] for test in tests} == {"replay"}
    assert {Path(test["replay"]["cassette"]) for test in tests} == {path.relative_to(ROOT) for path in CASSETTES}
    for test in tests:
        replay = test["replay"]
        assert (replay["missed"], replay["unused"], test["clock"]) == (0, 0, "virtual"), test["nodeid"]
        assert (replay["simulated"] is None) == (ENGINE in test["nodeid"])
    recorded = {path.relative_to(ROOT / "cassettes").parent for path in CASSETTES}
    skipped = set(re.findall(r"no recording of (\S+) is kept in cassettes/", done.stdout))
    kept = {path.with_suffix("").relative_to(ROOT).as_posix() for path in (ROOT / "example_suites").glob("test_*.py")}
    assert skipped <= kept - {path.as_posix() for path in recorded}


@pytest.mark.parametrize("path", CASSETTES, ids=lambda path: path.stem)
def test_every_cassette_is_complete_and_says_where_it_comes_from(path: Path) -> None:
    cassette = read_cassette(path)
    assert cassette.complete
    assert cassette.timed
    assert cassette.recorded_at is not None
    # Who never answered could not say what it is.
    sources = {one.source for one in cassette.interactions if one.status is not None}
    assert sources == ({"live"} if path.stem == ENGINE else {"simulated"})
    assert all(one.began is not None for one in cassette.interactions)


def test_together_they_stay_small_enough_for_a_repository() -> None:
    assert 0 < sum(path.stat().st_size for path in CASSETTES) < MOST
