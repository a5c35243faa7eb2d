"""Reading the fields of a request's body and query: typed and in range, or refused with 422. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from odek import strict_json
from odek.errors import StateFileError
from odek.patterns import pattern
from odek.session.ids import check_id
from odek.strict_json import JsonError
from odek.web.errors import Refused

TEXT_LIMIT_BYTES = 1 << 20
MOST_FILES = 100
_NAME = pattern(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_NUMBER = pattern(r"[0-9]{1,9}", re.ASCII)


def parse_object(body: bytes, known: Sequence[str]) -> dict[str, object]:
    """Return the object in `body`; nothing at all is an empty one. Raises Refused: 400 for what is not JSON."""
    if not body:
        return {}
    try:
        value = strict_json.parse(body)
    except JsonError as error:
        raise Refused(400, "json", f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise invalid("the body must be an object")
    if set(value) - set(known):
        fields = f"known here: {', '.join(known)}" if known else "none is known here"
        raise Refused(422, "invalid", "the body has an unknown field", fields)
    return value


def read_text(fields: Mapping[str, object], name: str, *, default: str | None = None, most: int = 256) -> str:
    """Return a text of up to `most` characters that UTF-8 can hold. Raises Refused."""
    value = fields.get(name, default)
    if not isinstance(value, str) or len(value) > most or "\0" in value or not _is_encodable(value):
        raise invalid(f'"{name}" must be a text of up to {most} characters')
    return value


def read_message(fields: Mapping[str, object]) -> str:
    """Return the text of a message; files may stand alone. Raises Refused."""
    value = fields.get("text", "")
    if not isinstance(value, str) or "\0" in value or not _is_encodable(value):
        raise invalid('"text" must be a text of UTF-8 without NUL')
    if len(value.encode()) > TEXT_LIMIT_BYTES:
        raise Refused(413, "too_large", "the text is longer than 1 MiB", "put it into a file and attach it")
    if not value.strip() and not fields.get("files"):
        raise invalid('"text" is empty, and no file stands in its place')
    return value


def read_names(fields: Mapping[str, object], name: str) -> tuple[str, ...]:
    """Return a list of ids. Raises Refused."""
    value = fields.get(name, [])
    if not isinstance(value, list) or len(value) > MOST_FILES:
        raise invalid(f'"{name}" must be a list of up to {MOST_FILES} ids')
    if not all(isinstance(each, str) and _NAME.fullmatch(each) for each in value):
        raise invalid(f'"{name}" holds what is not an id')
    return tuple(value)


def read_name(fields: Mapping[str, object], name: str, *, default: str | None = None) -> str:
    """Return an id that the client made up. Raises Refused."""
    value = fields.get(name, default)
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise invalid(f'"{name}" must be 1 to 64 letters, digits, ".", "_" or "-"')
    return value


def read_choice(fields: Mapping[str, object], name: str, choices: Sequence[str]) -> str:
    """Return one of `choices`. Raises Refused."""
    value = fields.get(name)
    if not isinstance(value, str) or value not in choices:
        raise invalid(f'"{name}" must be one of {", ".join(choices)}')
    return value


def read_turn(fields: Mapping[str, object]) -> int:
    """Return the number of a turn. Raises Refused."""
    value = fields.get("turn")
    if type(value) is not int or not 0 < value < 10**9:
        raise invalid('"turn" must be the number of a turn')
    return value


def read_number(query: Mapping[str, str], name: str, *, default: int, least: int, most: int) -> int:
    """Return a whole number of a query. Raises Refused."""
    text = query.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise invalid(f'"{name}" must be a whole number from {least} to {most}')
    return int(text)


def check_session_id(text: str) -> str:
    """Return `text` if it can be the id of a session. Raises Refused."""
    try:
        check_id(text)
    except StateFileError:
        text = ""
    if not text or len(text) > 200 or not text.isprintable():
        raise not_found("session")
    return text


def check_name(text: str, what: str) -> str:
    """Return `text` if it can be the id of a `what`. Raises Refused."""
    if not _NAME.fullmatch(text):
        raise not_found(what)
    return text


def not_found(what: str) -> Refused:
    return Refused(404, "not_found", f"there is no such {what}")


def invalid(message: str) -> Refused:
    return Refused(422, "invalid", message)


def _is_encodable(text: str) -> bool:
    """Return whether UTF-8 can hold `text`; JSON can write lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
