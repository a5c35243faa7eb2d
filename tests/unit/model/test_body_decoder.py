"""BodyDecoder of transport.py: compression undone, sizes bounded (B43 d, B40 l)."""

from __future__ import annotations

import gzip
import zlib

import pytest

from odek.model.errors import ModelProtocolError
from odek.model.transport import BodyDecoder

TEXT = b'{"content": "' + bytes(range(32, 127)) * 2000 + b'"}'


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("", TEXT),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT)),
        (" X-GZIP ", gzip.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("gzip", gzip.compress(TEXT) + b"trailing bytes" * 100),
    ],
)
@pytest.mark.parametrize("size", [1, 1000, 1 << 30])
def test_body_is_decoded_however_it_is_cut(encoding: str, body: bytes, size: int) -> None:
    """B43 (d)."""
    decoder = BodyDecoder(encoding, limit_bytes=1 << 20)
    chunks = [body[place : place + size] for place in range(0, len(body), size)]
    assert b"".join(piece for chunk in chunks for piece in decoder.feed(chunk)) == TEXT


def test_flushed_pieces_come_out_at_once() -> None:
    """A compressed stream of events must not wait for its end."""
    packer = zlib.compressobj(wbits=31)
    decoder = BodyDecoder("gzip", limit_bytes=1000)
    for text in (b"data: a\n\n", b"data: b\n\n"):
        chunk = packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)
        assert b"".join(decoder.feed(chunk)) == text


@pytest.mark.parametrize(
    ("encoding", "body"), [("gzip", b"no gzip"), ("deflate", b"\xff\xff\xff"), ("gzip", b"\0" * 20)]
)
def test_broken_data_is_an_error(encoding: str, body: bytes) -> None:
    with pytest.raises(ModelProtocolError):
        list(BodyDecoder(encoding, limit_bytes=1000).feed(body))


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip"])
def test_unknown_encoding_is_an_error(encoding: str) -> None:
    with pytest.raises(ModelProtocolError, match=encoding):
        BodyDecoder(encoding, limit_bytes=1000)


def test_bomb_ends_at_the_limit() -> None:
    """B40 (l): 64 MiB out of 64 KiB."""
    pieces: list[bytes] = []
    decoder = BodyDecoder("gzip", limit_bytes=1 << 20)
    with pytest.raises(ModelProtocolError, match="larger than 1 MiB"):
        pieces.extend(decoder.feed(gzip.compress(bytes(64 << 20))))
    assert sum(map(len, pieces)) <= 1 << 20


def test_plain_body_ends_at_the_limit() -> None:
    decoder = BodyDecoder("", limit_bytes=10)
    list(decoder.feed(b"x" * 10))
    with pytest.raises(ModelProtocolError):
        list(decoder.feed(b"x"))
