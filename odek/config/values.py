"""One value of one option, from JSON or from text, typed and in range (R-13, R-14, B16, B37). Pure.

What comes out: bool, int, float or str by the option's kind; tuple[str, …] for a list; pairs
(name, value), sorted by name, for a map. Nothing is converted that was not meant: "false" is no
boolean, true and 4096.0 are no whole numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from odek import amounts
from odek.config.options import Option
from odek.errors import ConfigError
from odek.strict_json import described, kind_of, quoted
from odek.text import truncate, visible

TRUE_WORDS = ("1", "true", "yes", "on")
FALSE_WORDS = ("0", "false", "no", "off")
_BOOL_HINT = "use 1 or 0, true or false, yes or no, on or off"

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?")

_GRAMMARS = {"memory": amounts.parse_memory, "cpus": amounts.parse_cpus, "tmp": amounts.parse_tmp_size}


def parse_json(option: Option, value: object, origin: str) -> object | None:
    """Return the value of `option` from a file, or None when it says nothing (null, empty text).

    Raises ConfigError, naming `origin`.
    """
    if value is None:
        return None
    if option.kind == "bool":
        return _expect(value, bool, "true or false", origin)
    if option.kind == "int":
        return _in_range(option, _whole(value, origin), origin)
    if option.kind == "list":
        return _text_list(value, origin)
    if option.kind == "map":
        return _text_map(value, origin)
    return check_text(option, _string(value, origin, secret=option.secret), origin) or None


def parse_text(option: Option, text: str, origin: str) -> object:
    """Return the value of `option` from a variable or a flag.

    An empty text is an error: a script's unset variable must neither lift a limit nor drop what a
    weaker layer says. What can be switched off has a word for it. Raises ConfigError, naming `origin`.
    """
    if not text.strip() and option.grammar != "files":
        raise ConfigError(f"{origin} is empty", hint=_empty_hint(option))
    if option.kind == "bool":
        return parse_bool(text, origin)
    if option.kind == "int":
        if not _WHOLE.fullmatch(text):
            raise _mistyped("a whole number", quoted(text), origin)
        return _in_range(option, int(text), origin)
    if option.kind == "float":
        if not _DECIMAL.fullmatch(text):
            raise _mistyped("a number", quoted(text), origin)
        return _in_range(option, float(text), origin)
    if option.off_word and text == option.off_word:
        return () if option.kind == "list" else ""
    if option.grammar != "files":  # a file can have any name (B47)
        _check_characters(text, origin)
    if option.kind == "list":
        return split_list(text, origin)
    return check_text(option, text, origin)


def _empty_hint(option: Option) -> str:
    if option.kind == "bool":
        return f"leave it out, or {_BOOL_HINT}"
    return f"give it a value, or leave it out{f'; {option.off_word} switches it off' if option.off_word else ''}"


def parse_bool(text: str, origin: str) -> bool:
    """Return what the word `text` means (R-14). Raises ConfigError."""
    word = text.lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise ConfigError(f"{origin} is {quoted(text)}, which is neither true nor false", hint=_BOOL_HINT)


def split_list(text: str, origin: str) -> tuple[str, ...]:
    """Return the entries of a list written with commas; "" is the empty list."""
    if not text.strip():
        return ()
    entries = tuple(entry.strip() for entry in text.split(","))
    if "" in entries:
        raise ConfigError(f"an entry of {quoted(text)} is empty ({origin})", hint="write names with single commas")
    return entries


def check_text(option: Option, text: str, origin: str) -> str:
    """Return `text` when it is one of the choices, or of the grammar, of `option`.

    Raises ConfigError; the text of a secret is not in it.
    """
    if not text:
        return text
    if option.choices and text not in option.choices:
        raise ConfigError(f"{quoted(text)} is not allowed ({origin})", hint=f"use {' or '.join(option.choices)}")
    if option.grammar == "key":
        return _check_key(text.strip(), origin)
    if option.grammar:
        amount_of(option, text, origin)
    return text


def amount_of(option: Option, value: object, origin: str) -> int:
    """Return how much a limit allows, to be compared with another of the same option.

    Raises ConfigError when the text is not such a limit, or allows nothing (Docker reads 0 as "no limit").
    """
    if not isinstance(value, str):
        assert isinstance(value, int)
        return value
    try:
        return _GRAMMARS[option.grammar](value)
    except amounts.Unfit as error:
        raise ConfigError(f"{error.about(visible(truncate(value, 200)))} ({origin})", hint=error.hint) from error


def _mistyped(wanted: str, found: str, origin: str) -> ConfigError:
    return ConfigError(f"{origin} must be {wanted}, not {found}", hint=f"correct {origin}")


def _expect(value: object, kind: type, wanted: str, origin: str) -> object:
    if type(value) is not kind:
        raise _mistyped(wanted, described(value), origin)
    return value


def _whole(value: object, origin: str) -> int:
    if type(value) is not int:  # a bool is an int to Python, and must not be one here
        raise _mistyped("a whole number", described(value), origin)
    return value


def _in_range(option: Option, number: float, origin: str) -> float:
    if not option.minimum <= number <= option.maximum:
        bounds = f"from {option.minimum:g} to {option.maximum:.10g}"
        raise ConfigError(f"{origin} is {number}, out of range", hint=f"use a number {bounds}")
    return number


def _string(value: object, origin: str, *, secret: bool = False) -> str:
    if not isinstance(value, str):
        raise _mistyped("a string", kind_of(value) if secret else described(value), origin)
    _check_characters(value, origin)
    return value


def _check_characters(text: str, origin: str) -> None:
    """Refuse what no program can be given: NUL, and lone surrogates (bytes that were not UTF-8)."""
    if "\0" in text:
        raise ConfigError(f"{origin} holds a NUL character", hint=f"correct {origin}")
    if re.search("[\ud800-\udfff]", text):
        raise ConfigError(f"{origin} holds characters that are not UTF-8", hint=f"correct {origin}")


def _check_key(key: str, origin: str) -> str:
    if not re.fullmatch("[!-~]*", key):
        raise ConfigError(
            f"{origin} holds blanks or characters that no key has", hint="copy the key again, on one line"
        )
    return key


def _text_list(value: object, origin: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _mistyped("a list of strings", described(value), origin)
    entries = tuple(_string(entry, f"{origin}[{index}]") for index, entry in enumerate(value))
    if any(not entry.strip() for entry in entries):
        raise ConfigError(f"an entry of {origin} is empty", hint="remove the empty entry")
    return entries


def _text_map(value: object, origin: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise _mistyped("an object", described(value), origin)
    for name in value:
        try:
            amounts.check_variable_name(name)
        except amounts.Unfit as error:
            raise ConfigError(f"{error.about(visible(truncate(name, 200)))} ({origin})", hint=error.hint) from error
    return tuple(sorted((name, _string(text, f"{origin}.{name}", secret=True)) for name, text in value.items()))


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
        f'"{visible(truncate(match[0], _SHOWN_CHARS))}" names no variable ({origin})',
        hint="write ${NAME}, or $$ for a dollar sign",
    )
