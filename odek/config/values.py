"""The kinds of values: how each is written in a file and as text, typed and in range, or refused (R-13, R-14). Pure.

A kind turns JSON or text into the value that the program uses: bool, int, float, str, tuples of these, or a type of
sandbox_grammar.py. Nothing is converted that was not meant: "false" is not a boolean, true and 4096.0 are not whole
numbers. Every error is a ConfigError that names `origin`.

Below the kinds: ${VAR} and $VAR in values (R-17, F-3, F-5, B31). `$$` is one dollar sign; a dollar sign before
anything that starts neither a name nor `{` is kept as it is. The result is not searched again, and a variable that is
not set is an error: an empty string in its place would silently change the meaning of a setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from odek.errors import ConfigError
from odek.patterns import pattern
from odek.sandbox_grammar import Amount, parse_variable_name, require_small_env
from odek.strict_json import described, kind_of, quoted
from odek.text import truncate, visible

if TYPE_CHECKING:
    import re

TRUE_WORDS = ("1", "true", "yes", "on")
FALSE_WORDS = ("0", "false", "no", "off")
BOOL_HINT = "use 1 or 0, true or false, yes or no, on or off"
MAX_WHOLE = 2**31 - 1  # what every consumer of a whole number can hold

Pair = tuple[str, str]
T_co = TypeVar("T_co", covariant=True)

_WHOLE = pattern(r"[+-]?[0-9]{1,18}")
_HOST = pattern(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_DECIMAL = pattern(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?")


class Kind(Generic[T_co]):
    """How values of one type are written."""

    name = ""
    """what docs/CONFIG.md calls it"""
    schema: Mapping[str, object] = {}
    """what a JSON Schema says of it"""
    choices: tuple[str, ...] = ()
    """the only texts it takes; () for others"""
    is_secret = False
    """never shown, not in an error either"""
    is_list = False
    """whether a flag may be given more than once, each time adding to the list"""
    takes_any_text = False
    """blank text and any bytes, as a file's name has them"""

    def from_json(self, raw: object, origin: str) -> T_co | None:
        """Return the value of `raw` in a file, or None when it says nothing, as an empty text does."""
        raise NotImplementedError

    def from_text(self, text: str, origin: str) -> T_co:
        """Return the value of a variable or a flag."""
        raise NotImplementedError

    def empty(self) -> T_co:
        """Return the value that drops what weaker layers say; only texts and lists have one."""
        raise NotImplementedError

    def limit(self, value: object) -> float:
        """Return how much a limit allows, to be compared with another of the same option."""
        raise NotImplementedError

    def shown(self, value: object) -> object:
        """Return `value` as JSON for people, without what may be secret."""
        return value

    def initial(self, default: object) -> object | None:
        """Return what a new file of the operator holds where the default is `default`; None: the key is left out."""
        return default


class Switch(Kind[bool]):
    """true or false."""

    name = "bool"
    schema: Mapping[str, object] = {"type": "boolean"}

    def from_json(self, raw: object, origin: str) -> bool | None:
        if raw is None or type(raw) is bool:
            return raw
        raise _mistyped("true or false", described(raw), origin)

    def from_text(self, text: str, origin: str) -> bool:
        word = text.lower()
        if word in TRUE_WORDS:
            return True
        if word in FALSE_WORDS:
            return False
        raise ConfigError(f"{origin} is {quoted(text)}, which is neither true nor false", hint=BOOL_HINT)


class Whole(Kind[int]):
    """A whole number."""

    name = "int"

    def __init__(self, minimum: int = 0, maximum: int = MAX_WHOLE) -> None:
        self._bounds = minimum, maximum
        self.schema = {"type": "integer", "minimum": minimum, "maximum": maximum}

    def from_json(self, raw: object, origin: str) -> int | None:
        if raw is None:
            return None
        if type(raw) is not int:  # a bool is an int to Python, and must not be one here
            raise _mistyped("a whole number", described(raw), origin)
        return _in_range(raw, self._bounds, origin)

    def from_text(self, text: str, origin: str) -> int:
        if not _WHOLE.fullmatch(text):
            raise _mistyped("a whole number", quoted(text), origin)
        return _in_range(int(text), self._bounds, origin)

    def limit(self, value: object) -> int:
        return cast("int", value)


class Decimal(Kind[float]):
    """A number."""

    name = "float"

    def __init__(self, minimum: float, maximum: float) -> None:
        self._bounds = minimum, maximum
        self.schema = {"type": "number", "minimum": minimum, "maximum": maximum}

    def from_json(self, raw: object, origin: str) -> float | None:
        if raw is None:
            return None
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            raise _mistyped("a number", described(raw), origin)
        return float(_in_range(raw, self._bounds, origin))

    def limit(self, value: object) -> float:
        return cast("float", value)

    def from_text(self, text: str, origin: str) -> float:
        if not _DECIMAL.fullmatch(text):
            raise _mistyped("a number", quoted(text), origin)
        return _in_range(float(text), self._bounds, origin)


class Parsed(Kind[T_co]):
    """A text with a grammar: `parse` gets the text and its origin, and returns the value or raises ConfigError."""

    name = "str"
    schema: Mapping[str, object] = {"type": "string"}

    def __init__(self, parse: Callable[[str, str], T_co], *, choices: tuple[str, ...] = ()) -> None:
        """`choices` are all that `parse` takes, where these are few."""
        self._parse = parse
        self.choices = choices

    def from_json(self, raw: object, origin: str) -> T_co | None:
        if raw is None:
            return None
        text = _string(raw, origin, secret=self.is_secret)
        return self._parse(text, origin) if text else None

    def from_text(self, text: str, origin: str) -> T_co:
        return self._parse(text, origin)


class Limit(Parsed[T_co]):
    """An Amount, or None for no limit."""

    def limit(self, value: object) -> int:
        return cast("Amount", value).value

    def shown(self, value: object) -> object:
        return "" if value is None else str(value)

    def initial(self, default: object) -> object | None:
        return self.shown(default)


class Text(Parsed[str]):
    """Any text, or one of `choices`."""

    def __init__(self, choices: tuple[str, ...] = (), *, parse: Callable[[str, str], str] | None = None) -> None:
        super().__init__(parse or self._chosen)
        self.choices = choices
        if choices:
            self.schema = {"type": "string", "enum": ["", *choices]}

    def empty(self) -> str:
        return ""

    def _chosen(self, text: str, origin: str) -> str:
        if self.choices and text not in self.choices:
            raise ConfigError(f"{quoted(text)} is not allowed ({origin})", hint=f"use {' or '.join(self.choices)}")
        return text


class ProviderName(Text):
    """The name of a provider: one of `choices`, or of the operator's own, which server.py knows."""

    def __init__(self, choices: tuple[str, ...]) -> None:
        super().__init__(parse=lambda text, _: text)
        self.choices = choices


class Url(Text):
    """The address of a server; it may carry a password."""

    def shown(self, value: object) -> object:
        return shown_url(cast("str", value))


class ApiKey(Text):
    """A key for a server."""

    is_secret = True

    def __init__(self) -> None:
        super().__init__(parse=_parse_key)

    def shown(self, value: object) -> object:
        return "set" if value else "unset"


class Texts(Kind[tuple[str, ...]]):
    """Several texts: a list in a file, with commas in a variable or flag."""

    name = "list"
    schema: Mapping[str, object] = {"type": "array", "items": {"type": "string", "minLength": 1}}
    is_list = True

    def __init__(self, parse: Callable[[tuple[str, ...], str], tuple[str, ...]] | None = None) -> None:
        """`parse` checks the entries as the grammar of the sandbox does."""
        self._parse = parse or _as_they_are

    def from_json(self, raw: object, origin: str) -> tuple[str, ...] | None:
        if raw is None:
            return None
        if not isinstance(raw, list):
            raise _mistyped("a list of strings", described(raw), origin)
        entries = tuple(_string(entry, f"{origin}[{index}]") for index, entry in enumerate(raw))
        if any(not entry.strip() for entry in entries):
            raise ConfigError(f"an entry of {origin} is empty", hint="remove the empty entry")
        return self._parse(entries, origin)

    def from_text(self, text: str, origin: str) -> tuple[str, ...]:
        return self._parse(split_list(text, origin), origin)

    def empty(self) -> tuple[str, ...]:
        return ()

    def shown(self, value: object) -> object:
        return list(value) if isinstance(value, tuple) else value

    def initial(self, default: object) -> object | None:
        return self.shown(default)


class FileNames(Texts):
    """Names of files: any text at all (B47)."""

    takes_any_text = True


class Variables(Kind[tuple[Pair, ...]]):
    """Environment variables by name, which only a file can give; the result is sorted."""

    name = "map"
    schema: Mapping[str, object] = {"type": "object", "additionalProperties": {"type": "string"}}

    def from_json(self, raw: object, origin: str) -> tuple[Pair, ...] | None:
        if raw is None:
            return None
        if not isinstance(raw, dict):
            raise _mistyped("an object", described(raw), origin)
        for name in raw:
            parse_variable_name(name, origin)
        pairs = tuple(sorted((name, _string(text, f"{origin}.{name}", secret=True)) for name, text in raw.items()))
        require_small_env(pairs, origin)
        return pairs

    def shown(self, value: object) -> object:
        return [name for name, _ in cast("Iterable[Pair]", value)]

    def initial(self, default: object) -> object | None:
        return dict(cast("Iterable[Pair]", default))


def split_list(text: str, origin: str) -> tuple[str, ...]:
    """Return the entries of a list written with commas; "" is the empty list."""
    if not text.strip():
        return ()
    entries = tuple(entry.strip() for entry in text.split(","))
    if "" in entries:
        raise ConfigError(f"an entry of {quoted(text)} is empty ({origin})", hint="write names with single commas")
    return entries


def check_characters(text: str, origin: str) -> None:
    """Refuse what no program can be given: NUL, and lone surrogates (bytes that were not UTF-8)."""
    if "\0" in text:
        raise ConfigError(f"{origin} holds a NUL character", hint=f"correct {origin}")
    if not _is_utf8(text):
        raise ConfigError(f"{origin} holds characters that are not UTF-8", hint=f"correct {origin}")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown_url(url: str) -> str:
    """Return `url` without what may be a secret in it: user, password, query, fragment."""
    from urllib.parse import urlsplit  # few commands show one

    try:
        parts = urlsplit(url)
    except ValueError:  # such as a broken IPv6 address, in which nothing can be separated
        return "(not a URL)"
    if parts.scheme == "replay":
        return url
    if not parts.netloc:  # not a URL that can work, and yet a password may be in it
        return url.partition("?")[0].rpartition("@")[2]
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def parse_hosts(entries: tuple[str, ...], origin: str) -> tuple[str, ...]:
    """Return the hosts, each perhaps with a port. Raises ConfigError for what is not the name or address of one."""
    for entry in entries:
        if not _HOST.fullmatch(entry):
            raise ConfigError(
                f"{origin}: {quoted(entry)} is not a host", hint="such as model.lan, 10.0.0.7 or [fd00::7]:8080"
            )
    return tuple(entry.lower() for entry in entries)


def names_host(url: str, hosts: tuple[str, ...]) -> bool:
    """Return whether `hosts` holds the host of `url`, alone or with its port."""
    from urllib.parse import urlsplit  # few runs ask

    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port or 80
    except ValueError:
        return False
    shown = f"[{host}]" if ":" in host else host
    return bool(host) and not {shown, f"{shown}.", f"{shown}:{port}"}.isdisjoint(hosts)


def _as_they_are(entries: tuple[str, ...], _origin: str) -> tuple[str, ...]:
    return entries


def _mistyped(wanted: str, found: str, origin: str) -> ConfigError:
    return ConfigError(f"{origin} must be {wanted}, not {found}", hint=f"correct {origin}")


Number = TypeVar("Number", int, float)


def _in_range(number: Number, bounds: tuple[float, float], origin: str) -> Number:
    minimum, maximum = bounds
    if not minimum <= number <= maximum:
        raise ConfigError(
            f"{origin} is {number}, out of range", hint=f"use a number from {minimum:g} to {maximum:.10g}"
        )
    return number


def _string(value: object, origin: str, *, secret: bool = False) -> str:
    if not isinstance(value, str):
        raise _mistyped("a string", kind_of(value) if secret else described(value), origin)
    check_characters(value, origin)
    return value


def _parse_key(text: str, origin: str) -> str:
    key = text.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"{origin} holds blanks or characters that no key has", hint="copy the key again, on one line"
        )
    return key


_REFERENCE = pattern(r"\$(?:(?P<escaped>\$)|(?P<plain>[A-Za-z_][A-Za-z0-9_]*)|(?P<brace>\{)(?P<inner>[^{}$]*\}?))")
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_SHOWN_CHARS = 40


def expand(text: str, env: Mapping[str, str], *, origin: str) -> str:
    """Return `text` with its variables replaced, once, from left to right.

    Raises ConfigError, naming `origin`, when a variable is not set or a `${…}` holds no name.
    """
    return _REFERENCE.sub(lambda match: _value(match, env, origin), text) if "$" in text else text


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
    that no text names.
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


def require_object(value: object, origin: str) -> dict[str, object]:
    """Return `value` if it is a JSON object. Raises ConfigError."""
    if not isinstance(value, dict):
        raise ConfigError(f"{origin} must be an object, not {kind_of(value)}", hint=f"correct {origin}")
    return value


def require_known_keys(document: Mapping[str, object], known: tuple[str, ...], origin: str) -> None:
    """Raise ConfigError for a key that is not among `known`."""
    for name in document:
        if name not in known:
            raise ConfigError(f'unknown key "{visible(name)}" in {origin}', hint=f"use {' or '.join(known)}")
