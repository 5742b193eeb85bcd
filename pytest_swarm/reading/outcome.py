"""The one place that decides what an exchange came to, and shows the evidence for it."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import Any, Final

from pytest_swarm.exchange import Ending
from pytest_swarm.reading.complaint import Complaint, evidence, find_complaint
from pytest_swarm.reading.draft import Draft

__all__ = ["LENGTH_REASONS", "first_object", "parsed_json", "reply_outcome", "status_outcome"]

LENGTH_REASONS: Final = frozenset(
    {"incomplete", "length", "max_output_tokens", "max_tokens", "model_context_window_exceeded"}
)
"""Finish reasons, of all wires, of a reply that was cut because it grew too long."""

_FILTER_REASONS: Final = frozenset({"content_filter", "sensitive", "safety"})

_QUOTA_WORD: Final = re.compile(
    r"insufficient_(?:quota|balance|credits)|exceeded_current_quota|billing|payment_required|credit_balance"
    r"|budget_exceeded|exceededbudget"
)
_QUOTA_MESSAGE: Final = re.compile(
    r"credit balance is too low|insufficient (?:balance|credits|funds)|billing (?:hard )?limit"
    r"|budget has been exceeded",
    re.IGNORECASE,
)


def status_outcome(status: int, body: bytes) -> tuple[str, str, dict[str, Any] | None]:
    """Outcome, evidence and parsed body of a reply whose status is not 2xx.

    An exhausted quota is told from a passing rate limit, since waiting does not help against it. Redirects are client
    errors: no gateway answers a model call with one.
    """
    parsed = parsed_json(body)
    complaint = find_complaint(parsed)
    if _is_quota(status, complaint):
        outcome = "quota_exhausted"
    elif status == HTTPStatus.TOO_MANY_REQUESTS:
        outcome = "rate_limited"
    else:
        outcome = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "client_error"
    return outcome, _status_detail(status, complaint, body), first_object(parsed)


def reply_outcome(draft: Draft, ending: Ending, error: str, flaw: tuple[str, str] | None) -> tuple[str, str]:
    """Outcome and evidence of a reply with a 2xx status.

    Args:
        draft: what was understood of it.
        ending: how the exchange ended; it decides unless the reply was complete before.
        error: the transport's own words.
        flaw: outcome and evidence when the body, taken as a whole one, is no reply.
    """
    if draft.complaint is not None:
        return "stream_error", str(draft.complaint)
    if draft.complete:
        return _finished(draft)
    if ending is not Ending.COMPLETE:
        return ending.value, evidence(error) or f"{ending.value} after {_count(draft.chunks, 'content chunk')}"
    if flaw is not None:
        return flaw
    chunks = _count(draft.chunks, "content chunk")
    return "truncated", f"the stream ended after {chunks} with neither a finish reason nor {draft.end_mark}"


def _finished(draft: Draft) -> tuple[str, str]:
    reason = draft.finish_reason
    if reason in LENGTH_REASONS:
        return "incomplete", f"finish reason {reason}"
    if reason in _FILTER_REASONS:
        return "content_filter", f"finish reason {reason}"
    if draft.refusal or reason == "refusal":
        return "refusal", evidence(draft.refusal.join()) or f"finish reason {reason}"
    if not draft.has_output:
        said = "reasoning and nothing else" if draft.reasoning else "no content"
        return "empty", f"{said} (finish reason {evidence(reason) if reason else 'not given'})"
    return "ok", ""


def _is_quota(status: int, complaint: Complaint | None) -> bool:
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status < HTTPStatus.BAD_REQUEST:
        return False
    if status == HTTPStatus.PAYMENT_REQUIRED:
        return True
    if complaint is None:
        return False
    return any(map(_QUOTA_WORD.search, complaint.words)) or _QUOTA_MESSAGE.search(complaint.message) is not None


def _status_detail(status: int, complaint: Complaint | None, body: bytes) -> str:
    if complaint is None:
        shown = evidence(body.decode("utf-8", "replace"))
        return f"HTTP {status}: {shown}" if shown else f"HTTP {status} with an empty body"
    code = "" if complaint.code in {"", str(status)} else f" {evidence(complaint.code)}"
    message = evidence(complaint.message)
    return f"HTTP {status}{code}: {message}" if message else f"HTTP {status}{code}"


def parsed_json(body: bytes | bytearray) -> object:
    """The body as JSON, None when it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def first_object(parsed: object) -> dict[str, Any] | None:
    """A JSON object, also out of the array in which Google sends it."""
    if isinstance(parsed, list):
        parsed = parsed[0] if parsed else None
    return parsed if isinstance(parsed, dict) else None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
