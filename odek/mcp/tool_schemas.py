"""Schemas of servers' tools, brought to a form that every provider takes (R-198). Pure.

One tool whose schema a provider refuses makes a request fail, and with it every other tool. So only keywords that are
known to be taken pass, references are replaced by what they refer to, and what cannot be had so costs that one tool.
Servers check their arguments themselves; to us a schema is a text for the model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from odek.patterns import pattern
from odek.text import truncate, visible, visible_lines

MAX_DEPTH = 16
MAX_PROPERTIES = 256
MAX_BYTES = 32 << 10
MAX_NODES = 4096
"""subschemas that are looked at: a reference costs as many as what it refers to"""
DESCRIPTION_CHARACTERS = 400
MAX_CHOICES, CHOICE_CHARACTERS = 256, 200
_PROPERTY = pattern(r"[A-Za-z0-9_.-]{1,64}")
_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_FORMATS = ("date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid")
_NUMBERS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems",
    "maxItems",
)  # fmt: skip
_BRANCHES = ("allOf", "anyOf", "oneOf")
Schema = dict[str, Any]
Redact = Callable[[str], str]


class SchemaError(ValueError):
    """A schema that cannot be brought to the form; the text says why."""


def plain_schema(raw: object, redact: Redact = str) -> Schema:
    """Return `raw` as the schema of an object: typed, without references, and small. Raises SchemaError.

    What it says in words is made safe as descriptions are. A text that stands for a value (a choice, a default, a name)
    is that text or nothing: one that is long, holds what cannot be seen, or would be redacted is left out.
    """
    if not isinstance(raw, dict):
        raise SchemaError("it is not an object")
    schema = _Cleaner(raw, redact).top()
    try:
        size = len(json.dumps(schema, ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, RecursionError) as error:  # half a surrogate pair among others
        raise SchemaError("it holds what JSON in UTF-8 cannot") from error
    if size > MAX_BYTES:
        raise SchemaError(f"it has more than {MAX_BYTES >> 10} KiB")
    return schema


class _Cleaner:
    def __init__(self, root: Schema, redact: Redact) -> None:
        self._root = root
        self._redact = redact
        self._nodes = 0
        self._properties = 0

    def top(self) -> Schema:
        """Return the schema of the arguments: what combinators add to it becomes fields that may be left out."""
        merged: Schema = {}
        required: list[str] = []
        for depth, part in self._parts(self._root, 0):
            if part.get("type") not in (None, "object") and "object" not in _list(part.get("type")):
                if part is self._root or part.get("type") != "null":
                    raise SchemaError("it is not of an object")
                continue
            for name, value in _object(part.get("properties")).items():
                self._add_property(merged, name, value, depth)
            if part is self._root:
                required = [name for name in _list(part.get("required")) if isinstance(name, str)]
        for name in required:
            if not _PROPERTY.fullmatch(name):
                raise SchemaError("an argument that is needed has a name that providers refuse")
        schema: Schema = {"type": "object", "properties": merged}
        if kept := [name for name in dict.fromkeys(required) if name in merged]:
            schema["required"] = kept
        if isinstance(self._root.get("additionalProperties"), bool):
            schema["additionalProperties"] = self._root["additionalProperties"]
        return schema

    def _parts(self, schema: Schema, depth: int) -> Iterator[tuple[int, Schema]]:
        """Yield a schema at the top, then what its reference and its combinators bring in."""
        self._count(depth)
        yield depth, schema
        if "$ref" in schema:
            yield from self._parts(self._referred(schema["$ref"]), depth + 1)
        branches = [branch for key in _BRANCHES for branch in _list(schema.get(key))]
        for branch in (*branches, *(schema.get(key) for key in ("then", "else"))):
            if isinstance(branch, dict):
                yield from self._parts(branch, depth + 1)

    def _add_property(self, merged: Schema, name: str, value: object, depth: int) -> None:
        if not _PROPERTY.fullmatch(name):  # one that may be left out is; `top` looks at the others
            return
        cleaned = self._clean(value, depth + 1)
        if cleaned is None:
            return
        if name not in merged:
            self._properties += 1
            if self._properties > MAX_PROPERTIES:
                raise SchemaError(f"it has more than {MAX_PROPERTIES} properties")
            merged[name] = cleaned
        elif merged[name] != cleaned:
            known = merged[name].get("anyOf", [merged[name]]) if set(merged[name]) == {"anyOf"} else [merged[name]]
            merged[name] = {"anyOf": [*known, *([] if cleaned in known else [cleaned])]}

    def _clean(self, raw: object, depth: int) -> Schema | None:
        """Return a subschema in the form; None for one that nothing fits."""
        self._count(depth)
        if raw is False:
            return None
        if not isinstance(raw, dict):
            return {}
        if "$ref" in raw:
            beside = {key: value for key, value in raw.items() if key != "$ref"}
            return self._clean({**self._referred(raw["$ref"]), **beside}, depth + 1)
        schema = _values(raw, self._redact)
        schema.update(self._typed(raw, depth))
        for key in _BRANCHES:
            branches = [self._clean(branch, depth + 1) for branch in _list(raw.get(key))]
            if kept := [branch for branch in branches if branch is not None and branch != {"type": "null"}]:
                if len(kept) == 1:
                    schema = {**kept[0], **schema}
                else:
                    schema["anyOf" if key == "oneOf" and "anyOf" not in schema else key] = kept
        return schema

    def _typed(self, raw: Schema, depth: int) -> Schema:
        """Return the type of a subschema, with what belongs to that type."""
        named = [name for name in (_list(raw.get("type")) or [raw.get("type")]) if name in _TYPES and name != "null"]
        if not named and raw.get("type") == "null":
            return {"type": "null"}
        if not named and "properties" in raw:
            named = ["object"]
        if not named and "items" in raw:
            named = ["array"]
        of_type = [self._of_type(name, raw, depth) for name in named]
        if len(of_type) > 1:
            return {"anyOf": of_type}
        return of_type[0] if of_type else {}

    def _of_type(self, name: str, raw: Schema, depth: int) -> Schema:
        schema: Schema = {"type": name}
        if name == "array":
            items = raw.get("items")
            schema["items"] = (self._clean(items, depth + 1) or {}) if isinstance(items, dict) else {}
        if name == "object":
            merged: Schema = {}
            for key, value in _object(raw.get("properties")).items():
                self._add_nested(merged, key, value, depth)
            schema["properties"] = merged
            needed = [each for each in _list(raw.get("required")) if isinstance(each, str)]
            if any(not self._is_plain(each) for each in needed):
                raise SchemaError("a property that is needed has a name that cannot be shown")
            required = [each for each in needed if each in merged]
            if required:
                schema["required"] = list(dict.fromkeys(required))
            further = raw.get("additionalProperties")
            if isinstance(further, bool):
                schema["additionalProperties"] = further
            elif isinstance(further, dict):
                schema["additionalProperties"] = self._clean(further, depth + 1) or {}
        return schema

    def _add_nested(self, merged: Schema, key: str, value: object, depth: int) -> None:
        self._properties += 1
        if self._properties > MAX_PROPERTIES:
            raise SchemaError(f"it has more than {MAX_PROPERTIES} properties")
        cleaned = self._clean(value, depth + 1)
        if cleaned is not None and self._is_plain(key):
            merged[key] = cleaned

    def _is_plain(self, text: str) -> bool:
        return is_plain(text, self._redact)

    def _referred(self, reference: object) -> Schema:
        """Return what a reference within the schema names; nothing is ever fetched."""
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise SchemaError("it refers to another document")
        found: object = self._root
        for part in reference.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            raise SchemaError("it refers to what is not there")
        return found

    def _count(self, depth: int) -> None:
        self._nodes += 1
        if depth > MAX_DEPTH:  # of one that refers to itself as well
            raise SchemaError(f"it is deeper than {MAX_DEPTH} levels")
        if self._nodes > MAX_NODES:
            raise SchemaError("it is too large")


def is_plain(text: str, redact: Redact) -> bool:
    """Return whether a text that stands for a value can be shown as it is."""
    return len(text) <= CHOICE_CHARACTERS and visible(text) == text == redact(text)


def _values(raw: Schema, redact: Redact) -> Schema:
    """Return the keywords that hold plain values, without those that say nothing or are not what they should be."""
    schema: Schema = {}
    description = raw.get("description")
    if isinstance(description, str) and description.strip():
        start = truncate(redact(description).strip(), DESCRIPTION_CHARACTERS)
        schema["description"] = truncate(visible_lines(start), DESCRIPTION_CHARACTERS)
    choices = _list(raw.get("enum")) or ([raw["const"]] if "const" in raw else [])
    if kept := [choice for choice in choices if _is_plain_value(choice, redact)][:MAX_CHOICES]:
        schema["enum"] = kept
    if raw.get("format") in _FORMATS:
        schema["format"] = raw["format"]
    if _is_plain_value(raw.get("default"), redact):
        schema["default"] = raw["default"]
    for key in _NUMBERS:
        if isinstance(raw.get(key), (int, float)) and not isinstance(raw[key], bool):
            schema[key] = raw[key]
    return schema


def _is_plain_value(value: object, redact: Redact) -> bool:
    return is_plain(value, redact) if isinstance(value, str) else isinstance(value, (int, float))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
