"""What build/bootloader.py does to PyInstaller's bootloader, on a file that has just the parts it looks at."""

from __future__ import annotations

import struct
from types import ModuleType

import pytest
from support.load_module import load_recipe

STRINGS = b"\0libz.so.1\0libc.so.6\0inflate\0inflateEnd\0inflateInit_\0main\0"
NEEDED, SYMBOL_TABLE = 1, 6
GLOBAL_FUNCTION, WEAK_FUNCTION = 0x12, 0x22
HEADER_SIZE, SECTION_SIZE = 64, 64


@pytest.fixture(scope="module")
def bootloader() -> ModuleType:
    return load_recipe("bootloader")


def name(text: bytes) -> int:
    return STRINGS.index(b"\0" + text + b"\0") + 1


def write_dynamic(*libraries: bytes) -> bytes:
    entries = [*((NEEDED, name(library)) for library in libraries), (SYMBOL_TABLE, 0x400000)]
    packed = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    return packed.ljust(64, b"\0")


def write_symbols(kind: int, *functions: bytes) -> bytes:
    """The last one is the file's own."""
    undefined = [struct.pack("<IBBHQQ", name(function), kind, 0, 0, 0, 0) for function in functions]
    return b"".join([bytes(24), *undefined, struct.pack("<IBBHQQ", name(b"main"), GLOBAL_FUNCTION, 0, 9, 1, 1)])


def write_elf(dynamic: bytes, symbols: bytes) -> bytes:
    parts = ((3, STRINGS, 0), (6, dynamic, 1), (11, symbols, 1))
    sections, body = bytes(SECTION_SIZE), b""
    for kind, content, link in parts:
        sections += struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, HEADER_SIZE + len(body), len(content), link, 0, 1, 0)
        body += content
    header = bytearray(HEADER_SIZE)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", header, 0x28, HEADER_SIZE + len(body))
    struct.pack_into("<HH", header, 0x3A, SECTION_SIZE, 1 + len(parts))
    return bytes(header) + body + sections


FUNCTIONS = (b"inflate", b"inflateEnd", b"inflateInit_")


def test_the_need_for_libz_is_taken_out_and_nothing_moves(bootloader: ModuleType) -> None:
    before = write_elf(write_dynamic(b"libz.so.1", b"libc.so.6"), write_symbols(GLOBAL_FUNCTION, *FUNCTIONS))
    after = write_elf(write_dynamic(b"libc.so.6"), write_symbols(WEAK_FUNCTION, *FUNCTIONS))
    assert bootloader.without_library(before) == after


@pytest.mark.parametrize(
    ("libraries", "functions"),
    [
        ((b"libc.so.6",), FUNCTIONS),
        ((b"libz.so.1", b"libc.so.6"), FUNCTIONS[:2]),
        ((b"libc.so.6",), ()),
    ],
    ids=["no libz", "fewer functions", "neither"],
)
def test_another_bootloader_is_refused(
    libraries: tuple[bytes, ...], functions: tuple[bytes, ...], bootloader: ModuleType
) -> None:
    """A later PyInstaller may be another: the build ends, and somebody looks."""
    content = write_elf(write_dynamic(*libraries), write_symbols(GLOBAL_FUNCTION, *functions))
    with pytest.raises(bootloader.UnknownBootloader):
        bootloader.without_library(content)


def test_messages_are_replaced_in_their_place(bootloader: ModuleType) -> None:
    before = b"code\0" + b"\0".join(old.rstrip(b"\0") for old in bootloader.MESSAGES) + b"\0more"
    after = bootloader.reword(before)
    assert len(after) == len(before)
    assert after.startswith(b"code\0odek %d error: \0")
    assert after.endswith(b"\0more")
    assert not any(old in after for old in bootloader.MESSAGES)
    with pytest.raises(bootloader.UnknownBootloader, match="PYI"):
        bootloader.reword(after)
