"""Bodies lose their compression, and keep the times of their pieces."""

from __future__ import annotations

import gzip
import zlib

import pytest

from pytest_swarm.sources.cassette.decoding import decoded

TEXT = b'{"answer": "' + bytes(range(48, 90)) * 5 + b'"}'


def bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKED = {
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "Deflate": bare_deflate(TEXT),
    "gzip, gzip": gzip.compress(gzip.compress(TEXT)),
}


@pytest.mark.parametrize("coding", PACKED)
def test_compression_is_undone_piece_by_piece(coding: str) -> None:
    data = PACKED[coding]
    headers = {"content-encoding": coding, "content-length": str(len(data)), "x-a": "b"}
    found = decoded(headers, [(0.1, data[:30]), (0.2, data[30:])])
    assert (found.body, found.headers) == (TEXT, {"content-length": str(len(TEXT)), "x-a": "b"})
    assert sum(size for _, size in found.chunks) == len(TEXT)
    assert {at for at, _ in found.chunks} <= {0.1, 0.2}


@pytest.mark.parametrize("body", [TEXT, b"", "né".encode()[:2]], ids=["text", "empty", "cut within a character"])
def test_what_the_client_has_decoded_already_stays(body: bytes) -> None:
    found = decoded({"content-encoding": "gzip"}, [(0.1, body)])
    assert (found.body, found.headers) == (body, {})


@pytest.mark.parametrize(
    ("coding", "body"),
    [("gzip", b"\x1f\x8bbroken"), ("unknown", b"\xff\x00"), ("gzip, unknown", gzip.compress(TEXT))],
    ids=["broken", "unknown", "partly unknown"],
)
def test_what_cannot_be_undone_stays_with_its_headers(coding: str, body: bytes) -> None:
    headers = {"content-encoding": coding, "content-length": "9"}
    assert decoded(headers, [(0.1, body)]) == (headers, body, ((0.1, len(body)),))


def test_a_cut_body_is_undone_as_far_as_it_came() -> None:
    data = gzip.compress(TEXT)
    found = decoded({"content-encoding": "gzip"}, [(0.1, data[:-20])])
    assert TEXT.startswith(found.body)
    assert "content-encoding" not in found.headers


def test_a_body_without_compression_only_loses_its_framing() -> None:
    found = decoded({"transfer-encoding": "chunked", "content-encoding": "identity"}, [(0.1, b"\xff"), (0.2, b"")])
    assert found == ({}, b"\xff", ((0.1, 1),))
