"""One test in the terminal summary: verdict, plan, source of the replies, figures, service levels, failures, notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_swarm.judging.catalogue import Dimension
from pytest_swarm.judging.sla import parse_metric
from pytest_swarm.reports.audit import audit_items
from pytest_swarm.reports.baselined import baseline_lines
from pytest_swarm.reports.ceiling import ceiling_lines
from pytest_swarm.reports.figures import (
    cells,
    count,
    ellipsis_end,
    ellipsis_middle,
    figure,
    one_line,
)
from pytest_swarm.reports.layout import BODY, GAP, Line, ends, flow, labelled, table, wrapped
from pytest_swarm.reports.load import load_items, plan_items, settled_items
from pytest_swarm.reports.replayed import replay_line
from pytest_swarm.reports.search import search_lines

__all__ = ["block_lines"]

Record = Mapping[str, Any]

_GOOD: Final = {"green": True}
_BAD: Final = {"red": True}
_DOUBTFUL: Final = {"yellow": True}
_MARKUP: Final[Mapping[str, Mapping[str, bool]]] = {
    "pass": _GOOD,
    "fail": _BAD,
    "invalid": _DOUBTFUL,
    "skipped": _DOUBTFUL,
    "error": _BAD,
    "interrupted": _BAD,
}
_MARK: Final = {"pass": "pass", "fail": "FAIL", "invalid": "INVALID"}
_WORST: Final = {
    "latency.p50": "p50",
    "latency.p95": "p95",
    "latency.p99": "p99",
    "success_rate": "success",
    "throughput": "throughput",
}
"""Of what the worst run is told."""
_MARKS: Final = 7
"""Columns of the mark before a service level."""
_INDENT: Final = " " * (_MARKS + len(GAP))
_SHORTEST_LEVEL: Final = 24
"""Columns that a service level keeps for itself; the bound beside it is left out before."""


def block_lines(record: Record, width: int) -> Iterator[Line]:
    """The lines of one test record, none of them wider than `width`."""
    body = width - BODY
    yield _name(record, width)
    if record["metrics"] and record["verdict"] != "skipped":
        yield from labelled("plan", flow(plan_items(record["plan"], record["in_flight_max"]), body))
        yield from labelled("load", flow(load_items(record["runs"]), body))
        yield from labelled("adapted", flow(settled_items(record["runs"]), body))
        yield from labelled("client", flow(audit_items(record["audit"]), body))
        yield from _source(record, body)
        yield from _figures(record, body)
        yield from labelled("baseline", baseline_lines(record["baseline"], body))
        if record["search"] is not None:
            yield from search_lines(record["search"], body)
    yield from _levels(record, body)
    told = {line["reason"] for line in record["sla"]}
    for reason in record["reasons"]:
        if reason not in told:
            yield from labelled("why", wrapped(reason, body), _MARKUP[record["verdict"]])
    yield from labelled("not ok", _failures(record["failures"], body))
    yield from labelled("json", _json_errors(record["json_errors"], body))
    for note in record["notes"]:
        yield from labelled("note", wrapped(note, body))


def _name(record: Record, width: int) -> Line:
    verdict = record["verdict"].upper()
    if record["replay"]:
        verdict += " (REPLAY)"
    elif record["simulated"]:
        verdict += " (SIMULATED)"
    nodeid = ellipsis_middle(one_line(record["nodeid"]), width - cells(verdict) - 2)
    return Line(ends(nodeid, verdict, width), {**_MARKUP[record["verdict"]], "bold": True})


def _source(record: Record, width: int) -> Iterator[Line]:
    gateway = record["gateway"]
    if record["replay"]:
        yield from labelled("source", wrapped(replay_line(record), width), {**_DOUBTFUL, "bold": True})
        return
    if record["simulated"]:
        # Capitals and colour: nobody may take these figures for a model's.
        loud = f"SIMULATED: {one_line(record['simulated'])}; no model was called"
        yield from labelled("source", wrapped(loud, width), {**_DOUBTFUL, "bold": True})
        return
    where = f" {one_line(gateway['base_url'])}" if gateway["base_url"] else ""
    items = [f"{gateway['kind']}{where}", f"{record['clock']} time"]
    if record["model"]:
        items.append(one_line(record["model"]))
    yield from labelled("source", flow(items, width))


def _figures(record: Record, width: int) -> Iterator[Line]:
    metrics: Mapping[str, float | None] = record["metrics"]

    def shown(metric: str) -> str:
        return figure(metric, metrics.get(metric))

    yield from labelled("latency", _percentiles(record, "latency", width))
    if metrics.get("ttft.p50") is not None:
        yield from labelled("ttft", _percentiles(record, "ttft", width))
    success = [f"{shown('success_rate')} of {_offered(record)}", f"throughput {shown('throughput')}"]
    if metrics.get("steady_throughput") is not None:
        success.append(f"steady {shown('steady_throughput')}")
    yield from labelled("success", flow(success, width))
    calls = [shown("calls")]
    if metrics.get("retries"):
        calls.append(count(int(metrics["retries"] or 0), "retry", "retries"))
    if metrics.get("queued.max"):
        calls.append(f"held back by the limit p50 {shown('queued.p50')}, p95 {shown('queued.p95')}")
    calls.append(f"tokens per task {shown('input_tokens.mean')} in, {shown('output_tokens.mean')} out")
    yield from labelled("calls", flow(calls, width))
    cost = [shown("cost")]
    if metrics.get("cost_per_100") is not None:
        cost.append(f"{shown('cost_per_100')} per 100 tasks")
    if metrics.get("cost") is not None:
        cost += _reported(record)
    yield from labelled("cost", flow(cost, width))
    if record["ceiling"] is not None:
        yield from ceiling_lines(record["ceiling"], width + BODY)
    yield from labelled("worst run", flow(_worst_run(record["runs"]), width))


def _reported(record: Record) -> list[str]:
    """Whose word the cost is, where it is the gateway's: our own prices need no label."""
    sources: Mapping[str, int] = record["cost_sources"]
    reported = sources.get("reported", 0)
    if not reported:
        return []
    whole = reported == sum(sources.values())
    return ["as the gateway reports" if whole else f"{count(reported, 'call')} as the gateway reports"]


def _offered(record: Record) -> str:
    """What the success rate is a share of."""
    counted = record["metrics"].get("tasks")
    shed = sum(run["load"]["shed"] for run in record["runs"])
    return "unknown tasks" if counted is None else count(int(counted) + shed, "task")


def _percentiles(record: Record, name: str, width: int) -> list[str]:
    """Percentiles, and below them the bounds that the samples prove."""
    metrics = [f"{name}.p50", f"{name}.p95", f"{name}.p99"]
    seen = [f"{metric[-3:]} {figure(metric, record['metrics'].get(metric))}" for metric in metrics]
    bounds = [record["bounds"].get(metric) for metric in metrics]
    if bounds == [None, None, None]:
        return flow(seen, width)
    proven = [
        f"<= {figure(metric, bound)}" if bound is not None else "no bound"
        for metric, bound in zip(metrics, bounds, strict=True)
    ]
    confidence = f"with {_percent(record['confidence'])} confidence"
    lines = table([[*seen, ""], [*proven, confidence]], ">>><")
    return lines if _widest(lines) <= width else [*flow(seen, width), *flow([*proven, confidence], width)]


def _worst_run(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The worst of every figure over several runs."""
    if len(runs) < 2:
        return []
    items = []
    for name, text in _WORST.items():
        known = [run["metrics"][name] for run in runs if run["metrics"].get(name) is not None]
        if known:
            worst = min if parse_metric(name).higher_is_better else max
            items.append(f"{text} {figure(name, worst(known))}")
    return items


def _levels(record: Record, width: int) -> Iterator[Line]:
    """The service levels: a row for each, and what there is to say about it below."""
    lines = record["sla"]
    if not lines:
        return
    observed = [_observed(line) for line in lines]
    bounds = [_bound(line, line["confidence"] or record["confidence"]) for line in lines]
    room = width - len(_INDENT) - _widest(observed) - len(GAP)
    if room - _widest(bounds) - len(GAP) >= _SHORTEST_LEVEL:
        room -= _widest(bounds) + len(GAP)
    else:
        bounds = ["" for _ in bounds]
    marks = [f"{_MARK[line['verdict']]:<{_MARKS}}" for line in lines]
    levels = [ellipsis_middle(one_line(line["expression"]), room) for line in lines]
    rows = table(list(zip(marks, levels, observed, bounds, strict=True)), "<<><")
    for position, (line, row) in enumerate(zip(lines, rows, strict=True)):
        yield from labelled("" if position else "sla", [row], _MARKUP[line["verdict"]])
        # A failure's reason is that the figure beside it is what it is.
        reason = line["reason"].removeprefix(f"{line['expression']}: ") if line["verdict"] == "invalid" else ""
        for remark in (reason, line["note"]):
            yield from labelled("", [_INDENT + part for part in wrapped(remark, width - len(_INDENT))])


def _widest(texts: Sequence[str]) -> int:
    return max(map(cells, texts))


def _bound(line: Mapping[str, Any], confidence: float) -> str:
    """What the samples prove of the side that the service level asks for."""
    side, bound = (">=", line["lower"]) if line["op"].startswith(">") else ("<=", line["upper"])
    return "" if bound is None else f"{side} {figure(line['metric'], bound)} at {_percent(confidence)}"


def _observed(line: Mapping[str, Any]) -> str:
    """What was observed, with enough digits to be told from a threshold that it is not equal to."""
    metric, observed, threshold = line["metric"], line["observed"], line["threshold"]
    text = figure(metric, observed)
    if observed is None or threshold is None or observed == threshold or text != figure(metric, threshold):
        return text
    dimension = parse_metric(metric).dimension
    if dimension is Dimension.SHARE:
        return f"{observed * 100:.9g}%"
    unit = {Dimension.SECONDS: "s", Dimension.PER_SECOND: "/s"}.get(dimension, "")
    return f"{observed:.9g}{unit}"


def _failures(failures: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """One line for every way of not being ok, the frequent ones first, with an example."""
    ordered = sorted(failures, key=lambda failure: (failure["kind"] != "task", -failure["count"], failure["outcome"]))
    rows = [
        (count(failure["count"], failure["kind"]), failure["outcome"], one_line(failure["example"]))
        for failure in ordered
    ]
    return [ellipsis_end(line, width) for line in table(rows, "><<")]


def _json_errors(errors: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """What was wrong with replies as JSON, the frequent things first, with an example where that says more."""
    lines = []
    for error in errors:
        kind, example = one_line(error["error"]), one_line(error["example"])
        said = "" if example in kind else f"{GAP}such as {example}"
        lines.append(ellipsis_end(f"{count(error['count'], 'reply', 'replies')}{GAP}{kind}{said}", width))
    return lines


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.6g} %"
