"""What is in a file that PyInstaller made: its members, and the modules in the one that holds modules.

Read from the file alone, so that checks and the bill of materials speak of what is shipped. The layout
is that of PyInstaller 6: at the end a cookie, before it a table of contents, before it the members.
"""

from __future__ import annotations

import marshal
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = b"MEI\x0c\x0b\x0a\x0b\x0e"
_COOKIE = struct.Struct("!8sIIII64s")
_ENTRY = struct.Struct("!IIIIBc")
MODULES = "z"
"""kind of the member that holds modules"""


class NotAnArchive(Exception):
    """The file is none that PyInstaller made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of the archive."""

    name: str
    kind: str
    """PyInstaller's letter: b binary, x data, z modules, s script, m module of the start, o option"""
    deflated: bool
    content: bytes


def read_members(file: bytes) -> tuple[Member, ...]:
    """Return the members. Raises NotAnArchive."""
    at = file.rfind(MAGIC)
    if at < 0 or len(file) < at + _COOKIE.size:
        raise NotAnArchive("no archive of PyInstaller in it")
    _, length, toc, toc_length, _, _ = _COOKIE.unpack_from(file, at)
    start = at + _COOKIE.size - length
    if start < 0:
        raise NotAnArchive("cut off at its beginning")
    return tuple(_read_toc(file, start, start + toc, start + toc + toc_length))


def _read_toc(file: bytes, start: int, at: int, end: int) -> Iterator[Member]:
    while at < end:
        size, offset, length, _, deflated, kind = _ENTRY.unpack_from(file, at)
        name = file[at + _ENTRY.size : at + size].rstrip(b"\0").decode()
        content = file[start + offset : start + offset + length]
        yield Member(
            name=name,
            kind=kind.decode(),
            deflated=bool(deflated),
            content=zlib.decompress(content) if deflated else content,
        )
        at += size


def read_modules(content: bytes) -> dict[str, bytes]:
    """Return module → deflated code, of a member of kind MODULES; a namespace package has none."""
    if content[:4] != b"PYZ\0":
        raise NotAnArchive("this member holds no modules")
    toc = int.from_bytes(content[8:12], "big")
    entries: list[tuple[str, tuple[int, int, int]]] = marshal.loads(content[toc:])  # noqa: S302 – our own file
    return {name: content[offset : offset + length] for name, (_, offset, length) in entries}
