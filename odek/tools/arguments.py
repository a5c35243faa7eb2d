"""Arguments of tool calls: the model's JSON text checked against the schema it was shown.

Of JSON Schema only what our own tools use is understood: an object of strings, whole numbers,
booleans and lists of strings, with `required`, `minimum`, `maximum` and `enum`. A schema that says
more raises KeyError in the first test that calls the tool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from odek.text import clip, visible

_KNOWN_RULES = frozenset(("type", "description", "minimum", "maximum", "enum", "items"))
_TYPE_NAMES = {"string": "text", "integer": "a whole number", "boolean": "true or false", "array": "a list of texts"}
_SHOWN_LENGTH = 60


class ArgumentError(ValueError):
    """The arguments of a call are not what the schema asks for; the text is for the model."""


def parse_arguments(text: str, schema: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the arguments that `schema` knows, and the names of those it does not.

    An optional argument that is null counts as absent. Raises ArgumentError.
    """
    values = _parse_object(text)
    properties: Mapping[str, Mapping[str, Any]] = schema["properties"]
    arguments = {
        name: _checked(name, value, properties[name])
        for name, value in values.items()
        if name in properties and value is not None
    }
    for name in schema.get("required", ()):
        if name not in arguments:
            raise ArgumentError(f'"{name}" is missing')
    return arguments, tuple(name for name in values if name not in properties)


def _parse_object(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text if text.strip() else "{}", parse_constant=_refuse_constant)
        json.dumps(values, ensure_ascii=False).encode()  # lone surrogates are valid JSON but no text
    except RecursionError as error:
        raise ArgumentError("too many nested brackets") from error
    except UnicodeEncodeError as error:
        raise ArgumentError("half a surrogate pair is no character") from error
    except ValueError as error:
        raise ArgumentError(f"no valid JSON: {clip(visible(str(error)), 200)}") from error
    if not isinstance(values, dict):
        raise ArgumentError(f"a JSON object is wanted, not {_shown(values)}")
    return values


def _checked(name: str, value: Any, rules: Mapping[str, Any]) -> Any:
    if unknown := rules.keys() - _KNOWN_RULES:
        raise KeyError(f"schema of {name}: {sorted(unknown)}")
    if rules["type"] == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)  # some models write every number with a point
    if not _has_type(value, rules["type"]):
        raise ArgumentError(f'"{name}" must be {_TYPE_NAMES[rules["type"]]}, not {_shown(value)}')
    if "enum" in rules and value not in rules["enum"]:
        raise ArgumentError(f'"{name}" must be one of {", ".join(rules["enum"])}, not {_shown(value)}')
    if "minimum" in rules and value < rules["minimum"]:
        raise ArgumentError(f'"{name}" must be at least {rules["minimum"]}, not {value}')
    if "maximum" in rules and value > rules["maximum"]:
        raise ArgumentError(f'"{name}" must be at most {rules["maximum"]}, not {value}')
    return value


def _has_type(value: Any, name: str) -> bool:
    match name:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
    raise KeyError(name)


def _refuse_constant(name: str) -> NoReturn:
    raise ArgumentError(f"{name} is no JSON number")


def _shown(value: Any) -> str:
    return visible(clip(json.dumps(value, ensure_ascii=False), _SHOWN_LENGTH))
