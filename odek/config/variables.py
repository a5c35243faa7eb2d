"""${VAR} and $VAR in values (R-17, F-3, F-5, B31). Pure.

`$$` is one dollar sign; a dollar sign before anything that starts neither a name nor `{` is kept
as it is. What comes out is never looked at again, and a variable that is not set is an error: an
empty string in its place would change the meaning of a setting without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from odek.errors import ConfigError
from odek.text import clip, visible

_REFERENCE = re.compile(r"\$(?:(?P<escaped>\$)|(?P<plain>[A-Za-z_][A-Za-z0-9_]*)|(?P<brace>\{)(?P<inner>[^{}$]*\}?))")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHOWN_CHARS = 40


def expand(text: str, env: Mapping[str, str], *, origin: str) -> str:
    """Return `text` with its variables replaced, once, from left to right.

    Raises ConfigError, naming `origin`, when a variable is not set or a `${…}` holds no name.
    """
    return _REFERENCE.sub(lambda match: _value(match, env, origin), text)


def variables_in(text: str) -> tuple[str, ...]:
    """Return the names that `text` refers to, each once, in order; never raises.

    Of a `${…}` that `expand` would refuse, whatever it begins with is returned.
    """
    names: dict[str, None] = {}
    for match in _REFERENCE.finditer(text):
        found = _NAME.match(match["plain"] or match["inner"] or "")
        if found:
            names[found[0]] = None
    return tuple(names)


def check_references(text: str, *, origin: str) -> None:
    """Raise ConfigError when `text` holds a `${…}` without a name, whatever is set."""
    for match in _REFERENCE.finditer(text):
        _name(match, origin)


def expand_marked(
    pairs: Iterable[tuple[str, str]], marked: Iterable[str], env: Mapping[str, str], *, origin: str
) -> tuple[tuple[str, str], ...]:
    """Return `pairs` with the values of the names in `marked` expanded and the others as they are.

    The operator's values were expanded when they were read; doing it twice would read variables
    that nobody named.
    """
    chosen = frozenset(marked)
    return tuple(
        (name, expand(value, env, origin=f"{origin}.{name}") if name in chosen else value) for name, value in pairs
    )


def _value(match: re.Match[str], env: Mapping[str, str], origin: str) -> str:
    name = _name(match, origin)
    if name is None:
        return "$"
    if name not in env:
        raise ConfigError(
            f'the variable "{name}" is not set ({origin})', hint=f"set {name}, or write $$ for a dollar sign"
        )
    return env[name]


def _name(match: re.Match[str], origin: str) -> str | None:
    """Return the name of a reference, or None for an escaped dollar sign."""
    if match["escaped"]:
        return None
    if match["plain"]:
        return match["plain"]
    inner = match["inner"]
    if inner.endswith("}") and _NAME.fullmatch(inner[:-1]):
        return inner[:-1]
    raise ConfigError(
        f'"{visible(clip(match[0], _SHOWN_CHARS))}" names no variable ({origin})',
        hint="write ${NAME}, or $$ for a dollar sign",
    )
