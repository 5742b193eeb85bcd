"""The exceptions this package raises, and the one way it proposes a spelling."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_swarm.gateway.reply import Reply
    from pytest_swarm.records import Call

__all__ = [
    "BudgetExceeded",
    "CallFailed",
    "CassetteError",
    "InvalidJSON",
    "NotAvailable",
    "SettingError",
    "SwarmError",
    "nearest",
]


class SwarmError(Exception):
    """Base of every exception that is this package's own."""


class SettingError(SwarmError):
    """An option, marker argument, table or SLA line that cannot be used; the text says what can."""


class NotAvailable(SettingError):
    """A setting that is valid, and whose engine this version does not have."""


class BudgetExceeded(SwarmError):
    """A request was not sent, because it might have cost more than the cost ceiling leaves; the text says how much."""


class CassetteError(SwarmError):
    """A cassette cannot be read, or must not be written; the text names it and says why."""


class CallFailed(SwarmError):
    """A model call ended without a usable reply.

    Attributes:
        outcome: the outcome's name, ``"rate_limited"`` for example.
        call: the finished record of the call, with every attempt.
        reply: what was read before it failed, or None if nothing came.
    """

    def __init__(self, outcome: str, detail: str, call: Call, reply: Reply | None) -> None:
        super().__init__(f"{outcome}: {detail}" if detail else outcome)
        self.outcome = outcome
        self.call = call
        self.reply = reply


class InvalidJSON(SwarmError):
    """A reply's text is not the JSON that was asked for.

    Attributes:
        status: ``"invalid"``, ``"truncated"``, ``"empty"`` or ``"schema_invalid"``.
    """

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(f"{status}: {detail}" if detail else status)
        self.status = status


def nearest(wrong: str, allowed: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the closest allowed spelling, or an empty string when nothing is close."""
    found = difflib.get_close_matches(wrong, list(allowed), n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""
