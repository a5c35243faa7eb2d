"""Bundles on disk: written so that a whole one is there or none, and read again to the last byte."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from odek.bundle.layout import LARGEST_HEAD, BundleError, Contents, Part, head_size, offsets, parse_head, render_head
from odek.text import visible

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a part comes from. Its size and hash are found when it is written; a hash that is known must be right."""

    part: Part
    path: str = ""
    data: bytes = b""
    """instead of a file"""
    compress: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What is in a bundle that was read to its end."""

    contents: Contents
    sha256: str
    """of the whole file"""
    size_bytes: int


def write_bundle(path: str, contents: Contents, sources: tuple[Source, ...]) -> Bundle:
    """Write the new file `path`: `contents` with the parts of `sources` behind it, and read it again.

    Raises OSError, and BundleError when what was written is not what is read.
    """
    part_path = f"{path}.part"
    begun = replace(contents, parts=tuple(source.part for source in sources))
    file = open(part_path, "xb")  # noqa: SIM115 - what is there already is another's, and stays
    try:
        with file:
            file.seek(head_size(begun))
            written = replace(begun, parts=tuple(_write_part(source, file) for source in sources))
            file.seek(0)
            file.write(render_head(written))
            file.flush()
            os.fsync(file.fileno())
        made = read_bundle(part_path, shown=path)
        if made.contents != written:
            raise BundleError(f'"{visible(path)}" is not as it was written', hint="the disk may be damaged")
        os.chmod(part_path, 0o755 & ~_umask())
        os.rename(part_path, path)
    finally:
        if os.path.lexists(part_path):
            os.unlink(part_path)
    return made


def read_bundle(path: str, *, shown: str) -> Bundle:
    """Return what is in the file when every byte of it is right. Raises BundleError and OSError."""
    with open(path, "rb") as file:
        head = file.read(LARGEST_HEAD)
        contents = parse_head(head, shown=shown)
        places = offsets(contents)
        size = os.fstat(file.fileno()).st_size
        if size != places[-1]:
            raise BundleError(
                f'"{visible(shown)}" has {size} bytes instead of {places[-1]}', hint="it was cut off: copy it again"
            )
        whole = hashlib.sha256(head[: places[0]])
        file.seek(places[0])
        for part in contents.parts:
            digest, left = hashlib.sha256(), part.size_bytes
            while left and (chunk := file.read(min(left, _CHUNK))):
                digest.update(chunk)
                whole.update(chunk)
                left -= len(chunk)
            if digest.hexdigest() != part.sha256:
                raise BundleError(
                    f'{part.name} in "{visible(shown)}" does not have its SHA-256', hint="it is damaged: copy it again"
                )
    return Bundle(contents=contents, sha256=whole.hexdigest(), size_bytes=size)


@contextmanager
def open_part(path: str, contents: Contents, part: Part) -> Iterator[BinaryIO]:
    """Give the bytes of one part of a bundle as a file."""
    with open(path, "rb") as file:
        window: Any = _Window(file, offsets(contents)[contents.parts.index(part)], part.size_bytes)
        yield io.BufferedReader(window)


class _Window(io.RawIOBase):
    """A range of a file, to be read from its beginning."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._start, self._size, self._at = file, start, size, 0
        file.seek(start)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_SET:
            raise io.UnsupportedOperation("seek")
        self._at = offset
        self._file.seek(self._start + offset)
        return offset

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data = self._file.read(min(len(buffer), self._size - self._at))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class _Hashing(io.RawIOBase):
    """Writes, and computes size and hash of what is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.digest.update(data)
        self.size += len(data)
        return self._file.write(data)


def _write_part(source: Source, file: BinaryIO) -> Part:
    out = _Hashing(file)
    with open(source.path, "rb") if source.path else io.BytesIO(source.data) as content:
        if source.compress:
            # no time and no name in it: the same image gives the same bytes
            with gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=0) as packed:
                _copy(content, packed)
        else:
            _copy(content, out)
    if source.part.sha256 not in ("", out.digest.hexdigest()):
        raise BundleError(f"{source.part.name} has changed while it was packed", hint="make the bundle again")
    return replace(source.part, size_bytes=out.size, sha256=out.digest.hexdigest())


def _copy(source: BinaryIO, target: io.RawIOBase | gzip.GzipFile) -> None:
    while chunk := source.read(_CHUNK):
        target.write(chunk)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
