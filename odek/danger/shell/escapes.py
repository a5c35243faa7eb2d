"""Backslash escapes: of `$'…'` and of `printf` and `echo -e`. Pure."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(0?[0-7]{1,3})|c([\s\S])|([\s\S]))"
)
_SINGLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_REPLACEMENT = "\ufffd"
_FIRST_PLAIN = 7  # characters below are marks.*: text from an escape must not pass for one


def decode_ansi_c(text: str) -> str:
    """Return what a shell makes of the text between `$'` and `'`, up to a NUL, which ends it."""
    return _ESCAPE.sub(_decoded, text).split("\0", 1)[0]


def decode_printf(text: str) -> str:
    """Return `text` with the escapes of printf's format decoded."""
    return _ESCAPE.sub(_decoded, text).replace("\0", "")


def _decoded(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2] or match[3]
    if hexadecimal:
        return _character(int(hexadecimal, 16))
    if match[4]:
        return _character(int(match[4], 8) & 0xFF)
    if match[5]:
        return _character(ord(match[5][0]) & 0x1F)
    return _SINGLE.get(match[6], match[6] if match[6] in "\\'\"?" else "\\" + match[6])


def _character(code: int) -> str:
    if code >= 0x110000 or 0xD800 <= code < 0xE000 or 0 < code < _FIRST_PLAIN:
        return _REPLACEMENT
    return chr(code)
