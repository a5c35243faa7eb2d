"""Small real images, made by hand: heads as the formats have them."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 2, height: int = 1) -> bytes:
    """Return a whole PNG image, black."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * ((width + 1) * height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def gif(width: int = 2, height: int = 1) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def jpeg(width: int = 2, height: int = 1) -> bytes:
    """Return the head of a JPEG image: two segments stand before the one with the size."""
    segments = b"\xff\xe0\x00\x04AB" + b"\xff\xff\xfe\x00\x05abc"
    return (
        b"\xff\xd8" + segments + b"\xff\xc2\x00\x0b\x08" + struct.pack(">HH", height, width) + b"\x01\x01\x11\0\xff\xd9"
    )


def webp(kind: bytes, width: int = 2, height: int = 1) -> bytes:
    heads = {
        b"VP8 ": b"\0" * 10 + struct.pack("<HH", width, height),
        b"VP8L": b"\0" * 4 + b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14),
        b"VP8X": b"\0" * 8 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
    }
    return b"RIFF\0\0\0\0WEBP" + kind + heads[kind]
