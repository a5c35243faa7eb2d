"""odek/json_text.py next to the package that it does without (R-171)."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import odek
from odek import json_text

ROOT = Path(odek.__file__).resolve().parents[1]

TEXTS = (
    *("{}", "[]", "0", "-0", "-0.0", "1e5", "1E400", "-1e400", "12345678901234567890123", "true", "false", "null"),
    *(
        "NaN",
        "Infinity",
        "-Infinity",
        "nan",
        '""',
        '"\\u00e4\\ud83d\\ude00\\n"',
        '"\\ud800"',
        '"ä😀"',
        '"a\nb"',
        '"\t"',
    ),
    *("", " ", "\n\t\r ", "{", "[1,", "[1,]", '{"a":1,}', '{"a" 1}', '{"a":}', "{1:2}", "[1 2]", "'a'", '"a', '"\\x"'),
    *("01", "1.", ".5", "+1", "1e", "--1", "0x1", "1_000", "\x0b1", "\x001", "1\x00", "\ufeff1", "\u00a01", "1\u2028"),
    *(' \r\n\t[1 , {"a" : [ ] } ] \n', "1 2", "{} x", '"a" // c', "# c\n1", "tru", "nulll", '{"a":1,"a":2}', "[[[]]]"),
)


def attempt(function: Callable[..., Any], *given: Any, **options: Any) -> object:
    try:
        return repr(function(*given, **options))
    except ValueError as error:
        return type(error).__name__, str(error)
    except (RecursionError, TypeError) as error:
        return type(error).__name__


@pytest.mark.parametrize("text", TEXTS)
def test_reading_is_that_of_the_package(text: str) -> None:
    if text.startswith("\ufeff"):  # the package has words of its own for that one
        with pytest.raises(json.JSONDecodeError):
            json_text.loads(text)
    else:
        assert attempt(json_text.loads, text) == attempt(json.loads, text)
    options: dict[str, Any] = {
        "object_pairs_hook": tuple,
        "parse_float": lambda digits: f"float {digits}",
        "parse_int": lambda digits: f"int {digits}",
        "parse_constant": lambda word: f"constant {word}",
    }
    if not text.startswith("\ufeff"):
        assert attempt(json_text.loads, text, **options) == attempt(json.loads, text, **options)
    first = attempt(lambda: json.JSONDecoder().raw_decode(text.lstrip(" \t\r\n"))[0])
    found = attempt(json_text.loads, text, whole=False)
    assert found == first or isinstance(found, tuple) is isinstance(first, tuple) is True


def test_reading_pieces_is_that_of_the_package() -> None:
    """Texts cut and put together at random, with a fixed seed."""
    chance = random.Random(17)
    pieces = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        '"a"',
        "1",
        "-",
        ".5",
        "e3",
        " ",
        "\n",
        "true",
        "null",
        "\\",
        "NaN",
        "é",
    ]
    for _ in range(20_000):
        text = "".join(chance.choices(pieces, k=chance.randrange(1, 12)))
        assert attempt(json_text.loads, text) == attempt(json.loads, text), text


def test_deep_nesting_is_an_error() -> None:
    assert attempt(json_text.loads, "[" * 200_000) == "RecursionError"


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, 0, -5, 2**70, 0.1, 1e300, -0.0, "", "ä😀\n\u2028\x7f\x00\ud800", [], {}, [[]], (1, (2,))),
        *({"a": [1, {"b": None}], "ä": "x"}, {1: 2, None: 3, False: 4, 1.5: 5}, [float("nan")], float("inf"), {"s"}),
        *({(1, 2): 3}, object, b"bytes"),
    ],
    ids=repr,
)
def test_writing_is_that_of_the_package(value: object) -> None:
    packaged = attempt(json.dumps, value, separators=(",", ":"), allow_nan=False)
    found = attempt(json_text.dumps, value)
    assert found == packaged or (isinstance(found, tuple) and isinstance(packaged, tuple))


def test_writing_a_circle_is_an_error() -> None:
    circle: list[object] = []
    circle.append(circle)
    assert attempt(json_text.dumps, circle)[0] == "ValueError"  # type: ignore[index]


def test_without_the_c_code_the_package_serves() -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.modules['_json'] = None\n"
        "from odek import json_text\n"
        "print(json_text.HAS_C_CODE, json_text.loads(' {\"a\": [1.5]} '), json_text.dumps({'a': [1.5, 'ä']}))\n"
        "try: json_text.loads('[1] 2')\nexcept ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == 'False {\'a\': [1.5]} {"a":[1.5,"\\u00e4"]}\nExtra data: line 1 column 5 (char 4)\n'


@pytest.mark.parametrize("text", ['{"a" 1}', "[1,]", '{"a":1,}', '"\\x"', '"a', "[1 2]", "{1:2}", "1 2", "", "nul"])
def test_errors_are_those_of_the_package_where_it_was_not_imported(text: str) -> None:
    """B37: in a process of its own, for here the package has long been imported, and the C code needs it for errors."""
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom odek import json_text, strict_json\n"
        "from odek.mcp import messages\nloaded, text = 'json' in sys.modules, sys.argv[1]\n"
        "def why(read, given):\n    try:\n        return read(given)\n    except Exception as error:\n"
        "        return type(error).__name__, str(error)\n"
        "first = {'loads': why(json_text.loads, text)} if sys.argv[2] == 'loads' else "
        "{'parse': why(strict_json.parse, text.encode())} if sys.argv[2] == 'parse' else "
        "{'decode': why(messages.decode, text.encode())}\n"
        "import json\nprint(json.dumps([loaded, list(first.values())[0]]))"
    )

    def found(reader: str) -> Any:
        command = [sys.executable, "-I", "-S", "-c", script, text, reader]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    expected = attempt(json_text.loads, text)
    assert isinstance(expected, tuple)
    assert found("loads")[1] == list(expected)
    assert found("parse")[1][0] == "JsonError"
    assert found("decode")[1] == ["RpcError", "the line is not JSON in UTF-8"]


def test_nothing_of_the_package_is_imported() -> None:
    """R-171: that is what it is there for."""
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom odek import json_text, patterns\n"
        "json_text.loads('[1]'), json_text.dumps([1]), patterns.pattern('a')\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    if json_text.HAS_C_CODE:
        assert not {"json", "json.decoder"} & set(done.stdout.split())
