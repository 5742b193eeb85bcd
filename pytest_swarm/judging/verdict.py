"""From figures to verdicts: for each SLA line, and for the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pytest_swarm.columns import SwarmResult
from pytest_swarm.judging.baseline import NO_BASELINE, Baseline, NoBaseline, against
from pytest_swarm.judging.distortion import distortion
from pytest_swarm.judging.metrics import SwarmMetrics
from pytest_swarm.judging.proof import claim_of, samples_of
from pytest_swarm.judging.sla import Expression, TaskBound
from pytest_swarm.judging.statistics import samples_needed
from pytest_swarm.judging.told import told

__all__ = ["CONFIDENCE", "Judgement", "LineVerdict", "SlaLine", "Verdict", "judge"]

Verdict = Literal["pass", "fail", "invalid", "skipped", "interrupted"]
LineVerdict = Literal["pass", "fail", "invalid"]

CONFIDENCE: Final = 0.95
"""Of every bound, where nothing else is asked for."""

_LIFTED_BY: Final = {
    "success_rate": frozenset({"failed", "timeout", "json_invalid", "schema_invalid", "shed"}),
    "error_rate": frozenset({"failed", "timeout", "json_invalid", "schema_invalid", "shed"}),
    "json_valid_rate": frozenset({"json_invalid"}),
    "schema_valid_rate": frozenset({"json_invalid", "schema_invalid"}),
}
"""Which tasks need not pass when there is a line on a metric. JSON that is invalid does not fit a schema either."""


@dataclass(frozen=True, slots=True)
class SlaLine:
    """How one SLA expression came out. Figures are in base units; None is unknown."""

    expression: str
    metric: str
    observed: float | None
    threshold: float | None
    op: str
    verdict: LineVerdict
    reason: str
    """Why it is not a pass, in one sentence; empty for a pass."""
    lower: float | None
    """What the true figure is not below, with the confidence of the judgement."""
    upper: float | None
    """What the true figure is not above, with the confidence of the judgement."""
    note: str = ""
    """What the samples cannot prove, if they are too few."""
    confidence: float | None = None
    """That with which the level had to be proven; None where what was observed decided."""

    def to_dict(self) -> dict[str, Any]:
        """The entry of the JSON report."""
        return {
            "expression": self.expression,
            "metric": self.metric,
            "observed": self.observed,
            "threshold": self.threshold,
            "op": self.op,
            "verdict": self.verdict,
            "reason": self.reason,
            "lower": self.lower,
            "upper": self.upper,
            "note": self.note,
            "confidence": self.confidence,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Judgement:
    """What became of a test."""

    verdict: Verdict
    lines: list[SlaLine]
    reasons: list[str]
    """Why the verdict is not `pass`: one sentence each, what failed before what could not be told."""
    metrics: SwarmMetrics
    """What the lines were judged by."""
    confidence: float = CONFIDENCE
    """Of the bounds, each side."""

    def __bool__(self) -> bool:
        return self.verdict == "pass"

    def __str__(self) -> str:
        return f"{self.verdict}: {'; '.join(self.reasons)}" if self.reasons else self.verdict

    def __repr__(self) -> str:
        # What a failed `assert result.judge(...)` shows.
        return f"<{self}>"


def judge(
    result: SwarmResult,
    expressions: Sequence[Expression],
    *,
    per_task: Sequence[TaskBound] = (),
    json_expected: bool = False,
    interrupted: bool = False,
    confidence: float = CONFIDENCE,
    baseline: Baseline | NoBaseline = NO_BASELINE,
) -> Judgement:
    """Judge a swarm by its SLA lines, and by the demand that every task passes unless a line says otherwise.

    What failed outweighs what could not be told (`invalid`): a metric without data, a run that ended early, JSON that
    was asked for (`json_expected`) and never came to be checked. `interrupted` says that the user stopped the swarm:
    that is then the verdict, whatever its part shows. A run that a cost ceiling ended is invalid in the same way.
    `baseline` is what lines with that word compare with.
    """
    metrics = SwarmMetrics(result, per_task)
    statuses: Counter[str] = sum((run.tasks.statuses for run in metrics.runs), Counter())
    early = list(_ended_early(result))
    over_budget = any(run.over_budget for run in result.runs)
    if statuses and set(statuses) == {"skipped"} and not interrupted and not over_budget:
        return Judgement("skipped", [], [_all_skipped(result, statuses.total())], metrics, confidence)
    lines = [_line(expression, metrics, confidence, baseline) for expression in expressions]
    failed = [line.reason for line in lines if line.verdict == "fail"]
    failed += _not_passed(statuses, expressions)
    unknown = [line.reason for line in lines if line.verdict == "invalid"]
    if not any(run.tasks.counted for run in metrics.runs):
        unknown.insert(0, f"nothing was measured: no task was finished{_told(statuses)}")
    elif json_expected and not any(run.calls.checked_as_json for run in metrics.runs):
        unknown.append("json_output asks for JSON, and no reply came to be checked")
    reasons = list(dict.fromkeys([*early, *failed, *unknown] if over_budget else [*failed, *early, *unknown]))
    if interrupted:
        verdict: Verdict = "interrupted"
        reasons = reasons or ["the swarm was interrupted"]
    else:
        verdict = "fail" if failed and not over_budget else "invalid" if reasons else "pass"
    return Judgement(verdict, lines, reasons, metrics, confidence)


def _line(expression: Expression, metrics: SwarmMetrics, confidence: float, baseline: Baseline | NoBaseline) -> SlaLine:
    metric, threshold, note = expression.metric, expression.threshold, ""
    demanded = expression.confidence
    confidence = confidence if demanded is None else demanded
    seen = metrics.observe(metric)
    lower, upper = (None, None) if seen.value is None else metrics.bounds(metric, confidence)
    verdict: LineVerdict = "invalid"
    if seen.value is None:
        reason = f"{expression}: {seen.reason}"
    elif threshold is None:
        compared = against(baseline, expression, metrics, seen.value, 1 - confidence)
        threshold, verdict, note = compared.threshold, compared.verdict, compared.note
        reason = "" if verdict == "pass" else f"{expression}: {compared.reason}"
    elif expression.holds(seen.value, threshold):
        doubt = "" if demanded is None else _doubt(expression, metrics, seen.value, threshold)
        verdict, reason = ("invalid", f"{expression}: {doubt}") if doubt else ("pass", "")
    else:
        verdict, reason = "fail", f"{expression}: it is {told(seen.value, metric.dimension, threshold)}"
    if seen.value is not None and threshold is not None and verdict != "invalid":
        own = distortion(expression, seen.value, threshold, metrics)
        verdict, reason = ("invalid", f"{expression}: {own}") if own else (verdict, reason)
    if seen.value is not None and not expression.baseline and demanded is None:
        note = _unproven(expression, metrics, lower, upper, confidence)
    return SlaLine(
        str(expression),
        str(metric),
        seen.value,
        threshold,
        expression.op,
        verdict,
        reason,
        lower,
        upper,
        note,
        demanded,
    )


def _doubt(expression: Expression, metrics: SwarmMetrics, value: float, threshold: float) -> str:
    """Why a level that was met is not proven as surely as it asks for; empty where it is, or has no bound."""
    claim, confidence = claim_of(expression, metrics), expression.confidence
    assert confidence is not None
    if claim is None or claim.proven(confidence):
        return ""
    observed, things = told(value, expression.metric.dimension, threshold), samples_of(expression.metric)
    doubt = f"it is {observed}, which {claim.n} {things} do not prove at {confidence * 100:g} %"
    needed = claim.samples_needed(confidence)
    if needed is None:
        return f"{doubt}; so close to the level, no number of {things} would"
    return f"{doubt}; some {needed} {things} would, if they are no worse"


def _unproven(
    expression: Expression, metrics: SwarmMetrics, lower: float | None, upper: float | None, confidence: float
) -> str:
    """That the samples are too few to prove a percentile, whatever they are."""
    metric, upwards = expression.metric, expression.op in ("<", "<=")
    percentile = metric.percentile
    bound = upper if upwards else lower
    if percentile is None or bound is not None or expression.op in ("==", "!="):
        return ""
    side = percentile if upwards else 100 - percentile
    claim = f"{samples_of(metric)} can{{}} prove a {metric.statistic}"
    if side >= 100:
        return f"no number of {claim.format('')}"
    needed = samples_needed(side, confidence)
    return f"{metrics.size(metric)} {claim.format('not')} ({needed} needed at {confidence * 100:g} %)"


def _not_passed(statuses: Counter[str], expressions: Sequence[Expression]) -> list[str]:
    """The demand that every task passes, as far as no line lifts it. A line on the calls of one name lifts nothing."""
    lifted = frozenset().union(
        *(_LIFTED_BY.get(one.metric.name, frozenset()) for one in expressions if one.metric.call_name is None)
    )
    bad = Counter(
        {
            status: many
            for status, many in statuses.items()
            if status not in ("passed", "skipped", "cancelled") and status not in lifted
        }
    )
    if not bad:
        return []
    counted = statuses.total() - statuses["skipped"] - statuses["cancelled"]
    names = [
        "success_rate",
        *(name for name in ("json_valid_rate", "schema_valid_rate") if _LIFTED_BY[name] >= set(bad)),
    ]
    verb = "task" if counted == 1 else "tasks"
    return [
        f"{bad.total()} of {counted} {verb} did not pass{_told(bad)}, and no line on {' or '.join(names)} allows that"
    ]


def _ended_early(result: SwarmResult) -> Iterator[str]:
    for run in result.runs:
        if run.interrupted is not None:
            which = "the run" if len(result.runs) == 1 else f"run {run.index}"
            yield f"{which} ended early: {run.interrupted}"


def _all_skipped(result: SwarmResult, many: int) -> str:
    examples = (run.task_failures["skipped"].example for run in result.runs if "skipped" in run.task_failures)
    example = next(examples, "")
    return f"all {many} tasks were skipped" + (f": {example}" if example else "")


def _told(statuses: Counter[str]) -> str:
    return f" ({', '.join(f'{many} {status}' for status, many in statuses.items())})" if statuses else ""
