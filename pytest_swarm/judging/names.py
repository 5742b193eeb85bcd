"""Names of figures as users write them: ``latency.p99``, ``ttft[plan].p95``, ``my.score.mean``."""

from __future__ import annotations

import re
from typing import Final

from pytest_swarm.errors import SettingError, nearest
from pytest_swarm.judging.catalogue import (
    CALL_NAMED,
    COUNTED_OUTCOMES,
    DISTRIBUTIONS,
    SCALARS,
    WORD_STATISTICS,
    Metric,
)

__all__ = ["parse_metric"]

_METRIC: Final = re.compile(r"([^\[\].]*)(?:\[([^\]]*)\])?(?:\.(.*))?", re.DOTALL)
_PERCENTILE: Final = re.compile(r"p(\d+(?:\.\d+)?)", re.ASCII)
_OWN: Final = re.compile(r"(.+?)\.(p\d+(?:\.\d+)?|[^.]*)", re.ASCII | re.DOTALL)


def parse_metric(text: str) -> Metric:
    """Read the name of one figure: ``latency.p99``, ``ttft[plan].p95``, ``errors.rate_limited``, ``p99``.

    Raises:
        SettingError: there is no such figure.
    """
    text = text.strip()
    if _PERCENTILE.fullmatch(text):
        return Metric("latency", None, _statistic("latency", text))
    found = _METRIC.fullmatch(text)
    if found is None:
        raise SettingError(f"{text!r} is no metric; say name[call name].statistic, such as ttft[plan].p95")
    name, called, rest = found[1].strip(), found[2], found[3]
    if name in ("errors", "check", "my"):
        return _member(name, called, rest)
    if name not in DISTRIBUTIONS and name not in SCALARS:
        raise SettingError(_unknown_metric(name))
    call_name = _call_name(name, called)
    if name in DISTRIBUTIONS:
        return Metric(name, call_name, _statistic(name, rest))
    if rest is not None:
        raise SettingError(f"{name} is one number and has no statistics: leave '.{rest.strip()}' away")
    return Metric(name, call_name)


def _statistic(name: str, text: str | None) -> str:
    """The normal spelling of a statistic: ``p99`` for ``p99.0``."""
    if text is None or not text.strip():
        raise SettingError(f"{name} is a distribution: say {name}.p99, {name}.mean or {name}.max")
    text = text.strip()
    if text in WORD_STATISTICS:
        return text
    found = _PERCENTILE.fullmatch(text)
    if found is None:
        allowed = f"p0 to p100, {', '.join(WORD_STATISTICS)}"
        hint = nearest(text.lower(), (*WORD_STATISTICS, "p50", "p90", "p95", "p99"))
        raise SettingError(f"unknown statistic {text!r} of {name}; allowed are {allowed}{hint}")
    if float(found[1]) > 100:
        raise SettingError(f"{text!r} of {name} is outside p0 to p100")
    whole, _, fraction = found[1].partition(".")
    fraction = fraction.rstrip("0")
    return f"p{int(whole)}" + (f".{fraction}" if fraction else "")


def _call_name(name: str, called: str | None) -> str | None:
    if called is None:
        return None
    if name not in CALL_NAMED:
        raise SettingError(
            f"{name} is not told by call name, leave '[{called}]' away; told by it are {', '.join(CALL_NAMED)}"
        )
    if not called.strip():
        raise SettingError(f"{name}[] names no call: say {name}[plan] for the calls made with name='plan'")
    return called.strip()


def _member(family: str, called: str | None, rest: str | None) -> Metric:
    """A metric of the families `errors.*`, `check.*` and `my.*`."""
    if called is not None:
        raise SettingError(f"{family} is not told by call name: leave '[{called}]' away")
    member = (rest or "").strip()
    if family == "errors":
        if member not in COUNTED_OUTCOMES:
            found = f"unknown outcome {member!r} in errors.<outcome>" if member else "errors needs an outcome"
            raise SettingError(f"{found}; allowed are {', '.join(COUNTED_OUTCOMES)}{nearest(member, COUNTED_OUTCOMES)}")
        return Metric(f"errors.{member}")
    if family == "check":
        if not member:
            raise SettingError("check needs a name: say check.grounded for agent.check('grounded', ...)")
        named, _, statistic = member.rpartition(".")
        if named and (statistic in WORD_STATISTICS or _PERCENTILE.fullmatch(statistic)):
            raise SettingError(f"check.{named} is one number and has no statistics: leave '.{statistic}' away")
        return Metric(f"check.{member}")
    if not member:
        raise SettingError("my needs a name and a statistic: say my.score.mean for agent.record('score', ...)")
    split = _OWN.fullmatch(member)
    if split is None:
        raise SettingError(f"my.{member} is a distribution: say my.{member}.p99, my.{member}.mean or my.{member}.max")
    own, statistic = split[1], split[2]
    return Metric(f"my.{own}", None, _statistic(f"my.{own}", statistic))


def _unknown_metric(name: str) -> str:
    if name in WORD_STATISTICS:
        return f"{name!r} is a statistic, not a metric: say latency.{name}"
    for metric in DISTRIBUTIONS:
        statistic = name.removeprefix(metric).strip(" _-")
        if name.startswith(metric) and (statistic in WORD_STATISTICS or _PERCENTILE.fullmatch(statistic)):
            return f"unknown metric {name!r}; did you mean '{metric}.{statistic}'?"
    if _PERCENTILE.fullmatch(name):
        return f"{name!r} stands alone, for latency.{name}; behind a call name it is a statistic: ttft[plan].{name}"
    if _PERCENTILE.fullmatch(name.lower()):
        return f"unknown metric {name!r}; did you mean {name.lower()!r}?"
    known = (*DISTRIBUTIONS, *SCALARS, "errors.<outcome>", "check.<name>", "my.<name>.<statistic>")
    hint = nearest(name.lower(), (*known[:-3], "errors", "check"))
    return f"unknown metric {name!r}{hint}" if hint else f"unknown metric {name!r}; known are {', '.join(known)}"
