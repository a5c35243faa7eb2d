"""PyInstaller's bootloader made fit for odek: its messages, and what it needs of the machine.

It comes ready-made and links libz, to inflate what odek.spec stores as it is. Without the need for it, the
binary starts where no libz is; Python finds one in the binary.
"""

from __future__ import annotations

import struct

import glibc

MESSAGES = {
    # what it says when it cannot start; %d is its process id
    b"[PYI-%d:ERROR] ": b"odek %d error: ",
    b"[PYI-%d:%s] ": b"odek %d %s: ",
    b"ERROR\0": b"error\0",
    b"Could not create temporary directory!": b"no temporary folder can be written",
    # what follows is the loader's own reason: an old glibc, a noexec mount
    b"Failed to load Python shared library '%s': %s": b"cannot load its Python: %s: %s",
    b"Failed to extract %s: failed to write data chunk!": b"cannot unpack %s: is the disk full?",
}
LIBRARY, FUNCTIONS = b"libz.so.1", frozenset((b"inflate", b"inflateEnd", b"inflateInit_"))

_DYNAMIC, _DYNAMIC_SYMBOLS = 6, 11  # types of sections
_NEEDED = 1  # tag of an entry in the dynamic section
_WEAK = 2 << 4
_ENTRY, _SYMBOL = struct.Struct("<QQ"), struct.Struct("<IBBHQQ")


class UnknownBootloader(Exception):
    """This bootloader is not the one that was looked at."""


def adapt(content: bytes) -> bytes:
    """Return the bootloader with the messages above and without the need for libz. Raises UnknownBootloader."""
    return without_library(reword(content))


def reword(content: bytes) -> bytes:
    """Return it with other messages: what is shorter ends earlier, nothing moves."""
    for old, new in MESSAGES.items():
        if content.count(b"\0" + old) != 1 or len(new) > len(old):
            raise UnknownBootloader(f"this bootloader does not say {old!r} once; look at MESSAGES")
        content = content.replace(b"\0" + old, b"\0" + new + b"\0" * (len(old) - len(new)))
    return content


def without_library(content: bytes) -> bytes:
    """Return it without the need for LIBRARY; its FUNCTIONS may then be missing, also where the user has the
    linker look for all of them at once (LD_BIND_NOW)."""
    out = bytearray(content)
    sections = glibc.sections(content)
    found: list[bytes] = []

    def name_at(strings: int, at: int) -> bytes:
        start = sections[strings][1] + at
        return content[start : content.index(b"\0", start)]

    for kind, offset, size, strings, _ in sections:
        if kind == _DYNAMIC:
            entries = list(_ENTRY.iter_unpack(content[offset : offset + size]))
            kept = [entry for entry in entries if entry[0] != _NEEDED or name_at(strings, entry[1]) != LIBRARY]
            found += [LIBRARY] * (len(entries) - len(kept))
            packed = b"".join(_ENTRY.pack(*entry) for entry in kept)
            out[offset : offset + size] = packed.ljust(size, b"\0")
        elif kind == _DYNAMIC_SYMBOLS:
            for at in range(offset, offset + size, _SYMBOL.size):
                name, info, _, section, _, _ = _SYMBOL.unpack_from(content, at)
                if section == 0 and name_at(strings, name) in FUNCTIONS:
                    out[at + 4] = _WEAK | info & 0xF
                    found.append(name_at(strings, name))
    if sorted(found) != sorted((LIBRARY, *FUNCTIONS)):
        raise UnknownBootloader(f"this bootloader needs of libz {found}; look at FUNCTIONS")
    return bytes(out)
