"""What `gateway.chat` returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pytest_swarm.errors import InvalidJSON
from pytest_swarm.reading.json_output import JSONResult, Validator, check_json
from pytest_swarm.reading.schema import Problem
from pytest_swarm.records import TOOL_CALL_REASONS, Call, Reading, Usage

__all__ = ["JsonRule", "Reply"]


@dataclass(frozen=True, slots=True)
class JsonRule:
    """How replies are read as JSON: `mode` is ``"strict"`` or ``"lenient"``, the validator is None without a schema."""

    mode: str = "strict"
    validator: Validator | None = None
    schema: dict[str, Any] | None = None

    def check(self, reading: Reading) -> JSONResult | None:
        """What a reply is as JSON; None for tool calls, which are in no JSON rate."""
        if reading.finish_reason in TOOL_CALL_REASONS:
            return None
        if reading.outcome in {"ok", "incomplete", "empty"}:
            return self.read(reading)
        status = "truncated" if reading.outcome == "truncated" else "invalid"
        detail = f"the call ended as {reading.outcome}"
        return JSONResult(status, detail=detail, problems=(Problem(f"not JSON: {detail}", detail),))

    def read(self, reading: Reading) -> JSONResult:
        """The text of a reply as JSON, whatever came of the call."""
        return check_json(reading.text, reading.finish_reason, self.mode, self.validator)


@dataclass(frozen=True)
class Reply:
    """A usable answer of a model, and the record of the call that brought it."""

    call: Call
    reading: Reading = field(repr=False)
    rule: JsonRule = field(default_factory=JsonRule, repr=False)
    checked: JSONResult | None = field(default=None, repr=False)
    """What the text is as JSON, where that was found out already."""

    @property
    def text(self) -> str:
        """The visible text, without reasoning; empty for a pure tool call."""
        return self.reading.text

    @property
    def json(self) -> Any:
        """The text as JSON, the same value every time.

        Raises `InvalidJSON` when it is none, or does not fit the schema of ``json_output``.
        """
        if self._as_json.status != "valid":
            raise InvalidJSON(self._as_json.status, self._as_json.detail)
        return self._as_json.value

    @cached_property
    def _as_json(self) -> JSONResult:
        return self.checked or self.rule.read(self.reading)

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """Tool calls as the wire has them, arguments joined."""
        return self.reading.tool_calls

    @property
    def usage(self) -> Usage | None:
        """Tokens, as the server counted them; None when it did not say."""
        return self.reading.usage

    @property
    def cost(self) -> float | None:
        """US dollars of the whole call, all attempts; None when it is not known."""
        return self.call.cost

    @property
    def finish_reason(self) -> str | None:
        """Why the model stopped, in the wire's own word."""
        return self.reading.finish_reason

    @property
    def outcome(self) -> str:
        """``ok``, ``incomplete``, ``content_filter`` or ``refusal``."""
        return self.call.outcome

    @property
    def raw(self) -> dict[str, Any] | None:
        """The parsed body; None for a streamed reply."""
        return self.reading.raw
