"""Which glibc a file needs at least: asked of every ELF file in it, or of the file itself.

    python3 build/glibc.py [--limit 2.36] FILE…

With --limit, the exit status is 1 when a file needs a newer one.
"""

from __future__ import annotations

import argparse
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import archive

_NEEDED_VERSIONS = 0x6FFFFFFE  # type of a section, SHT_GNU_verneed
_DYNAMIC, _NEEDED_LIBRARY = 6, 1  # type of a section, tag of an entry in it
_INTERPRETER = 3  # type of a segment
_NAME = re.compile(rb"GLIBC_(\d+)\.(\d+)(?:\.\d+)?\0")

Version = tuple[int, int]


class NotElf(Exception):
    """The file is no 64-bit little-endian ELF file."""


def needed(content: bytes) -> Version:
    """Return the newest glibc whose symbols an ELF file asks for; (0, 0) if it asks for none. Raises NotElf."""
    if content[:6] != b"\x7fELF\x02\x01":
        raise NotElf("no 64-bit little-endian ELF file")
    newest = (0, 0)
    for name in _needed_names(content):
        match = _NAME.match(name)
        if match:
            newest = max(newest, (int(match[1]), int(match[2])))
    return newest


def _needed_names(content: bytes) -> Iterator[bytes]:
    """Yield the text from each name in the section of needed versions on."""
    found = sections(content)
    for kind, offset, _, link, count in found:
        if kind != _NEEDED_VERSIONS:
            continue
        names = found[link][1]
        entry = offset
        for _ in range(count):
            _, versions, _, first, following = struct.unpack_from("<HHIII", content, entry)
            version = entry + first
            for _ in range(versions):
                _, _, _, name, after = struct.unpack_from("<IHHII", content, version)
                yield content[names + name : names + name + 40]
                version += after
            entry += following


def sections(content: bytes) -> list[tuple[int, int, int, int, int]]:
    """Return (type, offset, size, link, info) of every section."""
    (table,) = struct.unpack_from("<Q", content, 0x28)
    size, number = struct.unpack_from("<HH", content, 0x3A)
    found = []
    for index in range(number):
        _, kind, _, _, offset, length, link, info, _, _ = struct.unpack_from(
            "<IIQQQQIIQQ", content, table + index * size
        )
        found.append((kind, offset, length, link, info))
    return found


def libraries(content: bytes) -> tuple[str, ...]:
    """Return the shared libraries that an ELF file asks for."""
    found = sections(content)
    names = []
    for kind, offset, size, link, _ in found:
        for tag, value in struct.iter_unpack("<QQ", content[offset : offset + size]) if kind == _DYNAMIC else ():
            if tag == _NEEDED_LIBRARY:
                start = found[link][1] + value
                names.append(content[start : content.index(b"\0", start)].decode())
    return tuple(names)


def interpreter(content: bytes) -> str:
    """Return the loader that an ELF file asks for, "" of a static one."""
    (table,) = struct.unpack_from("<Q", content, 0x20)
    size, number = struct.unpack_from("<HH", content, 0x36)
    for index in range(number):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, table + index * size)
        if kind == _INTERPRETER:
            return content[offset : offset + length].rstrip(b"\0").decode()
    return ""


def needed_by_parts(content: bytes) -> dict[str, Version]:
    """Return ELF file in it → the glibc that it needs; "" is the file itself."""
    parts = {"": content}
    try:
        parts.update((member.name, member.content) for member in archive.read_members(content) if member.kind == "b")
    except archive.NotAnArchive:
        pass
    return {name: needed(part) for name, part in parts.items() if part[:4] == b"\x7fELF"}


def parse_version(text: str) -> Version:
    """Return 2.36 as (2, 36)."""
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def main(argv: list[str]) -> int:
    """Print what each file needs, and which part of it is to blame."""
    parser = argparse.ArgumentParser(prog="glibc", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--limit", type=parse_version, metavar="VERSION", default=(99, 0))
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    code = 0
    for file in options.files:
        parts = needed_by_parts(file.read_bytes())
        name, version = max(parts.items(), key=lambda part: part[1])
        print(f"{file}  glibc {version[0]}.{version[1]}  {name or 'the file itself'}")
        if version > options.limit:
            print("glibc: error: newer than allowed", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
