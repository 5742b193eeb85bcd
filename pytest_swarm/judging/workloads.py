"""Workloads: named sets of service levels, and how far a measured model is from meeting them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.judging.sla import Expression, parse
from pytest_swarm.values import shown

if TYPE_CHECKING:
    from pytest_swarm.judging.metrics import SwarmMetrics

__all__ = ["NOT_MEASURABLE", "Criterion", "Fit", "Workload", "fit_of", "margin_of", "parse_workloads"]

NOT_MEASURABLE: Final = "not measurable"
"""How a criterion is written that no measurement can tell: ``"not measurable: team size"``."""

_KEYS: Final = ("sla", "note")

CriterionVerdict = Literal["pass", "fail", "invalid", "not measurable"]
FitVerdict = Literal["meets", "fails", "unknown", "not measurable"]


@dataclass(frozen=True, slots=True)
class Workload:
    """A named set of criteria."""

    name: str
    criteria: tuple[Expression | str, ...]
    """In the order in which they are written; a text is what is not measurable."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Criterion:
    """How one criterion of a workload came out. Figures are in base units; None is unknown."""

    criterion: str
    """The expression, or what is not measurable."""
    verdict: CriterionVerdict
    metric: str | None = None
    op: str | None = None
    threshold: float | None = None
    observed: float | None = None
    margin: float | None = None
    """See `margin_of`."""
    reason: str = ""
    """Why the figure is unknown."""

    def to_dict(self) -> dict[str, Any]:
        """The entry of the JSON report."""
        return {
            "criterion": self.criterion,
            "verdict": self.verdict,
            "metric": self.metric,
            "op": self.op,
            "threshold": self.threshold,
            "observed": self.observed,
            "margin": self.margin,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether what was measured meets a workload."""

    workload: Workload
    criteria: tuple[Criterion, ...]

    @property
    def verdict(self) -> FitVerdict:
        """What failed outweighs what could not be told; what is not measurable is left to the reader."""
        verdicts = {criterion.verdict for criterion in self.criteria}
        if "fail" in verdicts:
            return "fails"
        if "invalid" in verdicts:
            return "unknown"
        return "meets" if "pass" in verdicts else "not measurable"

    @property
    def margin(self) -> float | None:
        """The smallest margin of its criteria; None where the fit is not known, or no criterion has one."""
        margins = [criterion.margin for criterion in self.criteria if criterion.margin is not None]
        return min(margins, default=None) if self.verdict in ("meets", "fails") else None

    def to_dict(self) -> dict[str, Any]:
        """The entry of the JSON report."""
        return {
            "workload": self.workload.name,
            "note": self.workload.note,
            "verdict": self.verdict,
            "margin": self.margin,
            "criteria": [criterion.to_dict() for criterion in self.criteria],
        }


def parse_workloads(table: Mapping[str, object]) -> tuple[Workload, ...]:
    """Read ``[tool.pytest_swarm.workloads]``: by name a list of SLA expressions, or a table with `sla` and `note`.

    Raises:
        SettingError: an entry is not allowed; the sentence names it, what is allowed and the nearest spelling.
    """
    return tuple(_workload(name, entry) for name, entry in table.items())


def _workload(name: str, entry: object) -> Workload:
    where = f"[tool.pytest_swarm.workloads] {name}"
    if not name.strip():
        raise SettingError("[tool.pytest_swarm.workloads] has an entry without a name; give each workload one")
    fields = entry if isinstance(entry, Mapping) else {"sla": entry}
    for key in fields:
        if key not in _KEYS:
            raise SettingError(f"{where}: unknown key {key!r}; allowed are {', '.join(_KEYS)}{nearest(key, _KEYS)}")
    note = fields.get("note", "")
    if not isinstance(note, str):
        raise SettingError(f"{where}: note is {shown(note)}; write a text")
    lines = fields.get("sla")
    if not isinstance(lines, list | tuple) or not lines:
        found = "has no sla" if "sla" not in fields else f"is {shown(lines)}"
        raise SettingError(f'{where} {found}; write a list of service levels such as ["p99 < 3s"]')
    return Workload(name, tuple(_criterion(line, where) for line in lines), note.strip())


def _criterion(line: object, where: str) -> Expression | str:
    if not isinstance(line, str):
        raise SettingError(f"{where}: {shown(line)} is no service level; write a text such as 'p99 < 3s'")
    head, colon, rest = line.partition(":")
    if " ".join(head.split()).lower() == NOT_MEASURABLE:
        if not rest.strip():
            raise SettingError(f"{where}: {shown(line)} does not say what; write such as '{NOT_MEASURABLE}: team size'")
        return rest.strip()
    try:
        expression = parse(line)
    except SettingError as error:
        meant = nearest(head.strip().lower(), (NOT_MEASURABLE,)) if colon else ""
        raise SettingError(f"{where}: {error}{meant}") from None
    if expression.baseline:
        raise SettingError(f"{where}: {line!r} compares with a baseline; a workload names a value of its own")
    return expression


def fit_of(workload: Workload, metrics: SwarmMetrics) -> Fit:
    """How what was measured fits the workload. A figure without data is unknown, and never meets anything."""
    return Fit(workload, tuple(_came_out(criterion, metrics) for criterion in workload.criteria))


def _came_out(criterion: Expression | str, metrics: SwarmMetrics) -> Criterion:
    if isinstance(criterion, str):
        return Criterion(criterion, "not measurable")
    seen, threshold = metrics.observe(criterion.metric), criterion.threshold
    assert threshold is not None  # `parse_workloads` takes no baseline
    if seen.value is None:
        verdict: CriterionVerdict = "invalid"
    else:
        verdict = "pass" if criterion.holds(seen.value, threshold) else "fail"
    return Criterion(
        str(criterion),
        verdict,
        str(criterion.metric),
        criterion.op,
        threshold,
        seen.value,
        None if seen.value is None else margin_of(criterion.op, seen.value, threshold),
        seen.reason,
    )


def margin_of(op: str, observed: float, threshold: float) -> float | None:
    """How far a figure is on the right side of a threshold, as a share of it: 0.25 for 9 s where ``< 12s`` is asked.

    Negative on the wrong side. None for a threshold of 0, of which nothing is a share, and for ``==`` and ``!=``.
    """
    if not threshold or op in ("==", "!="):
        return None
    distance = threshold - observed if op.startswith("<") else observed - threshold
    return distance / abs(threshold)
