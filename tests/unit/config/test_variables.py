"""${VAR} in values."""

from __future__ import annotations

import pytest

from odek.config.values import check_references, expand, expand_marked, variables_in
from odek.errors import ConfigError

ENV = {"HOME": "/home/u", "X": "x", "EMPTY": "", "NESTED": "${X}$X", "_a1": "low"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("", ""),
        ("plain", "plain"),
        ("${X}", "x"),
        ("$X", "x"),
        ("a${X}b$X-c", "axbx-c"),
        ("$_a1", "low"),
        ("${EMPTY}", ""),
        ("$$", "$"),
        ("$$X", "$X"),
        ("$${X}", "${X}"),
        ("$$$X", "$x"),
        ("end$", "end$"),
        ("$?x", "$?x"),
        ("$5 and $-", "$5 and $-"),
        ("$ {X}", "$ {X}"),
        ("{X}", "{X}"),
        ("${NESTED}", "${X}$X"),
        ("$HOME/$X", "/home/u/x"),
    ],
)
def test_expands_once_and_swallows_nothing(text: str, expanded: str) -> None:
    """R-17, F-3, B31: both forms; what comes out is not expanded again; nothing gets lost."""
    assert expand(text, ENV, origin="o") == expanded


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${NONE}", 'the variable "NONE" is not set (o)'),
        ("$NONE", 'the variable "NONE" is not set (o)'),
        ("$Xy", 'the variable "Xy" is not set (o)'),
        ("${X", '"${X" names no variable (o)'),
        ("${}", '"${}" names no variable (o)'),
        ("${", '"${" names no variable (o)'),
        ("${1a}", '"${1a}" names no variable (o)'),
        ("${X:-d}", '"${X:-d}" names no variable (o)'),
        ("${X }", '"${X }" names no variable (o)'),
        ("${X\n}", '"${X\\n}" names no variable (o)'),
        ("${${X}}", '"${" names no variable (o)'),
        ("${\x1b[2J}", '"${\\x1b[2J}" names no variable (o)'),
    ],
)
def test_refuses_what_is_not_set_or_no_name(text: str, message: str) -> None:
    """R-17, B31: never an empty string in its place, no defaults, no nesting."""
    with pytest.raises(ConfigError) as caught:
        expand(text, ENV, origin="o")
    assert caught.value.message == message
    assert "$$" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("plain $ $5 $$X $${Y}", ()),
        ("${AWS_SECRET_ACCESS_KEY}", ("AWS_SECRET_ACCESS_KEY",)),
        ("$HOME", ("HOME",)),
        ("$B ${A} $B", ("B", "A")),
        ("${X:-d}", ("X",)),
        ("${${N}}", ("N",)),
        ("${X", ("X",)),
        ("${}", ()),
        ("$$$X", ("X",)),
    ],
)
def test_finds_the_names_in_both_forms(text: str, names: tuple[str, ...]) -> None:
    """F-5, B31: the question to the operator lists $NAME as well as ${NAME}."""
    assert variables_in(text) == names


@pytest.mark.parametrize("text", ["", "${NONE}", "$NONE", "$$", "$?"])
def test_check_accepts_whatever_may_be_set(text: str) -> None:
    check_references(text, origin="o")


@pytest.mark.parametrize("text", ["${X:-d}", "ok $X ${", "${${X}}"])
def test_check_refuses_what_no_environment_makes_good(text: str) -> None:
    with pytest.raises(ConfigError):
        check_references(text, origin="o")


def test_only_marked_values_are_expanded() -> None:
    """R-17, B31: an operator's value was expanded before; what came out of it stays as it is."""
    pairs = (("A", "${X}"), ("B", "${X}"))
    assert expand_marked(pairs, ("B",), ENV, origin="sandbox_env") == (("A", "${X}"), ("B", "x"))


def test_marked_value_that_is_not_set_names_its_key() -> None:
    with pytest.raises(ConfigError) as caught:
        expand_marked((("A", "$NONE"),), ("A",), ENV, origin="./odek.json: sandbox_env")
    assert caught.value.message == 'the variable "NONE" is not set (./odek.json: sandbox_env.A)'
