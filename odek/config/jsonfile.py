"""One configuration file: its bytes, and the JSON object in them (R-13, B37, B38).

A file that exists but cannot be read as it was meant is an error, never an empty configuration: a
policy that silently is not in force is worse than a run that does not start. Files are opened so
that nothing but a regular file is ever read, and none can make odek wait.
"""

from __future__ import annotations

import json
import os
import re

from odek import safefile
from odek.errors import ConfigError
from odek.operator_home import OperatorHome, read_config_file
from odek.text import truncate, visible

LIMIT_BYTES = 5 << 20
MAX_DIGITS = 19  # 2**63 has that many; the interpreter refuses 4301 with an error of its own
_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_SHOWN_CHARS = 60
_JSON_BLANKS = " \t\r\n"


class _Refused(ValueError):
    """Raised by the hooks of the JSON reader; carries the reason."""


def read_operator_config(where: OperatorHome, *, shown: str) -> bytes | None:
    """Return the bytes of the operator's file, None when there is none; `shown` is what errors call it.

    Raises StateFileError when it is not the operator's alone, ConfigError when it cannot be read.
    """
    shown = where.config_file or (where.path("config.json") if where.is_named else shown)
    try:
        return read_config_file(where, shown=shown, limit_bytes=LIMIT_BYTES)
    except OSError as error:
        raise _unreadable(shown, error) from error


def read_project_config(folder: str, name: str, *, shown: str) -> bytes | None:
    """Return the bytes of the file `name` of a project, or None when nothing at all has that name.

    A link may only lead to a file in `folder`: a checked-out link must not make odek read a file of
    somebody else. Raises ConfigError for everything that is not a readable regular file of at most
    LIMIT_BYTES.
    """
    try:
        os.lstat(os.path.join(folder, name))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(shown, error) from error
    try:
        return safefile.read_inside(folder, name, limit_bytes=LIMIT_BYTES)
    except safefile.LeavesFolder as error:
        raise ConfigError(
            f"cannot use {shown}: it is a link that leaves the project directory",
            hint=f"replace {shown} by a regular file",
        ) from error
    except OSError as error:
        raise _unreadable(shown, error) from error


def parse_config(data: bytes, *, shown: str) -> dict[str, object]:
    """Return the JSON object that `data` holds, read strictly.

    Raises ConfigError for whatever RFC 8259 does not allow, and for duplicate keys, numbers that
    are no finite 64-bit values, text that is not UTF-8, and a top level that is no object.
    """
    text = _decode(data, shown)
    if not text.strip(_JSON_BLANKS):
        raise ConfigError(f"cannot read {shown}: the file is empty", hint="put {} into it, or delete it")
    try:
        document = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_int,
        )
    except json.JSONDecodeError as error:
        raise _syntax_error(text, error, shown) from error
    except _Refused as error:
        raise ConfigError(f"cannot read {shown}: {error}", hint=f"correct {shown}") from error
    except RecursionError as error:
        raise ConfigError(f"cannot read {shown}: nested too deeply", hint=f"correct {shown}") from error
    if not isinstance(document, dict):
        raise ConfigError(
            f"cannot read {shown}: the top level is {kind_of(document)}, not an object", hint="start the file with {"
        )
    return document


def kind_of(value: object) -> str:
    """Return what JSON calls the type of `value`, with its article."""
    if value is None:
        return "null"
    names: dict[type, str] = {bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


def quoted(value: object) -> str:
    """Return a JSON value as an error shows it: short, on one line, harmless on a terminal."""
    return visible(truncate(json.dumps(value, ensure_ascii=False), _SHOWN_CHARS))


def described(value: object) -> str:
    """Return a JSON value for an error: itself when it is simple, else what kind of thing it is."""
    return kind_of(value) if isinstance(value, (list, dict)) or value is None else quoted(value)


def _unreadable(shown: str, error: OSError) -> ConfigError:
    reason = f"larger than {LIMIT_BYTES >> 20} MiB" if isinstance(error, safefile.TooLarge) else str(error.strerror)
    return ConfigError(
        f"cannot read {shown}: {visible(reason[:1].lower() + reason[1:])}",
        hint=f"make {shown} a readable file, or remove it",
    )


def _decode(data: bytes, shown: str) -> str:
    if data.startswith(_UTF16_BOMS) or b"\0" in data:
        raise ConfigError(f"cannot read {shown}: it is not UTF-8 but looks like UTF-16", hint="save it as UTF-8")
    data = data.removeprefix(_UTF8_BOM)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"cannot read {shown}: line {line} is not UTF-8", hint="save it as UTF-8") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    seen: dict[str, object] = {}
    for key, value in pairs:
        if key in seen:  # compared after decoding: "a" and "\u0061" are one key
            raise _Refused(f"the key {quoted(key)} stands in one object twice")
        seen[key] = value
    return seen


def _constant(name: str) -> object:
    raise _Refused(f"{name} is not JSON")


def _int(text: str) -> int:
    if len(text.lstrip("-")) > MAX_DIGITS:
        raise _Refused(f"the number {truncate(text, 24)} is too large")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _Refused(f"the number {truncate(text, 24)} is too large")
    return value


def _syntax_error(text: str, error: json.JSONDecodeError, shown: str) -> ConfigError:
    """Return an error that says the same on every Python: their own words and places differ."""
    before = text[: error.pos].rstrip(_JSON_BLANKS)
    position, reason, hint = error.pos, error.msg[:1].lower() + error.msg[1:], f"correct {shown}"
    here = text[error.pos :].lstrip(_JSON_BLANKS)
    if re.match(r"//|/\*|#", here):
        reason, hint = "JSON has no comments", "remove the comment"
    elif re.match(r",[ \t\r\n]*[]}]", here) or (before.endswith(",") and here[:1] in ("]", "}")):
        position = error.pos if here.startswith(",") else len(before) - 1
        reason, hint = "a comma with nothing after it", "remove the comma"
    elif not here:
        reason, hint = "the file ends too early", "restore its end"
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return ConfigError(f"cannot read {shown}: line {line}, column {column}: {visible(reason)}", hint=hint)
