"""One recorded exchange, and its form in a file of vcrpy.

What vcrpy has no place for stands in ``response["x-swarm"]``: plain vcrpy keeps unknown keys there when it loads and
saves a file, and nowhere else.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit

from pytest_swarm.errors import CassetteError
from pytest_swarm.exchange import Ending, Request
from pytest_swarm.sources.cassette.decoding import decoded

__all__ = ["EXTRA", "FAILED_STATUS", "Interaction", "from_vcr", "path_below_base", "to_vcr"]

EXTRA: Final = "x-swarm"
"""The key of a response under which our data stands."""

FAILED_STATUS: Final = 599
"""The status that stands in a file where there was none, or none with a body to believe: no plain reader may take a
failed exchange for an answer."""

SIMULATED: Final = "x-swarm-simulated"

_SUFFIXES: Final = ("/chat/completions", "/messages", "/responses")

Source = Literal["live", "simulated"]


@dataclass(frozen=True)
class Interaction:
    """A request, what came back, and when. Offsets are seconds from the send; None is what is not known.

    The body is decoded: `headers` has no content-encoding, and `chunks` count bytes of `body`.
    """

    request: Request
    status: int | None
    """None where no head came back."""
    headers: Mapping[str, str]
    """Of the response, with lower-case names."""
    body: bytes
    agent: int | None
    """Index of the task that asked; None for what no task asked for, in a fixture for example."""
    run: int
    sequence: int
    """Number of the exchange among those of this agent in this run, from 0; every attempt counts."""
    warmup: bool = False
    began: float | None = None
    """When it was sent, in seconds since the start of its run; of what was never sent, when it was asked for."""
    connect: float | None = None
    """Seconds spent opening the connection before the send."""
    head: float | None = None
    chunks: tuple[tuple[float, int], ...] = ()
    """When each piece of the body came, and its bytes; they add up to the body."""
    end: float | None = None
    ending: Ending = Ending.COMPLETE
    error: str = ""
    recorded_at: str = ""
    """When it ended, in ISO 8601 and UTC; empty where the file does not say."""
    source: Source = "live"
    timed: bool = True
    """False in a file that another program recorded: then all that is left is who answered what, in which order."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys beside ours that the file holds."""

    @property
    def simulated(self) -> str | None:
        """What a simulated gateway said of itself, ``<system>;<speed>``; None for any other."""
        return self.headers.get(SIMULATED)

    @property
    def identity(self) -> tuple[int, bool, int | None, int]:
        """What no two interactions of one recording share: run, warm-up, agent, sequence."""
        return self.run, self.warmup, self.agent, self.sequence

    @cached_property
    def model(self) -> str | None:
        """The model that the request names."""
        try:
            parsed = json.loads(self.request.body)
        except ValueError:
            return None
        model = parsed.get("model") if isinstance(parsed, dict) else None
        return model if isinstance(model, str) else None

    @property
    def base_url(self) -> str:
        """The address below which the request's path stands."""
        return path_below_base(self.request.url)[0]


def path_below_base(url: str) -> tuple[str, str]:
    """Base URL and path of a model request: ``("http://h/v1", "/chat/completions")``. The query belongs to neither.

    Of a URL that is none of a model request, the base is scheme and host.
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    suffix = next((suffix for suffix in _SUFFIXES if path.endswith(suffix)), path)
    base = path.removesuffix(suffix)
    return urlunsplit((parts.scheme, parts.netloc, base, "", "")), suffix


def to_vcr(interaction: Interaction) -> dict[str, Any]:
    """The item of a cassette's ``interactions``; bodies are texts where they are UTF-8, else bytes."""
    it = interaction
    failed = it.status is None or (it.ending is not Ending.COMPLETE and not it.body)
    body: str | bytes = _failure_text(it) if failed else _text(it.body)
    code = FAILED_STATUS if failed else it.status
    assert code is not None
    return {
        "request": {
            "body": _text(it.request.body),
            "headers": {name: [value] for name, value in it.request.headers.items()},
            "method": it.request.method,
            "uri": it.request.url,
        },
        "response": {
            "body": {"string": body},
            "headers": {name: [value] for name, value in it.headers.items()},
            "status": {"code": code, "message": f"recorded {it.ending.value}" if failed else _phrase(code)},
            EXTRA: _extra(it, failed=failed),
        },
    }


def _extra(it: Interaction, *, failed: bool) -> dict[str, Any]:
    return {
        **it.extra,
        "agent": it.agent,
        "run": it.run,
        "sequence": it.sequence,
        "warmup": it.warmup,
        "began": it.began,
        "connect": it.connect,
        "head": it.head,
        "chunks": [list(chunk) for chunk in it.chunks],
        "end": it.end,
        "ending": it.ending.value,
        "error": it.error,
        "recorded_at": it.recorded_at,
        "source": it.source,
        # The body in the file is then a note for readers, and none came over the wire.
        **({"failed": True, "status": it.status} if failed else {}),
    }


def _failure_text(it: Interaction) -> str:
    """What plain vcrpy replays where nothing came back."""
    message = f"recorded failure, not an answer: {it.error or it.ending.value}"
    return json.dumps({"error": {"message": message, "type": it.ending.value}}, ensure_ascii=False)


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return ""


def _text(body: bytes) -> str | bytes:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body


def from_vcr(item: Mapping[str, Any]) -> Interaction:
    """The interaction in an item of a cassette, ours or plain vcrpy's.

    Raises:
        CassetteError: it is none; the text says what is missing or of the wrong kind.
    """
    try:
        return _from_vcr(item)
    except (KeyError, TypeError, AttributeError, ValueError, binascii.Error) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise CassetteError(f"it is not an interaction as vcrpy writes them: {what}") from None


def _from_vcr(item: Mapping[str, Any]) -> Interaction:
    asked, response = item["request"], item["response"]
    extra = dict(response.get(EXTRA) or {})
    request_body = _bytes(asked.get("body"), extra.pop("request_base64", None))
    request = Request(str(asked["method"]), str(asked["uri"]), _headers(asked.get("headers")), request_body)
    if "status_code" in response:  # as vcrpy wrote it for httpx before version 6
        code, content = response["status_code"], response.get("content")
    else:
        code, content = response["status"]["code"], (response.get("body") or {}).get("string")
    if not isinstance(code, int):
        raise TypeError(f"the status {code!r} is no number")
    body = _bytes(content, extra.pop("body_base64", None))
    headers = _headers(response.get("headers"))
    if not extra:
        plain = decoded(headers, ((None, body),))
        return Interaction(request, code, plain.headers, plain.body, None, 0, 0, timed=False)
    failed = bool(extra.pop("failed", False))
    status = extra.pop("status", None) if failed else code
    return Interaction(request, status, headers, b"" if failed else body, **_known(extra), extra=extra)


def _known(extra: dict[str, Any]) -> dict[str, Any]:
    """The keys that are ours, taken out of `extra`."""
    return {
        "agent": extra.pop("agent", None),
        "run": int(extra.pop("run", 0)),
        "sequence": int(extra.pop("sequence", 0)),
        "warmup": bool(extra.pop("warmup", False)),
        "began": extra.pop("began", None),
        "connect": extra.pop("connect", None),
        "head": extra.pop("head", None),
        "chunks": tuple((float(at), int(size)) for at, size in extra.pop("chunks", ())),
        "end": extra.pop("end", None),
        "ending": Ending(extra.pop("ending", "complete")),
        "error": str(extra.pop("error", "")),
        "recorded_at": str(extra.pop("recorded_at", "")),
        "source": "simulated" if extra.pop("source", "live") == "simulated" else "live",
    }


def _bytes(content: object, encoded: str | None) -> bytes:
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    if content is None:
        return b""
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes):
        return content
    if isinstance(content, dict | list):
        # What vcrpy keeps of aiohttp's `json=...`; aiohttp sends it with these separators.
        return json.dumps(content).encode()
    raise TypeError(f"a body is {type(content).__name__}, not a text or bytes")


def _headers(headers: Mapping[str, Any] | None) -> dict[str, str]:
    """Headers with lower-case names; several of one name are joined, as HTTP allows."""
    found: dict[str, str] = {}
    for name, value in (headers or {}).items():
        values = value if isinstance(value, list | tuple) else [value]
        found[str(name).lower()] = ", ".join(str(one) for one in values)
    return found
