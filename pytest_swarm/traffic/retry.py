"""When a failed attempt is repeated, and after what wait. Pure: clock, randomness and the reply are handed in.

Which statuses count, `x-should-retry` and `retry-after-ms` follow the official SDKs of OpenAI and Anthropic. The wait
without advice is "full jitter" (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015): it spreads the
agents of a swarm, which all meet the same limit in the same moment, better than any fixed backoff.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from pytest_swarm.records import REPLY_OUTCOMES

__all__ = ["BACKOFF_BASE", "BACKOFF_CAP", "RETRY_AFTER_CAP", "Retry", "Stop", "decide", "parse_retry_after"]

RETRY_AFTER_CAP: Final = 60.0
"""Seconds; a gateway that asks for a longer wait has its call fail."""

BACKOFF_BASE: Final = 0.5
"""Seconds; the longest wait before the second attempt, doubled before each further one."""

BACKOFF_CAP: Final = 8.0
"""Seconds; the longest wait without advice."""

_STATUSES: Final = frozenset({408, 409, 425, 429})
"""Retryable beside everything from 500 on."""

_NO_CONNECTION: Final = frozenset({"connect_error", "connect_timeout", "disconnected"})
"""Outcomes without a status that are retryable: the connection was not made, or was lost before an answer."""

_NO_MONEY: Final = re.compile(r"insufficient_quota|billing|payment_required|credit_balance")

_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_SPAN: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|us|µs|ns|d|h|m|s))+")
_SPAN_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|us|µs|ns|d|h|m|s)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Retry:
    """Send again after `wait` seconds."""

    wait: float


@dataclass(frozen=True, slots=True)
class Stop:
    """The call is over; `reason` says why a failed one is not tried again, and is empty for one with a reply."""

    reason: str


def decide(
    outcome: str,
    status: int | None,
    headers: Mapping[str, str],
    body: object,
    *,
    attempt: int,
    retries: int,
    saw_token: bool,
    rng: Callable[[], random.Random],
    wall_now: float,
) -> Retry | Stop:
    """What follows on an attempt that ended with `outcome`.

    Args:
        outcome: one of `records.CALL_OUTCOMES`.
        status: HTTP status; None when there was no answer.
        headers: of the answer, names in lower case.
        body: of the answer: bytes, text, or what they hold when parsed; None when there is none.
        attempt: number of attempts made so far, this one included.
        retries: attempts allowed after the first.
        saw_token: a piece of the reply has arrived: sending again would repeat what was already read, and paid for.
        rng: makes where the jitter comes from; asked only where there is a wait.
        wall_now: seconds since the epoch, to read dates by.
    """
    if outcome in REPLY_OUTCOMES:
        return Stop("")
    reason = _final(outcome, status, headers, body, saw_token)
    if reason:
        return Stop(reason)
    if attempt > retries:
        return Stop(f"no retries left after {attempt} attempts" if retries else "retries=0")
    # The resets of rate limits come with every reply and mean something only where a limit was the reason.
    limited = status == 429 or outcome == "rate_limited"
    asked = parse_retry_after(headers, body, wall_now) if limited else _retry_after(headers, wall_now)
    if asked is not None and asked > RETRY_AFTER_CAP:
        return Stop(f"the gateway asks to wait {asked:.0f} s, more than the {RETRY_AFTER_CAP:.0f} s that are waited")
    backoff = min(BACKOFF_CAP, BACKOFF_BASE * 2.0 ** min(attempt - 1, 10))
    if asked:
        # Everybody was told the same moment. Who was refused again there is one of many, and spreads further out.
        spread = min(0.5, 0.25 * asked) if attempt == 1 else backoff
        return Retry(asked + rng().uniform(0.0, spread))
    return Retry(rng().uniform(0.0, backoff))


def _final(outcome: str, status: int | None, headers: Mapping[str, str], body: object, saw_token: bool) -> str:
    """Why a failed attempt is the last one whatever the number of retries; empty when it need not be."""
    if saw_token:
        return "the reply had begun"
    if outcome == "quota_exhausted" or _out_of_money(body):
        return "the quota is exhausted"
    advice = headers.get("x-should-retry", "").strip().lower()
    if advice == "false":
        return "the gateway says x-should-retry: false"
    if status is None:
        return "" if outcome in _NO_CONNECTION else f"{outcome} is not retried"
    if advice == "true" or status in _STATUSES or status >= 500:
        return ""
    return f"status {status} is not retried"


def _out_of_money(body: object) -> bool:
    return any(
        isinstance(error.get(key), str) and _NO_MONEY.search(error[key].lower()) is not None
        for error in _errors(body)
        for key in ("code", "type")
    )


# --- what the gateway asks for ----------------------------------------------------------------------------------------


def parse_retry_after(headers: Mapping[str, str], body: object, now_wall: float) -> float | None:
    """Seconds after which a gateway that limited a request wants it again; None when it says nothing usable.

    In this order: ``retry-after-ms``; ``retry-after`` in seconds or as an HTTP date; the resets of the limits that
    ran out, as ``x-ratelimit-reset-*`` (``6m0s``, seconds, or a time) and ``anthropic-ratelimit-*-reset``; Google's
    ``RetryInfo.retryDelay`` in the body. A time that has passed is 0. Nothing is capped here.
    """
    for found in (_retry_after(headers, now_wall), _longest_reset(headers, now_wall), _retry_info(body)):
        if found is not None:
            return found
    return None


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    seconds = _number(text)
    return seconds if seconds is not None else _http_date(text, now)


def _longest_reset(headers: Mapping[str, str], now: float) -> float | None:
    """The latest reset among the limits that ran out, or among all when none says it did."""
    resets = list(_resets(headers, now))
    exhausted = [seconds for seconds, remaining in resets if not remaining]
    return max(exhausted or [seconds for seconds, _ in resets], default=None)


def _resets(headers: Mapping[str, str], now: float) -> Iterator[tuple[float, float | None]]:
    """Seconds to the reset of each limit, and what remains of it as far as that is known."""
    for name, text in headers.items():
        if name.startswith("x-ratelimit-reset"):
            seconds = _reset(text, now)
        elif name.startswith("anthropic-ratelimit-") and name.endswith("-reset"):
            seconds = _rfc3339(text, now)
        else:
            continue
        if seconds is not None:
            yield seconds, _number(headers.get(name.replace("-reset", "-remaining"), ""))


def _reset(text: str, now: float) -> float | None:
    number = _number(text)
    if number is None:
        return _span(text)
    # Some gateways give the time of the reset instead of the seconds to it: since the epoch, in s or ms.
    if number >= 1e9:
        return max(0.0, (number / 1000 if number >= 1e12 else number) - now)
    return number


def _retry_info(body: object) -> float | None:
    for error in _errors(body):
        details = error.get("details")
        for detail in details if isinstance(details, list) else ():
            delay = detail.get("retryDelay") if isinstance(detail, dict) else None
            seconds = _span(delay) if isinstance(delay, str) else None
            if seconds is not None:
                return seconds
    return None


def _errors(body: object) -> Iterator[dict[str, Any]]:
    """The error objects of a body: ``{"error": {...}}``, or a list of such, as Google streams them."""
    if isinstance(body, bytes | bytearray | str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return
    for item in body if isinstance(body, list) else [body]:
        error = item.get("error") if isinstance(item, Mapping) else None
        if isinstance(error, dict):
            yield error


# --- numbers and times ------------------------------------------------------------------------------------------------


def _number(text: str) -> float | None:
    """A number that is finite and not negative."""
    found = _NUMBER.fullmatch(text.strip())
    number = float(found[0]) if found else math.inf
    return number if math.isfinite(number) else None


def _span(text: str) -> float | None:
    """Seconds of a span as Go and protobuf write it: ``1s``, ``6m0s``, ``12ms``."""
    if not _SPAN.fullmatch(text.strip()):
        return None
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _SPAN_PART.findall(text))
    return seconds if math.isfinite(seconds) else None


def _http_date(text: str, now: float) -> float | None:
    try:
        return _until(parsedate_to_datetime(text), now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _rfc3339(text: str, now: float) -> float | None:
    try:
        return _until(datetime.fromisoformat(text.strip()), now)
    except (ValueError, OverflowError):
        return None


def _until(moment: datetime, now: float) -> float:
    """Seconds from `now` to `moment`, which is in UTC when it does not say; 0 when it has passed."""
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now)
