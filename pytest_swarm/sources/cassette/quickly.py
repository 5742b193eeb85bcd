"""Reading the YAML that `text` wrote, in a tenth of the time that a reader of all YAML takes.

Whatever looks different in the least, because somebody edited it or plain vcrpy saved it again, is left to such a
reader.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from pytest_swarm.sources.cassette.interaction import EXTRA
from pytest_swarm.sources.cassette.text import PLAIN_NAME

__all__ = ["read_items"]

_HEAD: Final = re.compile(r"version: 1\n(?:swarm: \{.*\}\n)?interactions:")
_START: Final = "- request:"


class _Different(Exception):
    """It is not written as `text` writes it."""


def read_items(text: str) -> list[dict[str, Any]] | None:
    """The items of a cassette, or of a part; None where only a reader of all YAML can tell."""
    head, found, rest = text.partition(f"\n{_START}\n")
    if not found or not _HEAD.fullmatch(head) or not text.endswith("}\n"):
        return None
    lines = iter(f"{_START}\n{rest}".split("\n"))
    try:
        return list(_items(lines))
    except (_Different, ValueError):
        return None


def _items(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line != _START:
            if line or next(lines, None) is not None:
                raise _Different
            return
        body, after = _scalar(lines, "    body: ", "      ")
        headers, after = _headers(lines, after)
        method = json.loads(_behind(after, "    method: "))
        request = {"body": body, "headers": headers, "method": method, "uri": _value(lines, "    uri: ")}
        if (_next(lines), _next(lines)) != ("  response:", "    body:"):
            raise _Different
        content, after = _scalar(lines, "      string: ", "        ")
        headers, after = _headers(lines, after)
        code, _, message = _behind(after, "    status: {code: ").removesuffix("}").partition(", message: ")
        status = {"code": int(code), "message": json.loads(message)}
        response = {"body": {"string": content}, "headers": headers, "status": status}
        response[EXTRA] = _value(lines, f"    {EXTRA}: ")
        yield {"request": request, "response": response}


def _value(lines: Iterator[str], start: str) -> Any:
    return json.loads(_behind(_next(lines), start))


def _next(lines: Iterator[str]) -> str:
    line = next(lines, None)
    if line is None:
        raise _Different
    return line


def _behind(line: str, start: str) -> str:
    if not line.startswith(start):
        raise _Different
    return line[len(start) :]


def _scalar(lines: Iterator[str], start: str, pad: str) -> tuple[str | bytes, str]:
    """A body, and the line after it."""
    written = _behind(_next(lines), start)
    if written in ("|2+", "|2-"):
        return _block(lines, pad, ends=written == "|2+")
    return _inline(written), _next(lines)


def _inline(written: str) -> str | bytes:
    found: str | bytes
    if written.startswith("!!binary "):
        found = base64.b64decode(json.loads(written.removeprefix("!!binary ")), validate=True)
    elif written.startswith("'") and written.endswith("'") and len(written) > 1:
        found = written[1:-1].replace("''", "'")
    else:
        found = json.loads(written)
        if not isinstance(found, str):
            raise _Different
    return found


def _block(lines: Iterator[str], pad: str, *, ends: bool) -> tuple[str, str]:
    """The lines of a block, which are empty or indented, and the line after it."""
    found = []
    size = len(pad)
    line = _next(lines)
    while not line or line.startswith(pad):
        found.append(line[size:])
        line = _next(lines)
    return "\n".join(found) + ("\n" if ends else ""), line


def _headers(lines: Iterator[str], line: str) -> tuple[dict[str, list[str]], str]:
    """A mapping of headers that begins with `line`, and the line after it."""
    if line == "    headers: {}":
        return {}, _next(lines)
    if line != "    headers:":
        raise _Different
    found = {}
    line = _next(lines)
    while line.startswith("      "):
        name, colon, values = line[6:].partition(": [")
        if not colon or not (name.startswith('"') or PLAIN_NAME.fullmatch(name)):
            raise _Different
        found[json.loads(name) if name.startswith('"') else name] = json.loads(f"[{values}")
        line = _next(lines)
    if not found:
        raise _Different
    return found, line
