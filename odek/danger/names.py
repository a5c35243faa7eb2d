"""From the first word of a command to the program that the rules know. Pure."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

from odek.danger.lists import words_of

_SYSTEM_FOLDERS = words_of("""
    /bin /usr/bin /sbin /usr/sbin /usr/local/bin /usr/local/sbin /opt/homebrew/bin /snap/bin /opt/local/bin
    /home/linuxbrew/.linuxbrew/bin /lib /lib64 /usr/lib /usr/lib64
    """)
_VERSION = re.compile(r"-?[0-9]+(?:\.[0-9]+)*t?$")
_LOADER = re.compile(r"ld-(?:linux|musl)[\w.-]*\.so(?:\.[0-9]+)*$|ld\.so$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program as the rules see it."""

    name: str
    """the name that the rules know, or the plain name"""
    known: bool
    origin: Literal["path", "system", "file"]
    """found through PATH, in a directory of the system, or a file of somebody's own"""


def identify_program(word: str, known: Container[str]) -> Program:
    """Return what `word` names; versioned names (`python3.11`, `clang-18`) are known by their base."""
    folder, slash, base = word.rpartition("/")
    origin: Literal["path", "system", "file"] = (
        "path" if not slash else "system" if folder in _SYSTEM_FOLDERS else "file"
    )
    if _LOADER.fullmatch(base):
        return Program(name="ld.so", known=True, origin=origin)
    if base in known:
        return Program(name=base, known=True, origin=origin)
    plain = _VERSION.sub("", base)
    if plain and plain != base and plain in known:
        return Program(name=plain, known=True, origin=origin)
    return Program(name=base, known=False, origin=origin)
