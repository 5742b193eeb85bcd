"""Error objects, in the shapes in which gateways put them into bodies and events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_swarm.redaction import redact_text

__all__ = ["EVIDENCE_LENGTH", "Complaint", "evidence", "find_complaint"]

EVIDENCE_LENGTH = 200
"""Characters of a foreign text that are shown."""


def evidence(text: str) -> str:
    """`text` in one line, without secrets, cut. Secrets go first: a cut one could no longer be told."""
    line = redact_text(" ".join(text.split()))
    return line if len(line) <= EVIDENCE_LENGTH else f"{line[: EVIDENCE_LENGTH - 1]}…"


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a gateway says went wrong."""

    code: str = ""
    """The most telling of code, type and status; empty when none is given."""
    message: str = ""
    words: frozenset[str] = frozenset()
    """Code, type and status in lower case, for those who look for a certain one."""

    def __str__(self) -> str:
        return evidence(": ".join(part for part in (self.code, self.message) if part)) or "an error without a text"


def find_complaint(body: object) -> Complaint | None:
    """The error in a body or an event; None when there is none.

    Shapes: ``{"error": {...}}`` (OpenAI, Anthropic, Google), ``{"error": "text"}``, a list of such (Google),
    ``{"detail": ...}`` (FastAPI), and a bare ``{"code", "message"}`` (older vLLM, error events of Responses).
    """
    if isinstance(body, list):
        return find_complaint(body[0]) if body else None
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if isinstance(error, str) and error:
        return Complaint(message=error)
    if isinstance(error, dict) and error:
        return _from_object(error)
    if isinstance(body.get("message"), str) and ("code" in body or body.get("object") == "error"):
        return _from_object(body)
    detail = body.get("detail")
    return Complaint(message=detail if isinstance(detail, str) else repr(detail)) if detail else None


def _from_object(error: dict[str, Any]) -> Complaint:
    words = [str(error[key]) for key in ("code", "type", "status") if isinstance(error.get(key), str | int)]
    message = error.get("message")
    return Complaint(
        code=next(filter(None, words), ""),
        message=message if isinstance(message, str) else "" if message is None else repr(message),
        words=frozenset(word.lower() for word in words),
    )
