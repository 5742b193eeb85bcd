"""The text of one item of a cassette, in YAML that any reader reads, or in JSON.

Written by hand, since a general writer takes ten times as long and makes unreadable lines of JSON bodies: events stand
one below the other, JSON stands in single quotes. Our own data is the last line, on which a torn item is known.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pytest_swarm.sources.cassette.interaction import EXTRA

__all__ = ["PLAIN_NAME", "json_item", "yaml_item"]

_SPECIAL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that YAML allows escaped only, or takes for ends of lines. Tab and line feed are apart."""
PLAIN_NAME: Final = re.compile(r"[a-z]+-[a-z0-9-]*[a-z0-9]|accept|cookie|date|server|body|uri")
"""Keys that need no quotes."""


def yaml_item(item: Mapping[str, Any]) -> str:
    """One entry of the list ``interactions``, as lines."""
    request, response = item["request"], item["response"]
    status = response["status"]
    return "".join(
        (
            "- request:\n    body: ",
            _scalar(request["body"], 6),
            "    headers:",
            _headers(request["headers"]),
            f"    method: {_quoted(request['method'])}\n    uri: {_quoted(request['uri'])}\n",
            "  response:\n    body:\n      string: ",
            _scalar(response["body"]["string"], 8),
            "    headers:",
            _headers(response["headers"]),
            f"    status: {{code: {status['code']}, message: {_quoted(status['message'])}}}\n",
            f"    {EXTRA}: {_flow(response[EXTRA])}\n",
        )
    )


def json_item(item: Mapping[str, Any]) -> str:
    """One entry of the list, on one line. Bytes that are no text, which JSON cannot hold, stand with our data."""
    request, response = dict(item["request"]), dict(item["response"])
    extra = dict(response[EXTRA])
    if isinstance(request["body"], bytes):
        extra["request_base64"] = base64.b64encode(request["body"]).decode()
        request["body"] = request["body"].decode("utf-8", "replace")
    content = response["body"]["string"]
    if isinstance(content, bytes):
        extra["body_base64"] = base64.b64encode(content).decode()
        response["body"] = {"string": content.decode("utf-8", "replace")}
    response[EXTRA] = _rounded(extra)
    return json.dumps({"request": request, "response": response}, ensure_ascii=False)


def _headers(headers: Mapping[str, list[str]]) -> str:
    """A mapping below its key: each name with the list of its values."""
    if not headers:
        return " {}\n"
    lines = (f"      {_key(name)}: [{', '.join(map(_quoted, values))}]\n" for name, values in headers.items())
    return "\n" + "".join(lines)


def _key(name: str) -> str:
    return name if PLAIN_NAME.fullmatch(name) else _quoted(name)


def _scalar(value: str | bytes, indent: int) -> str:
    """A body, with the end of its line; lines of a block stand at `indent` columns, two more than the key."""
    if isinstance(value, bytes):
        return f"!!binary {_quoted(base64.b64encode(value).decode())}\n"
    if not value or "\t" in value or _SPECIAL.search(value):
        return f"{_quoted(value)}\n"
    if "\n" not in value:
        escaped = value.replace("'", "''")
        return f"'{escaped}'\n"
    if not value.strip("\n ") or value[0] in "\n ":
        return f"{_quoted(value)}\n"
    pad = " " * indent
    # No blanks at the ends of empty lines: tools that tidy files would take them away.
    block = f"\n{value}".replace("\n", f"\n{pad}").replace(f"\n{pad}\n", "\n\n").removesuffix(pad)
    return f"|2+{block}" if value.endswith("\n") else f"|2-{block}\n"


def _quoted(text: str) -> str:
    """In double quotes, with escapes that YAML and JSON share."""
    written = json.dumps(text, ensure_ascii=False)
    return _SPECIAL.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def _flow(value: Any) -> str:
    """A value on one line. Numbers without exponent, which YAML takes for texts; times in microseconds."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return _seconds(value)
        case int():
            return str(value)
        case str():
            return _quoted(value)
        case Mapping():
            return "{" + ", ".join(f"{_quoted(name)}: {_flow(inner)}" for name, inner in value.items()) + "}"
        case _:
            return "[" + ", ".join(map(_flow, value)) + "]"


def _seconds(value: float) -> str:
    text = f"{value:.6f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value
