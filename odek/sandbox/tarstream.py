"""A tar file read from front to back in bounded memory: names, kinds and content, nothing unpacked.

tarfile of the standard library reads an extended header of any size into memory. This reader knows
what image archives consist of (POSIX ustar and pax, long names of GNU tar) and refuses the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Literal

BLOCK = 512
CHUNK = 1 << 18
MAX_HEADER_BYTES = 1 << 16
_MAX_DIGITS = 20  # of a size; 2**64 has that many
_OCTAL = frozenset(b"01234567")
_KINDS: dict[bytes, Literal["file", "folder", "link"]] = {b"0": "file", b"\0": "file", b"5": "folder", b"2": "link"}


class TarError(ValueError):
    """The file is no tar that this reader takes; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One entry of the archive."""

    name: str
    """as written, bytes that are no UTF-8 as surrogates"""
    kind: Literal["file", "folder", "link"]
    size_bytes: int
    target: str
    """of a symbolic link, as written"""


class TarStream:
    """Iterates over the members; `chunks` gives the content of the present one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = 0
        self._padding = 0

    def members(self) -> Iterator[Member]:
        """Yield each member. Raises TarError."""
        changes: dict[str, str] = {}
        while True:
            self._skip()
            header = self._read(BLOCK)
            if header == bytes(BLOCK):
                return
            kind, member = _parse_header(header)
            if kind in b"xgLK":
                changes.update(self._extension(kind, member.size_bytes))
                continue
            member = _apply(member, changes)
            changes = {}
            self._left = member.size_bytes if member.kind == "file" else 0
            self._padding = -self._left % BLOCK
            yield member

    def chunks(self) -> Iterator[bytes]:
        """Yield the content of the present member, once."""
        while self._left:
            data = self._read(min(self._left, CHUNK))
            self._left -= len(data)
            yield data

    def _skip(self) -> None:
        for _ in self.chunks():
            pass
        if self._padding:
            self._read(self._padding)
            self._padding = 0

    def _extension(self, kind: bytes, size: int) -> dict[str, str]:
        if size > MAX_HEADER_BYTES:
            raise TarError("an extended header is too large")
        data = self._read(size)
        if size % BLOCK:
            self._read(-size % BLOCK)
        if kind == b"g":
            return {}
        if kind == b"x":
            return _parse_pax(data)
        return {"path" if kind == b"L" else "linkpath": _text(data)}

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise TarError("it ends too early")
        return data


def _parse_header(header: bytes) -> tuple[bytes, Member]:
    counted = sum(header[:148]) + sum(header[156:]) + 8 * ord(" ")
    if _number(header[148:156]) != counted:
        raise TarError("a header is damaged, or it is compressed or no tar at all")
    kind = header[156:157]
    name = _text(header[:100])
    if header[257:263] == b"ustar\0" and header[345]:
        name = f"{_text(header[345:500])}/{name}"
    if kind not in _KINDS and kind not in b"xgLK":
        raise TarError(f"it holds an entry of the kind {kind!r}")
    entry = Member(
        name=name,
        kind=_KINDS.get(kind, "file"),
        size_bytes=_number(header[124:136]),
        target=_text(header[157:257]),
    )
    return kind, entry


def _apply(member: Member, changes: dict[str, str]) -> Member:
    if any(key.startswith("GNU.sparse") for key in changes):
        raise TarError("it holds a sparse file")
    size = changes.get("size", str(member.size_bytes))
    if not (size.isascii() and size.isdecimal() and len(size) <= _MAX_DIGITS):
        raise TarError("the size of an entry is no number")
    name = changes.get("path", member.name)
    return replace(
        member,
        name=name,
        kind="folder" if member.kind == "file" and name.endswith("/") else member.kind,
        target=changes.get("linkpath", member.target),
        size_bytes=int(size),
    )


def _parse_pax(data: bytes) -> dict[str, str]:
    """Return the records of an extended header, each "LENGTH KEY=VALUE" and a line end."""
    found: dict[str, str] = {}
    while data:
        digits, blank, _ = data[:20].partition(b" ")
        if not blank or not digits.isdigit():
            raise TarError("an extended header is damaged")
        length = int(digits)
        record, data = data[:length], data[length:]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if len(record) != length or not record.endswith(b"\n") or not equals:
            raise TarError("an extended header is damaged")
        found[_text(key)] = _text(value)
    return found


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # GNU's and Go's way to write what octal digits cannot hold
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    digits = field.strip(b"\0 ")
    if not digits:
        return 0
    if not _OCTAL.issuperset(digits):  # int() would take a sign; with a negative size all of a file is read at once
        raise TarError("a header is damaged, or it is compressed or no tar at all")
    return int(digits, 8)


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
