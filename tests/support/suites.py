"""Running a suite of swarm tests in a pytest of its own, against a server on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 120.0
"""Bound of one run of pytest."""

INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"


def untraced() -> dict[str, str]:
    """The environment without coverage's variables: what is timed must not be traced."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


@dataclass(frozen=True)
class SuiteRun:
    """What pytest printed, and the JSON report."""

    output: str
    report: dict[str, Any]

    def test(self, name: str) -> dict[str, Any]:
        """The report of the one test whose node id ends with `name`."""
        found: dict[str, Any]
        (found,) = (test for test in self.report["tests"] if test["nodeid"].endswith(f"::{name}"))
        return found


def run_suite(
    directory: Path, suite: str, *, base_url: str | None = None, model: str | None = None, exit_code: int = 0
) -> SuiteRun:
    """Run `suite`, the text of a test module, in `directory`; it must end with `exit_code`.

    Without a `base_url` it is simulated in its own process; without a `model` the suite names one itself.
    """
    (directory / "pytest.ini").write_text(INI, encoding="utf-8")
    (directory / "test_suite.py").write_text(suite, encoding="utf-8")
    report = directory / "report.json"
    options = [f"--swarm-json={report}"]
    options += [] if base_url is None else [f"--swarm-base-url={base_url}"]
    options += [] if model is None else [f"--swarm-model={model}"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=directory,
        env=untraced(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert run.returncode == exit_code, run.stdout
    return SuiteRun(run.stdout, json.loads(report.read_text(encoding="utf-8")))
