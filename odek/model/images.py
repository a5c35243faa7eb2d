"""Images that go to a model with a message: what their bytes say of them. Pure.

Four types are understood by every model that takes images at all. Type and size are read from the bytes: a name is a
claim.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from dataclasses import dataclass, field

LIMIT_BYTES = 3_750_000  # 5 MB in base64, which is the most that some services take
MOST_PIXELS = 8000
"""of a side, likewise"""
MOST_IMAGES = 20
"""of one message"""
ESTIMATED_TOKENS = 1600
"""of one image; providers count by its size, and scale larger ones down to about that"""
NAMES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WebP"}
_JPEG_SIZES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image."""

    name: str
    """as the user wrote it"""
    media_type: str
    path: str
    """absolute, on this machine; where a session that goes on looks for it"""
    sha256: str
    """hex"""
    data: bytes = field(default=b"", repr=False, compare=False)
    """b"": the file is gone or has changed since"""

    @property
    def base64(self) -> str:
        return b64encode(self.data).decode("ascii")


def image_type(data: bytes) -> str:
    """Return the media type of an image that models take, "" for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height in pixels, None for an image whose head is damaged."""
    readers = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
    reader = readers.get(image_type(data))
    try:
        found = reader(data) if reader else None
    except (struct.error, IndexError):
        return None
    return found if found and all(found) else None


def image_fault(data: bytes) -> str:
    """Return why a model cannot be given these bytes as an image, "" if it can."""
    if not image_type(data):
        return "it is not a PNG, JPEG, GIF or WebP image"
    if len(data) > LIMIT_BYTES:
        return f"it is larger than {LIMIT_BYTES / 1_000_000:g} MB; scale it down"
    size = image_size(data)
    if size is None:
        return "it is a damaged image"
    return f"it is {size[0]}x{size[1]} pixels, and {MOST_PIXELS} a side are the most" if max(size) > MOST_PIXELS else ""


def describe(data: bytes) -> str:
    """Return what an image is, for people and models."""
    size = image_size(data)
    pixels = f", {size[0]}x{size[1]}" if size else ""
    return f"{NAMES.get(image_type(data), 'unknown')} image{pixels}, {len(data)} bytes"


def _png(data: bytes) -> tuple[int, int] | None:
    width, height = struct.unpack(">II", data[16:24])
    return (width, height) if data[12:16] == b"IHDR" else None


def _gif(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack("<HH", data[6:10])
    return width, height


def _webp(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack("<I", data[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    place = 2
    while data[place] == 0xFF:
        marker = data[place + 1]
        if marker == 0xFF or marker in _JPEG_ALONE:
            place += 1 if marker == 0xFF else 2
            continue
        if marker in _JPEG_SIZES:
            height, width = struct.unpack(">HH", data[place + 5 : place + 9])
            return width, height
        (length,) = struct.unpack(">H", data[place + 2 : place + 4])
        place += 2 + length
    return None
