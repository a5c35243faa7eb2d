"""Schemas of tools' arguments, and the model's JSON text checked against the one that it was shown.

Of JSON Schema only what our own tools use is understood: an object of strings, whole numbers,
booleans, lists of strings and lists of such objects, with `required`, `minimum`, `maximum`, `enum`,
`minItems` and `maxItems`. A schema that says more raises KeyError in the first test that calls the tool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from odek.text import plural, truncate, visible

_KNOWN_RULES = frozenset(
    (
        *("type", "description", "minimum", "maximum", "enum", "items", "minItems", "maxItems"),
        *("properties", "required"),
    )
)
_TYPE_NAMES = {
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_SHOWN_LENGTH = 60


class ArgumentError(ValueError):
    """The arguments of a call are not what the schema asks for; the text is for the model."""


def string(description: str = "", *, enum: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of an argument that is text, perhaps one of a few words."""
    return {"type": "string"} | ({"enum": list(enum)} if enum else {}) | _described(description)


def integer(description: str = "", *, minimum: int = 1, maximum: int | None = None) -> dict[str, Any]:
    """Return the schema of a whole number."""
    bounds = {"minimum": minimum} if maximum is None else {"minimum": minimum, "maximum": maximum}
    return {"type": "integer", **bounds, **_described(description)}


def boolean(description: str) -> dict[str, Any]:
    """Return the schema of a yes or no."""
    return {"type": "boolean", **_described(description)}


def array(items: Mapping[str, Any], *, most: int, description: str = "") -> dict[str, Any]:
    """Return the schema of a list of one to `most` items."""
    return {"type": "array", "minItems": 1, "maxItems": most, **_described(description), "items": items}


def record(properties: Mapping[str, Mapping[str, Any]], *, required: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of an object; `required` are names of properties."""
    return {"type": "object", "properties": properties} | ({"required": list(required)} if required else {})


def _described(description: str) -> dict[str, Any]:
    return {"description": description} if description else {}


def parse_arguments(text: str) -> dict[str, Any]:
    """Return the JSON object that `text` is, {} for blank text. Raises ArgumentError."""
    try:
        values = json.loads(text if text.strip() else "{}", parse_constant=_refuse_constant)
        json.dumps(values, ensure_ascii=False).encode()  # lone surrogates are valid JSON but not valid text
    except RecursionError as error:
        raise ArgumentError("too many nested brackets") from error
    except UnicodeEncodeError as error:
        raise ArgumentError("half a surrogate pair is not a character") from error
    except ValueError as error:
        raise ArgumentError(f"not valid JSON: {truncate(visible(str(error)), 200)}") from error
    if not isinstance(values, dict):
        raise ArgumentError(f"must be a JSON object, not {_shown(values)}")
    return values


def check_arguments(values: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the arguments that `schema` knows, and the names of those it does not.

    An optional argument that is null counts as absent. Raises ArgumentError.
    """
    ignored: list[str] = []
    arguments = _checked_object("", values, schema, ignored)
    return arguments, tuple(ignored)


def _checked_object(
    place: str, values: Mapping[str, Any], schema: Mapping[str, Any], ignored: list[str]
) -> dict[str, Any]:
    """Return what `schema` knows of `values`; add what it does not know to `ignored`."""
    properties: Mapping[str, Mapping[str, Any]] = schema["properties"]
    ignored += [place + name for name in values if name not in properties]
    arguments = {
        name: _checked(place + name, value, properties[name], ignored)
        for name, value in values.items()
        if name in properties and value is not None
    }
    for name in schema.get("required", ()):
        if name not in arguments:
            raise ArgumentError(f'"{place}{name}" is missing')
    return arguments


def _checked(name: str, value: object, rules: Mapping[str, Any], ignored: list[str]) -> object:
    if unknown := rules.keys() - _KNOWN_RULES:
        raise KeyError(f"schema of {name}: {sorted(unknown)}")
    if rules["type"] == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)  # some models write every number with a point
    if not _has_type(value, rules["type"]):
        raise ArgumentError(f'"{name}" must be {_TYPE_NAMES[rules["type"]]}, not {_shown(value)}')
    if isinstance(value, list):
        return _checked_list(name, value, rules, ignored)
    if isinstance(value, dict):
        return _checked_object(f"{name}.", value, rules, ignored)
    if "enum" in rules and value not in rules["enum"]:
        raise ArgumentError(f'"{name}" must be one of {", ".join(rules["enum"])}, not {_shown(value)}')
    if isinstance(value, int):
        _check_bounds(name, value, rules)
    return value


def _check_bounds(name: str, value: int, rules: Mapping[str, Any]) -> None:
    if "minimum" in rules and value < rules["minimum"]:
        raise ArgumentError(f'"{name}" must be at least {rules["minimum"]}, not {value}')
    if "maximum" in rules and value > rules["maximum"]:
        raise ArgumentError(f'"{name}" must be at most {rules["maximum"]}, not {value}')


def _checked_list(name: str, values: list[object], rules: Mapping[str, Any], ignored: list[str]) -> list[object]:
    least, most = rules.get("minItems", 0), rules.get("maxItems", len(values))
    if len(values) < least:
        raise ArgumentError(f'"{name}" must have at least {plural(least, "item")}, not {len(values)}')
    if len(values) > most:
        raise ArgumentError(f'"{name}" must have at most {plural(most, "item")}, not {len(values)}')
    items: Mapping[str, Any] = rules["items"]
    return [_checked(f"{name}[{index}]", _spread(value, items), items, ignored) for index, value in enumerate(values)]


def _spread(value: object, rules: Mapping[str, Any]) -> object:
    """Return `value`, or the object that it abbreviates: models write "a.txt" for {"path": "a.txt"}."""
    required = rules.get("required", ())
    return {required[0]: value} if isinstance(value, str) and len(required) == 1 else value


def _has_type(value: object, name: str) -> bool:
    match name:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
    raise KeyError(name)


def _refuse_constant(name: str) -> NoReturn:
    raise ArgumentError(f"{name} is not a JSON number")


def _shown(value: object) -> str:
    return visible(truncate(json.dumps(value, ensure_ascii=False), _SHOWN_LENGTH))
