"""From a judgement to what pytest knows: pass, skip, or a failure with one clear block of text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.outcomes import Failed

if TYPE_CHECKING:
    from pytest_swarm.judging.verdict import Judgement
    from pytest_swarm.trial import Trial

__all__ = ["SwarmFailed", "SwarmInvalid", "conclude"]

PACKAGE = Path(__file__).parent


class SwarmFailed(Failed):
    """The swarm did not meet what was asked of it."""

    __module__ = "pytest_swarm"


class SwarmInvalid(SwarmFailed):
    """The swarm cannot be judged: something was not measured."""

    __module__ = "pytest_swarm"


def conclude(item: pytest.Function, trial: Trial) -> None:
    """Judge the trial and end the test accordingly."""
    __tracebackhide__ = True
    judgement = trial.conclude(item.nodeid.partition("[")[0])
    errors = trial.conductor.errors
    if judgement.verdict == "skipped":
        raise errors["skipped"]
    if trial.recorder is not None and trial.recorder.problem is not None:
        trial.recorder.told = True
        raise SwarmFailed(f"swarm: {trial.recorder.problem}", pytrace=False)
    if judgement.verdict == "pass":
        return
    if trial.replaying is not None:
        trial.replaying.told = True
    error = next(
        (errors[status] for status in ("failed", "timeout", "json_invalid", "schema_invalid") if status in errors), None
    )
    if error is not None and _expected(item, error):
        raise error
    text = "\n".join(_block(judgement, error))
    raise (SwarmInvalid if judgement.verdict == "invalid" else SwarmFailed)(text, pytrace=False)


def _expected(item: pytest.Function, error: BaseException) -> bool:
    """Whether xfail waits for this very exception, or the body called `pytest.xfail`."""
    if isinstance(error, pytest.xfail.Exception):
        return True
    awaited = [mark.kwargs["raises"] for mark in item.iter_markers("xfail") if mark.kwargs.get("raises") is not None]
    return any(isinstance(error, kinds) for kinds in awaited)


def _block(judgement: Judgement, error: BaseException | None) -> list[str]:
    word = "INVALID" if judgement.verdict == "invalid" else "FAILED"
    first, *others = judgement.reasons or ["no reason was given"]
    lines = [f"swarm {word}: {first}", *(f"  {reason}" for reason in others)]
    if error is not None and judgement.verdict == "fail":
        lines += ["", "the first of these errors:", *_traceback(error)]
    return lines


def _traceback(error: BaseException) -> list[str]:
    """The error as pytest shows it, from the test body on."""
    if error.__traceback__ is None:
        # Never raised: a body that was left behind when its time was over.
        return [f"E   {error}"]
    info = pytest.ExceptionInfo.from_exception(error)
    body = info.traceback.filter(lambda entry: PACKAGE not in Path(str(entry.path)).parents)
    if not body:
        return [f"E   {error}"]
    info.traceback = body
    return str(info.getrepr(style="short", funcargs=False, chain=False)).splitlines()
