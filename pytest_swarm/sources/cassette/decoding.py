"""Bodies as they are stored: without their compression, so that any client can be given any recording."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

__all__ = ["Decoded", "decoded"]

Decode = Callable[[bytes], bytes]
"""Undoes one compression, piece by piece; raises what it likes."""


class Decoded(NamedTuple):
    """Headers and body of a response, and when which piece of the body came; an offset is None if it is not known."""

    headers: dict[str, str]
    body: bytes
    chunks: tuple[tuple[float | None, int], ...]


def decoded(headers: Mapping[str, str], pieces: Iterable[tuple[float | None, bytes]]) -> Decoded:
    """A response without content-encoding, its content-length that of the decoded body.

    `pieces` may be decoded already, which clients do before anybody can look. What cannot be decoded, because it is
    broken or in a coding that needs a package, stays as it is, with its headers.
    """
    kept = list(pieces)
    plain = dict(headers)
    codings = [coding.strip().lower() for coding in plain.get("content-encoding", "").split(",")]
    codings = [coding for coding in codings if coding not in ("", "identity")]
    if codings:
        found = kept if _is_text(kept) else _undo(codings, kept)
        if found is None:
            return Decoded(plain, *_joined(kept))
        kept = found
    plain.pop("content-encoding", None)
    plain.pop("transfer-encoding", None)
    body, chunks = _joined(kept)
    if "content-length" in plain:
        plain["content-length"] = str(len(body))
    return Decoded(plain, body, chunks)


def _joined(pieces: list[tuple[float | None, bytes]]) -> tuple[bytes, tuple[tuple[float | None, int], ...]]:
    return b"".join(data for _, data in pieces), tuple((at, len(data)) for at, data in pieces if data)


def _is_text(pieces: list[tuple[float | None, bytes]]) -> bool:
    """Whether the pieces are text already. No compressed body is: its head is not UTF-8, or has control bytes."""
    body = b"".join(data for _, data in pieces)
    if not body:
        return True
    if any(byte < 9 or 13 < byte < 32 for byte in body[:64]):
        return False
    try:
        body.decode()
    except UnicodeDecodeError as error:
        # A body that was cut off may end within a character.
        return error.end == len(body) and error.reason == "unexpected end of data"
    return True


def _undo(codings: list[str], pieces: list[tuple[float | None, bytes]]) -> list[tuple[float | None, bytes]] | None:
    makers = [_DECODERS.get(coding) for coding in reversed(codings)]
    try:
        steps = [maker() for maker in makers if maker is not None]
        if len(steps) != len(codings):
            return None
        return [(at, _through(steps, data)) for at, data in pieces]
    except zlib.error:
        return None


def _through(steps: list[Decode], data: bytes) -> bytes:
    for step in steps:
        data = step(data)
    return data


def _gzip() -> Decode:
    return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress


def _deflate() -> Decode:
    """With the header of zlib, which the standard wants, or bare, which some servers send."""
    step: list[Decode] = []

    def decode(data: bytes) -> bytes:
        if not step and data:
            bits = zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS
            step.append(zlib.decompressobj(bits).decompress)
        return step[0](data) if step else b""

    return decode


_DECODERS: Final[Mapping[str, Callable[[], Decode]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
}
