"""JSON Schema: what fits, what does not and why, and which schemas are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from odek.json_schema import KEYWORDS, MAX_FAULTS, Schema, SchemaError

TREE = {
    "$ref": "#/$defs/node",
    "$defs": {"node": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
}


@pytest.mark.parametrize(
    ("schema", "fits", "not_fitting"),
    [
        ({}, [1, None, {}], []),
        (True, [1], []),
        (False, [], [1]),
        ({"type": "string"}, ["", "x"], [1, None, [], {}, True]),
        ({"type": "integer"}, [1, 1.0, -3, 10**30], [1.5, "1", True]),
        ({"type": "number"}, [1, 1.5], ["1", False]),
        ({"type": "boolean"}, [True, False], [0, 1, "true"]),
        ({"type": "null"}, [None], [0, "", False]),
        ({"type": ["string", "null"]}, ["x", None], [1]),
        ({"enum": [1, "a", None]}, [1, 1.0, "a", None], [True, "b", 0]),
        ({"enum": [{"a": [1]}]}, [{"a": [1.0]}], [{"a": [True]}, {"a": []}]),
        ({"const": False}, [False], [0, None]),
        ({"minimum": 1, "maximum": 2}, [1, 2, 1.5, "not a number"], [0.9, 2.1]),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 2}, [1.5], [1, 2]),
        ({"multipleOf": 0.1}, [0.3, 1, 0], [0.35]),
        ({"multipleOf": 3}, [9, -3], [10]),
        ({"minLength": 2, "maxLength": 3}, ["ab", "äöü", "🙂🙂", 7], ["a", "abcd"]),
        ({"pattern": "^[a-z]+$"}, ["abc", 5], ["", "aB"]),
        ({"pattern": "b"}, ["abc"], ["ac"]),
        ({"type": "array", "minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3]]),
        ({"uniqueItems": True}, [[1, True, "1"], [[1], [2]]], [[1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]]),
        ({"items": {"type": "integer"}}, [[], [1, 2], "x"], [[1, "2"]]),
        ({"required": ["a"]}, [{"a": None}, []], [{}, {"b": 1}]),
        ({"properties": {"a": {"type": "integer"}}}, [{}, {"a": 1, "b": "x"}], [{"a": "1"}]),
        ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1}, {}], [{"b": 1}, {"a": 1, "b": 1}]),
        ({"additionalProperties": {"type": "string"}}, [{"x": "y"}], [{"x": 1}]),
        ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 1}]),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1], [0, 3]),
        ({"anyOf": [{"type": "string"}, {"minimum": 5, "type": "integer"}]}, ["x", 5], [4, None]),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, [1.5], [1, "x"]),
        ({"not": {"type": "string"}}, [1], ["x"]),
        ({"$ref": "#/definitions/a~1b%20c", "definitions": {"a/b c": {"type": "null"}}}, [None], [1]),
        ({"$ref": "#/allOf/0", "allOf": [{"type": "null"}]}, [None], [1]),
        (TREE, [{"kids": [{"kids": []}, {}]}], [{"kids": [{"kids": [3]}]}]),
        ({"properties": {"__proto__": {"type": "null"}}}, [{"__proto__": None}], [{"__proto__": 1}]),
    ],
    ids=str,
)
def test_value_fits_or_not(schema: object, fits: list[object], not_fitting: list[object]) -> None:
    """R-293: each keyword, for the values that it speaks of and those that it does not."""
    read = Schema(schema)
    assert [value for value in fits if read.faults(value)] == []
    assert [value for value in not_fitting if not read.faults(value)] == []


def test_faults_say_where_and_what() -> None:
    """R-293: they are what the model is asked to correct."""
    schema = {
        "type": "object",
        "properties": {"a/b": {"type": "integer", "minimum": 1}, "s": {"enum": ["x", "y"]}},
        "required": ["s", "t"],
        "additionalProperties": False,
    }
    assert Schema(schema).faults({"a/b": 0, "s": "z", "u\x1b": 1}) == (
        'the value lacks "t"',
        '"/a~1b" is 0, against minimum 1',
        '"/s" is "z", not one of ["x", "y"]',
        'the value has "u\\u001b", which the schema does not allow',
    )
    assert len(Schema({"items": {"type": "null"}}).faults(list(range(100)))) == MAX_FAULTS


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"format": "date"}, '"/format": the keyword "format" is not understood'),
        ({"properties": {"a": {"tpye": "string"}}}, '"/properties/a/tpye": the keyword "tpye" is not understood'),
        ({"$defs": {"a": {"if": {}}}}, '"/$defs/a/if": the keyword "if" is not understood'),
        ({"patternProperties": {}}, '"/patternProperties": the keyword "patternProperties" is not understood'),
        ({"nullable": True}, '"/nullable": the keyword "nullable" is not understood'),
        ({"type": "strin"}, '"/type": it must be of string, number, integer, boolean, null, array, object'),
        ({"type": []}, '"/type": it must be of string, number, integer, boolean, null, array, object'),
        ({"type": [["string"]]}, '"/type": it must be of string, number, integer, boolean, null, array, object'),
        ({"enum": []}, '"/enum": it must be a list of values, and not an empty one'),
        ({"required": "a"}, '"/required": it must be a list of names'),
        ({"required": [1]}, '"/required": it must be a list of names'),
        ({"uniqueItems": 1}, '"/uniqueItems": it must be true or false'),
        ({"minLength": -1}, '"/minLength": it must be a whole number from 0'),
        ({"minItems": True}, '"/minItems": it must be a whole number from 0'),
        ({"exclusiveMinimum": True}, '"/exclusiveMinimum": it must be a number'),
        ({"multipleOf": 0}, '"/multipleOf": it must be a number above 0'),
        ({"items": [{}]}, '"/items": a schema is an object, true or false, not a list'),
        ({"anyOf": []}, '"/anyOf": it must be a list of schemas, and not an empty one'),
        ({"properties": []}, '"/properties": it must be an object of schemas, not a list'),
        ({"pattern": "(?=x)"}, '"/pattern": the pattern cannot be used: what looks ahead or behind is not understood'),
        ({"pattern": 1}, '"/pattern": it must be a string, not a number'),
        ({"$ref": "http://x/y"}, '"/$ref": it must lead to a place in this document'),
        ({"$ref": "other.json"}, '"/$ref": it must lead to a place in this document'),
        ({"$ref": "#/$defs/x"}, '"/$ref": there is nothing at "#/$defs/x"'),
        ({"$ref": "#/title", "title": "x"}, '"/title": a schema is an object, true or false, not a string'),
        ({"$ref": "#"}, "a $ref leads back to itself without a step into the value"),
        ({"allOf": [{"$ref": "#"}]}, "a $ref leads back to itself without a step into the value"),
        ({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"not": {"$ref": "#/items"}}}}, "a $ref leads back to itself"),
        ([], "the top level: a schema is an object, true or false, not a list"),
    ],
    ids=str,
)
def test_schema_that_cannot_be_kept_to_is_refused(schema: object, fault: str) -> None:
    """R-293: a keyword that were skipped would be one that its author counts on."""
    with pytest.raises(SchemaError) as caught:
        Schema(schema)
    assert str(caught.value).startswith(fault)


def test_work_is_bounded() -> None:
    """R-293: alternatives in alternatives, in a value that a model chose."""
    either = [{"type": "array", "items": {"$ref": "#"}, bound: 1} for bound in ("minItems", "maxItems")]
    value: list[object] = [1]
    for _ in range(60):
        value = [value]
    assert Schema({"anyOf": either}).faults(value) == (
        "it is too large, or too deeply nested, to be compared with the schema",
    )
    clones: object = {"type": "null"}
    for _ in range(90):
        clones = {"allOf": [clones, clones]}
    Schema(clones)
    chain = {"$defs": {"0": {}, **{f"{each}": {"$ref": f"#/$defs/{each - 1}"} for each in range(1, 4000)}}}
    with pytest.raises(SchemaError, match="a \\$ref leads on to others, too many of them"):
        Schema({**chain, "$ref": "#/$defs/3999"})


def test_every_keyword_is_documented() -> None:
    """R-293."""
    document = (Path(__file__).resolve().parents[2] / "docs" / "CLI.md").read_text(encoding="utf-8")
    section = document.partition("## The answer for a program\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\$?[a-zA-Z]+)`", "\n".join(re.findall(r"^[-] .*(?:\n  .*)*", section, re.MULTILINE))))
    assert named == set(KEYWORDS)
