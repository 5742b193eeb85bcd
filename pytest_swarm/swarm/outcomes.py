"""What an exception that leaves a test body says about its task."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import dataclass

from pytest_swarm.errors import InvalidJSON
from pytest_swarm.redaction import redact_text

__all__ = ["ReturnedValue", "TestOutcomes", "describe", "status_of"]

MESSAGE_LENGTH = 300


class ReturnedValue(Exception):
    """A test body returned something: it was probably meant to be an assertion."""


@dataclass(frozen=True, slots=True)
class TestOutcomes:
    """The exception types with which the test framework skips and stops; filled in by the plugin."""

    __test__ = False  # not a test class, whatever its name looks like

    skip: type[BaseException]
    stop: tuple[type[BaseException], ...]
    """Those that end the whole session, `pytest.exit` for example."""


def status_of(error: BaseException, outcomes: TestOutcomes) -> str | None:
    """The task's status, or None when the exception must stop the whole run."""
    if isinstance(error, outcomes.stop):
        return None
    if isinstance(error, outcomes.skip):
        return "skipped"
    if isinstance(error, InvalidJSON):
        return "schema_invalid" if error.status == "schema_invalid" else "json_invalid"
    return "failed"


def describe(error: BaseException) -> str:
    """One line: where in the body it was raised, its type, the first line of its text; secrets removed."""
    if isinstance(error, asyncio.CancelledError):
        return "the body cancelled its own task"
    text = str(error).strip().partition("\n")[0]
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "pytest_swarm" not in frame.filename.replace("\\", "/").split("/")]
    if ours:
        name = ours[0].filename.replace("\\", "/").rpartition("/")[2]
        line = f"{name}:{ours[0].lineno}: {line}"
    line = redact_text(line)
    return line if len(line) <= MESSAGE_LENGTH else line[: MESSAGE_LENGTH - 1] + "…"
