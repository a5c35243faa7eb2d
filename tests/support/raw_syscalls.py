"""Single system calls from inside a sandbox: a program of a few bytes that the image's `printf` writes.

It makes the call by one of the three doors that a 64-bit kernel on x86 has, and ends with its errno, or 0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

_BASE = 0x400000
_HEADERS = 64 + 56
_X32_BIT = 0x40000000
_ARGUMENTS: dict[str, tuple[bytes, ...]] = {
    # mov edi, esi, edx, r10d, r8d with a number; in the 32-bit table ebx, ecx, edx, esi, edi
    "64": (b"\xbf", b"\xbe", b"\xba", b"\x41\xba", b"\x41\xb8"),
    "ia32": (b"\xbb", b"\xb9", b"\xba", b"\xbe", b"\xbf"),
}
_ENTER = {"64": b"\x0f\x05", "ia32": b"\xcd\x80"}  # syscall, int 0x80
# edi = -eax, or 0 where eax is not negative; then exit(edi)
_EXIT = b"\x89\xc7\xf7\xdf\x31\xc9\x85\xc0\x0f\x49\xf9\xb8\x3c\x00\x00\x00\x0f\x05"


@dataclass(frozen=True, slots=True)
class Call:
    """One system call with numbers as arguments."""

    number: int
    arguments: tuple[int, ...] = ()
    door: Literal["64", "x32", "ia32"] = "64"
    memory: tuple[int, ...] = ()
    """32-bit words that the last argument points to"""


def program(call: Call) -> bytes:
    """Return the program, an ELF file, that makes `call`."""
    table = "ia32" if call.door == "ia32" else "64"
    moves = _ARGUMENTS[table]
    number = call.number | (_X32_BIT if call.door == "x32" else 0)
    count = len(call.arguments) + bool(call.memory)
    length = 5 + sum(len(move) + 4 for move in moves[:count]) + len(_ENTER[table]) + len(_EXIT)
    arguments = (*call.arguments, *((_BASE + _HEADERS + length,) if call.memory else ()))
    code = b"\xb8" + struct.pack("<I", number)
    code += b"".join(
        move + struct.pack("<I", value & 0xFFFFFFFF) for move, value in zip(moves, arguments, strict=False)
    )
    code += _ENTER[table] + _EXIT + b"".join(struct.pack("<I", word) for word in call.memory)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = _HEADERS + len(code)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + segment + code


def command_of(calls: dict[str, Call]) -> str:
    """Return a shell command that makes each call and prints its name and errno."""
    lines = []
    for name, call in calls.items():
        octal = "".join(f"\\{byte:03o}" for byte in program(call))
        lines.append(
            f"printf '{octal}' >/workspace/.call; chmod 700 /workspace/.call; /workspace/.call; echo {name} $?"
        )
    return "\n".join((*lines, "rm -f /workspace/.call"))


def results_of(output: str) -> dict[str, int]:
    """Return what `command_of` printed: errno by name, 128 and more for a signal."""
    rows = (line.split() for line in output.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
