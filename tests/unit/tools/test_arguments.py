from __future__ import annotations

from typing import Any

import pytest

from odek.tools.arguments import ArgumentError, check_arguments, parse_arguments

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "d"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "deep": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "names": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["text"],
}


@pytest.mark.parametrize(
    ("given", "arguments", "unknown"),
    [
        ('{"text":""}', {"text": ""}, ()),
        ('{"text":"x","count":9,"deep":false,"mode":"b","names":["n"]}',
         {"text": "x", "count": 9, "deep": False, "mode": "b", "names": ["n"]}, ()),
        ('{"text":"x","count":null}', {"text": "x"}, ()),
        ('{"text":"x","count":2.0}', {"text": "x", "count": 2}, ()),
        ('{"text":"x","colour":1,"\\u001b":2}', {"text": "x"}, ("colour", "\x1b")),
        (' {"text" : "\\u00e4\\ud83d\\ude00"}\n', {"text": "ä😀"}, ()),
    ],
)  # fmt: skip
def test_parse_arguments_returns_what_the_schema_knows(
    given: str, arguments: dict[str, Any], unknown: tuple[str, ...]
) -> None:
    """R-83: names are the contract; null is absent, unknown names are told apart."""
    assert check_arguments(parse_arguments(given), SCHEMA) == (arguments, unknown)


def test_parse_arguments_takes_no_text_for_no_arguments() -> None:
    assert check_arguments(parse_arguments(""), {"type": "object", "properties": {}}) == ({}, ())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", '"text" is missing'),
        ("{}", '"text" is missing'),
        ('{"text":null}', '"text" is missing'),
        ('{"text":5}', '"text" must be text, not 5'),
        ('{"text":["x"]}', '"text" must be text, not ["x"]'),
        ('{"text":"x","count":"5"}', '"count" must be a whole number, not "5"'),
        ('{"text":"x","count":1.5}', '"count" must be a whole number, not 1.5'),
        ('{"text":"x","count":true}', '"count" must be a whole number, not true'),
        ('{"text":"x","count":0}', '"count" must be at least 1, not 0'),
        ('{"text":"x","count":10}', '"count" must be at most 9, not 10'),
        ('{"text":"x","deep":1}', '"deep" must be true or false, not 1'),
        ('{"text":"x","mode":"c"}', '"mode" must be one of a, b, not "c"'),
        ('{"text":"x","names":"n"}', '"names" must be a list, not "n"'),
        ('{"text":"x","names":[1]}', '"names[0]" must be text, not 1'),
        ("[]", "must be a JSON object, not []"),
        ('"{}"', 'must be a JSON object, not "{}"'),
        ("null", "must be a JSON object, not null"),
        ('{"text":"x"', "not valid JSON: Expecting ',' delimiter: line 1 column 12 (char 11)"),
        ('{"text":NaN}', "not valid JSON: NaN is not a JSON number"),
        ('{"text":"\\ud800"}', "half a surrogate pair is not a character"),
        ('{"other":["\\udfff"]}', "half a surrogate pair is not a character"),
        ("[" * 200_000, "too many nested brackets"),
    ],
)
def test_parse_arguments_refuses_what_the_schema_does_not_allow(given: str, message: str) -> None:
    """R-83: an error that the model can act on, never a crash."""
    with pytest.raises(ArgumentError) as caught:
        check_arguments(parse_arguments(given), SCHEMA)
    assert str(caught.value) == message


def test_parse_arguments_shows_only_the_beginning_of_a_wrong_value() -> None:
    with pytest.raises(ArgumentError) as caught:
        check_arguments(parse_arguments('{"text":["' + "x" * 1000 + '"]}'), SCHEMA)
    assert str(caught.value) == '"text" must be text, not ["' + "x" * 57 + "…"


def test_parse_arguments_stops_at_numbers_that_python_will_not_parse() -> None:
    with pytest.raises(ArgumentError, match="not valid JSON"):
        check_arguments(parse_arguments('{"text":' + "9" * 5000 + "}"), SCHEMA)


def test_parse_arguments_fails_on_rules_it_does_not_know() -> None:
    """A schema must not promise the model a check that is not made."""
    with pytest.raises(KeyError):
        check_arguments(parse_arguments('{"text":"x"}'), {"properties": {"text": {"type": "string", "pattern": "a"}}})


NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "files": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
                "required": ["path"],
            },
        }
    },
    "required": ["files"],
}


@pytest.mark.parametrize(
    ("given", "files", "unknown"),
    [
        ('[{"path":"a","limit":2}]', [{"path": "a", "limit": 2}], ()),
        ('["a",{"path":"b"}]', [{"path": "a"}, {"path": "b"}], ()),
        ('[{"path":"a","limit":null,"x":1}]', [{"path": "a"}], ("files[0].x",)),
    ],
)
def test_parse_arguments_takes_lists_of_objects(given: str, files: list[Any], unknown: tuple[str, ...]) -> None:
    """R-83: a bare text stands for the object of which it is the only required part."""
    assert check_arguments(parse_arguments(f'{{"files":{given}}}'), NESTED) == ({"files": files}, unknown)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("[]", '"files" must have at least 1 item, not 0'),
        ('["a","b","c"]', '"files" must have at most 2 items, not 3'),
        ('[{"limit":2}]', '"files[0].path" is missing'),
        ('["a",{"path":1}]', '"files[1].path" must be text, not 1'),
        ('["a",{"path":"b","limit":0}]', '"files[1].limit" must be at least 1, not 0'),
        ("[1]", '"files[0]" must be an object, not 1'),
        ('{"path":"a"}', '"files" must be a list, not {"path": "a"}'),
    ],
)
def test_parse_arguments_says_which_item_is_wrong(given: str, message: str) -> None:
    """R-83."""
    with pytest.raises(ArgumentError) as caught:
        check_arguments(parse_arguments(f'{{"files":{given}}}'), NESTED)
    assert str(caught.value) == message
