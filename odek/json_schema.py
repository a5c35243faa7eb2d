"""JSON Schema, as far as an answer of a model needs it: read strictly, then values are compared with it. Pure.

A keyword that is not in KEYWORDS is an error of the schema and never skipped: its author counts on it. The work on a
value is bounded, patterns take linear time (linear_pattern.py), and a `$ref` stays in its document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any
from urllib.parse import unquote

from odek.linear_pattern import Pattern, PatternError
from odek.strict_json import kind_of, quoted
from odek.text import plural, truncate

MAX_FAULTS = 5
_MAX_DEPTH = 100
_MAX_WORK = 100_000
_TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
_NOTES = ("title", "description", "default", "examples", "deprecated", "$schema", "$comment")
_LISTS = ("allOf", "anyOf", "oneOf")
_MAPS = ("properties", "$defs", "definitions")
_INNER = ("items", "additionalProperties", "not")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
KEYWORDS = (
    *("type", "enum", "const", "required", "uniqueItems", "pattern", "$ref"),
    *(*_LISTS, *_MAPS, *_INNER, *_COUNTS, *_NUMBERS, *_NOTES),
)
"""every keyword that is understood; those in `_NOTES` say nothing about a value"""


class SchemaError(ValueError):
    """The schema is wrong, or uses what is not understood; the text says where."""


class _TooMuchWork(Exception):
    pass


class Schema:
    """A schema that was read."""

    def __init__(self, document: object) -> None:
        """`document` is a JSON value. Raises SchemaError."""
        self._document = document
        self._patterns: dict[str, Pattern] = {}
        self._targets: dict[str, object] = {}
        self._checked: set[int] = set()
        self._sound: set[int] = set()
        self._work = 0
        try:
            self._read(document, "", 0)
            self._require_progress(document, ())
        except RecursionError as error:
            raise SchemaError("a $ref leads on to others, too many of them") from error

    def faults(self, value: object) -> tuple[str, ...]:
        """Return what is wrong with `value`, at most MAX_FAULTS sentences; none: it fits."""
        self._work = 0
        found = []
        try:
            for fault in self._faults(value, self._document, ""):
                found.append(fault)
                if len(found) == MAX_FAULTS:
                    break
        except (_TooMuchWork, RecursionError):
            found.append("it is too large, or too deeply nested, to be compared with the schema")
        return tuple(found)

    # reading

    def _read(self, schema: object, where: str, depth: int) -> None:
        if isinstance(schema, bool) or id(schema) in self._checked:
            return
        if not isinstance(schema, dict):
            raise _wrong(where, f"a schema is an object, true or false, not {kind_of(schema)}")
        if depth > _MAX_DEPTH:
            raise _wrong(where, "it is nested too deeply")
        self._checked.add(id(schema))
        for key, said in schema.items():
            here = f"{where}/{_escaped(key)}"
            if key not in KEYWORDS:
                raise _wrong(here, f"the keyword {quoted(key)} is not understood")
            for place, inner in self._schemas_in(key, said, here):
                self._read(inner, place, depth + 1)
            if key == "pattern":
                self._read_pattern(said, here)
            elif key in _PLAIN:
                is_right, wanted = _PLAIN[key]
                if not is_right(said):
                    raise _wrong(here, f"it must be {wanted}")

    def _schemas_in(self, key: str, said: object, here: str) -> Iterator[tuple[str, object]]:
        """Yield the schemas that a keyword holds or leads to, each with its place."""
        if key in _LISTS:
            if not isinstance(said, list) or not said:
                raise _wrong(here, "it must be a list of schemas, and not an empty one")
            yield from ((f"{here}/{index}", inner) for index, inner in enumerate(said))
        elif key in _MAPS:
            if not isinstance(said, dict):
                raise _wrong(here, f"it must be an object of schemas, not {kind_of(said)}")
            yield from ((f"{here}/{_escaped(name)}", inner) for name, inner in said.items())
        elif key in _INNER:
            yield here, said
        elif key == "$ref":
            yield str(said).removeprefix("#"), self._target(said, here)

    def _read_pattern(self, said: object, here: str) -> None:
        if not isinstance(said, str):
            raise _wrong(here, f"it must be a string, not {kind_of(said)}")
        try:
            self._patterns[said] = Pattern(said)
        except PatternError as error:
            raise _wrong(here, f"the pattern cannot be used: {error}") from error

    def _target(self, reference: object, here: str = "") -> object:
        """Return the schema that a `$ref` leads to."""
        if not isinstance(reference, str) or (reference != "#" and not reference.startswith("#/")):
            raise _wrong(here, 'it must lead to a place in this document, such as "#/$defs/item"')
        if reference in self._targets:
            return self._targets[reference]
        found = self._document
        for part in reference.split("/")[1:]:
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isascii() and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                raise _wrong(here, f"there is nothing at {quoted(reference)}")
        self._targets[reference] = found
        return found

    def _require_progress(self, schema: object, above: tuple[int, ...]) -> None:
        """Raise SchemaError where `schema` leads to itself for one and the same value, by $ref and combinations."""
        if id(schema) in above:
            raise SchemaError("a $ref leads back to itself without a step into the value")
        if not isinstance(schema, dict) or id(schema) in self._sound:
            return
        for inner in self._in_place(schema):
            self._require_progress(inner, (*above, id(schema)))
        self._sound.add(id(schema))
        for inner in _below(schema):
            self._require_progress(inner, ())

    def _in_place(self, schema: Mapping[str, Any]) -> list[object]:
        """Return the schemas that are compared with the same value."""
        found = [inner for key in _LISTS for inner in schema.get(key, ())]
        found += [schema["not"]] if "not" in schema else []
        return [*found, self._target(schema["$ref"])] if "$ref" in schema else found

    # comparing

    def _faults(self, value: object, schema: object, where: str) -> Iterator[str]:
        self._count()
        if schema is False:
            yield f"{_shown(where)} must not be there"
        if not isinstance(schema, dict):
            return
        kinds = schema.get("type")
        if kinds is not None and not _has_type(value, kinds):
            wanted = kinds if isinstance(kinds, str) else " or ".join(kinds)
            yield f"{_shown(where)} must be of type {wanted}, and is {_kind(value)}"
            return
        yield from self._values(value, schema, where)
        if "$ref" in schema:
            yield from self._faults(value, self._target(schema["$ref"]), where)
        yield from self._combined(value, schema, where)
        if isinstance(value, dict):
            yield from self._object(value, schema, where)
        elif isinstance(value, list):
            yield from self._array(value, schema, where)

    def _values(self, value: object, schema: Mapping[str, Any], where: str) -> Iterator[str]:
        if "enum" in schema and self._canonical(value) not in map(self._canonical, schema["enum"]):
            yield f"{_shown(where)} is {quoted(value)}, not one of {truncate(json.dumps(schema['enum']), 200)}"
        if "const" in schema and self._canonical(value) != self._canonical(schema["const"]):
            yield f"{_shown(where)} is {quoted(value)}, not {quoted(schema['const'])}"
        if isinstance(value, str):
            yield from _out_of_bounds(len(value), "character", schema, ("minLength", "maxLength"), where)
            if "pattern" in schema and not self._matches(value, schema["pattern"]):
                yield f"{_shown(where)} is {quoted(value)}, which the pattern {quoted(schema['pattern'])} does not fit"
        elif _is_number(value):
            for key, holds in _BOUNDS.items():
                if key in schema and not holds(value, schema[key]):
                    yield f"{_shown(where)} is {quoted(value)}, against {key} {quoted(schema[key])}"

    def _canonical(self, value: object) -> str:
        """Return one text for all values that are equal to JSON Schema: 1 and 1.0 are, 1 and true are not."""
        self._count()
        if isinstance(value, dict):
            return "{" + ",".join(f"{json.dumps(key)}:{self._canonical(value[key])}" for key in sorted(value)) + "}"
        if isinstance(value, list):
            return "[" + ",".join(map(self._canonical, value)) + "]"
        return str(Fraction(repr(value))) if _is_number(value) else json.dumps(value)

    def _count(self, work: int = 1) -> None:
        self._work += work
        if self._work > _MAX_WORK:
            raise _TooMuchWork

    def _matches(self, value: str, pattern: str) -> bool:
        self._count(len(value) * self._patterns[pattern].size // 1000)
        return self._patterns[pattern].is_in(value)

    def _combined(self, value: object, schema: Mapping[str, Any], where: str) -> Iterator[str]:
        for inner in schema.get("allOf", ()):
            yield from self._faults(value, inner, where)
        for key in ("anyOf", "oneOf"):
            if key not in schema:
                continue
            faults = [next(self._faults(value, inner, where), "") for inner in schema[key]]
            fitting = faults.count("")
            if not fitting:
                first = truncate("; or: ".join(dict.fromkeys(faults)), 600)
                yield f"{_shown(where)} fits none of the alternatives of {key}: {first}"
            elif key == "oneOf" and fitting > 1:
                yield f"{_shown(where)} fits {fitting} alternatives of oneOf, and must fit one"
        if "not" in schema and next(self._faults(value, schema["not"], where), "") == "":
            yield f"{_shown(where)} is what must not be there"

    def _object(self, value: Mapping[str, object], schema: Mapping[str, Any], where: str) -> Iterator[str]:
        yield from _out_of_bounds(len(value), "member", schema, ("minProperties", "maxProperties"), where)
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{_shown(where)} lacks {quoted(name)}"
        known, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, member in value.items():
            here = f"{where}/{_escaped(name)}"
            if name in known:
                yield from self._faults(member, known[name], here)
            elif rest is False:
                yield f"{_shown(where)} has {quoted(name)}, which the schema does not allow"
            else:
                yield from self._faults(member, rest, here)

    def _array(self, value: list[object], schema: Mapping[str, Any], where: str) -> Iterator[str]:
        yield from _out_of_bounds(len(value), "item", schema, ("minItems", "maxItems"), where)
        if schema.get("uniqueItems") and len(set(map(self._canonical, value))) < len(value):
            yield f"{_shown(where)} has an item twice"
        if "items" in schema:
            for index, item in enumerate(value):
                yield from self._faults(item, schema["items"], f"{where}/{index}")


def _are_types(said: object) -> bool:
    return all(kind in _TYPES for kind in (said if isinstance(said, list) and said else [said]))


def _is_count(said: object) -> bool:
    return isinstance(said, int) and not isinstance(said, bool) and said >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_list(said: object) -> bool:
    return isinstance(said, list) and bool(said)


_PLAIN: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_are_types, f"of {', '.join(_TYPES)}"),
    "enum": (_is_list, "a list of values, and not an empty one"),
    "required": (
        lambda said: said == [] or (_is_list(said) and {type(name) for name in said} == {str}),
        "a list of names",
    ),
    "uniqueItems": (lambda said: isinstance(said, bool), "true or false"),
    **dict.fromkeys(_COUNTS, (_is_count, "a whole number from 0")),
    **dict.fromkeys(_NUMBERS, (_is_number, "a number")),
    "multipleOf": (lambda said: _is_number(said) and said > 0, "a number above 0"),
}
"""what a keyword may say that holds no schema: whether it is right, and what it must be"""

_BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, bound: value >= bound,
    "maximum": lambda value, bound: value <= bound,
    "exclusiveMinimum": lambda value, bound: value > bound,
    "exclusiveMaximum": lambda value, bound: value < bound,
    # as they are written: as floats 0.3 % 0.1 is not 0
    "multipleOf": lambda value, bound: (Fraction(repr(value)) / Fraction(repr(bound))).denominator == 1,
}


def _below(schema: Mapping[str, Any]) -> list[object]:
    inner = [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return [*inner, *(member for key in _MAPS for member in schema.get(key, {}).values())]


def _has_type(value: object, kinds: str | list[str]) -> bool:
    names = {_kind(value)} | ({"number"} if _kind(value) == "integer" else set())
    return bool(names & set([kinds] if isinstance(kinds, str) else kinds))


def _kind(value: object) -> str:
    if _is_number(value):
        return "integer" if isinstance(value, int) or value.is_integer() else "number"  # type: ignore[attr-defined]
    names: dict[type, str] = {bool: "boolean", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _out_of_bounds(
    count: int, what: str, schema: Mapping[str, Any], keys: tuple[str, str], where: str
) -> Iterator[str]:
    least, most = (schema.get(key) for key in keys)
    if least is not None and count < least:
        yield f"{_shown(where)} has {plural(count, what)}, and needs at least {least}"
    if most is not None and count > most:
        yield f"{_shown(where)} has {plural(count, what)}, and may have {most}"


def _shown(where: str) -> str:
    return quoted(where) if where else "the value"


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _wrong(where: str, what: str) -> SchemaError:
    return SchemaError(f"{quoted(where) if where else 'the top level'}: {what}")
