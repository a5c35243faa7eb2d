"""What is in a binary: the members of a file that PyInstaller made, and what a portable one says of itself.

Read from the file alone, so that checks and the bill of materials speak of what is shipped. The layout
is that of PyInstaller 6: at the end a cookie, before it a table of contents, before it the members; or that of
portable.py: a zip archive at the end, with a member that names the parts.
"""

from __future__ import annotations

import gzip
import io
import json
import marshal
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from artifact import BUILT

MAGIC = b"MEI\x0c\x0b\x0a\x0b\x0e"
_COOKIE = struct.Struct("!8sIIII64s")
_ENTRY = struct.Struct("!IIIIBc")
PARTS = "parts.json"
"""member of a portable binary: what is in it but odek, {"libraries": {name: version}, "modules": {name: SHA-256}}"""
LICENCES = "THIRD_PARTY_LICENSES"
"""member of a portable binary: the licences of these libraries"""
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


def read_zip_member(file: bytes, name: str) -> bytes | None:
    """Return a member of the zip archive at the end of a file, None when there is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(file)) as archive:
            return archive.read(name)
    except (zipfile.BadZipFile, KeyError):
        return None


def read_parts(file: bytes) -> dict[str, dict[str, str]] | None:
    """Return what a portable binary is made of (PARTS), None of any other file."""
    content = read_zip_member(file, PARTS)
    return None if content is None else json.loads(content)


def read_built(file: bytes) -> dict[str, str] | None:
    """Return what an artifact says of itself (BUILT), None of a file that does not."""
    if file.rfind(MAGIC) >= 0:
        content = next((member.content for member in read_members(file) if member.name == BUILT), None)
    else:
        packed = read_zip_member(file, "source.gz")
        content = None if packed is None else split(gzip.decompress(packed)).get(BUILT)
    return None if content is None else json.loads(content)


def split(content: bytes) -> dict[str, bytes]:
    """Return name → content of the files in a member that zipapp.py has joined."""
    index, _, content = content.partition(b"\n\n")
    files = {}
    for line in index.decode("ascii").split("\n"):
        name, _, size = line.partition(" ")
        files[name], content = content[: int(size)], content[int(size) :]
    return files
