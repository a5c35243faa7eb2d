"""JSON as RFC 8259 has it and nothing beyond: one reader for settings, state, sessions and the pinned image. Pure.

Python's own accepts NaN and takes the last of two equal keys; a policy that is written twice would be in force in
the form that the eye skips. What is refused says why, and where, in the same words on every version of Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odek import json_text
from odek.patterns import pattern
from odek.text import truncate, visible

if TYPE_CHECKING:
    from json import JSONDecodeError

_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_BLANKS = " \t\r\n"
_SHOWN_CHARS = 60
_COMMENT = pattern(r"//|/\*|#")
_TRAILING_COMMA = pattern(r",[ \t\r\n]*[]}]")
_INFINITE = float("inf")
_MAX_DIGITS = 100  # far above anything meant; Python itself gives up at 4300, with a hint for programmers


class JsonError(ValueError):
    """The text is not strict JSON; `hint` says what to do where that is known, else it is ""."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def parse(data: bytes, *, max_digits: int = _MAX_DIGITS) -> object:
    """Return the value in `data`, UTF-8 with or without a byte order mark; whole numbers have up to `max_digits`.

    Raises JsonError, its text fit for the user: for what RFC 8259 does not allow, equal keys, numbers that are too
    large, and nesting that Python cannot follow (B37, B38).
    """

    def whole_number(digits: str) -> int:
        if len(digits.lstrip("-")) > max_digits:
            raise JsonError(f"the number {truncate(digits, 24)} is too large")
        return int(digits)

    text = _decode(data)
    try:
        value: object = json_text.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite, parse_int=whole_number
        )
    except RecursionError as error:
        raise JsonError("it is nested too deeply") from error
    except JsonError:
        raise
    except ValueError as error:
        raise _syntax_error(text, error) from error  # type: ignore[arg-type]
    return value


def kind_of(value: object) -> str:
    """Return what JSON calls the type of `value`, with its article."""
    if value is None:
        return "null"
    names: dict[type, str] = {bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


def quoted(value: object) -> str:
    """Return a JSON value as an error shows it: short, on one line, harmless on a terminal."""
    import json  # for errors only

    return visible(truncate(json.dumps(value, ensure_ascii=False), _SHOWN_CHARS))


def described(value: object) -> str:
    """Return a JSON value for an error: itself when it is simple, else what kind of value it is."""
    return kind_of(value) if isinstance(value, (list, dict)) or value is None else quoted(value)


def _decode(data: bytes) -> str:
    if data.startswith(_UTF16_BOMS) or b"\0" in data:
        raise JsonError("it is not UTF-8 but looks like UTF-16", hint="save it as UTF-8")
    data = data.removeprefix(_UTF8_BOM)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise JsonError(f"line {line} is not UTF-8", hint="save it as UTF-8") from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:  # compared after decoding: "a" and "\u0061" are one key
            raise JsonError(f"the key {quoted(key)} is in one object twice")
        found[key] = value
    return found


def _refuse(constant: str) -> object:
    raise JsonError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (_INFINITE, -_INFINITE):
        raise JsonError(f"the number {truncate(digits, 24)} is too large")
    return number


def _syntax_error(text: str, error: JSONDecodeError) -> JsonError:
    before = text[: error.pos].rstrip(_BLANKS)
    position, reason, hint = error.pos, error.msg[:1].lower() + error.msg[1:], ""
    here = text[error.pos :].lstrip(_BLANKS)
    if _COMMENT.match(here):
        reason, hint = "JSON has no comments", "remove the comment"
    elif _TRAILING_COMMA.match(here) or (before.endswith(",") and here[:1] in ("]", "}")):
        position = error.pos if here.startswith(",") else len(before) - 1
        reason, hint = "a comma with nothing after it", "remove the comma"
    elif not here:
        reason, hint = "the file ends too early", "restore its end"
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return JsonError(f"line {line}, column {column}: {visible(reason)}", hint=hint)
