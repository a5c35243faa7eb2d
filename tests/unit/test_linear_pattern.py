"""Regular expressions in linear time: the same verdicts as Python's, without what makes those hang."""

from __future__ import annotations

import random
import re

import pytest

from odek.linear_pattern import MAX_STEPS, Pattern, PatternError

PATTERNS = (
    *("", "a", "abc", "^abc$", "a|b", "a*b", "(ab)+", "[a-c]x", "[^a-c]", "a{2}", "a{2,}", "a{2,3}$", "^a?b?c?$"),
    *("(?:ab|cd){1,2}", "^$", "a.b", r"\d+", r"^\w+$", r"\S", r"\D", r"[\d-]+", r"^[+-]?\d+(\.\d+)?$", "(a|b|)c"),
    *("a|^b|c$", "x*", "(x*)*y", "^(?:(?:a?){3}){2}$", "(^a)|(b$)", "a??b", "(?<n>a)b", r"\x61\u0062", r"[\b\n]"),
)
"""fit for Python's re as well, but for its $ and its names of groups"""


@pytest.mark.parametrize("text", PATTERNS)
def test_pattern_fits_what_it_fits_in_python(text: str) -> None:
    """R-293."""
    chance = random.Random(text)
    pattern, python = Pattern(text), re.compile(text.replace("(?<", "(?P<").replace("$", r"\Z"), re.ASCII)
    for _ in range(300):
        subject = "".join(chance.choice("abcxy01.-+ \n") for _ in range(chance.randrange(7)))
        assert pattern.is_in(subject) == bool(python.search(subject)), subject


def grown(chance: random.Random, depth: int) -> str:
    """Return a random pattern."""
    match chance.randrange(9 if depth else 4):
        case 0 | 1 | 2:
            return chance.choice("abc.")
        case 3:
            return chance.choice(("[ab]", "[^a]", r"\d"))
        case 4:
            return grown(chance, depth - 1) + grown(chance, depth - 1)
        case 5:
            return f"(?:{grown(chance, depth - 1)}|{grown(chance, depth - 1)})"
        case 6:
            return f"(?:{grown(chance, depth - 1)}){chance.choice(('*', '+', '?', '{2}', '{0,2}', '{1,}'))}"
        case 7:
            return "^" + grown(chance, depth - 1)
    return grown(chance, depth - 1) + "$"


@pytest.mark.once
def test_random_patterns_fit_what_they_fit_in_python() -> None:
    """R-293."""
    chance = random.Random(293)
    for _ in range(1500):
        text = grown(chance, 4)
        pattern, python = Pattern(text), re.compile(text.replace("$", r"\Z"))
        for _ in range(10):
            subject = "".join(chance.choice("abc1") for _ in range(chance.randrange(8)))
            assert pattern.is_in(subject) == bool(python.search(subject)), (text, subject)


@pytest.mark.once
def test_random_classes_hold_what_they_hold_in_python() -> None:
    """R-362: ranges in any order, over one another and next to each other, inverted, with classes in classes."""
    chance, letters = random.Random(362), "abcdefghij019_-^ \n.é"
    for _ in range(3000):
        members = []
        for _ in range(chance.randrange(1, 9)):
            first, last = sorted(chance.choice("abcdefghij0123456789") for _ in range(2))
            members.append(chance.choice((first, f"{first}-{last}", r"\d", r"\W", r"\s", r"\-", r"\x61-e")))
        text = f"[{chance.choice(('', '^'))}{''.join(members)}]"
        pattern, python = Pattern(text), re.compile(text, re.ASCII)
        held = [letter for letter in letters if pattern.is_in(letter)]
        assert held == [letter for letter in letters if python.search(letter)], text


def test_size_counts_what_a_class_costs() -> None:
    """R-362: a class of many ranges is not one step; what is written as many ranges and is one, is one."""
    odd = "".join(map(chr, range(0x4E00, 0x6E00, 2)))
    assert Pattern(f"[{odd}]{{1000}}").size > 12 * 1000
    assert Pattern("[ihgfedcba-i]").size == Pattern("[a-i]").size == Pattern("a").size
    assert Pattern(f"^[{odd}]{{900}}$").is_in(odd[-900:])
    assert not Pattern(f"[{odd}]").is_in("".join(map(chr, range(0x4E01, 0x6E00, 2))))


@pytest.mark.parametrize("text", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "a*a*a*a*a*a*a*b", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_pattern_that_makes_others_hang_ends(text: str) -> None:
    """R-293: a model's answer is compared with it; with Python's own, forty letters would take years."""
    assert not Pattern(text).is_in("a" * 20_000 + "!")


@pytest.mark.parametrize("text", ["^((((){9999}){9999}){9999}){9999}$", "^(((a{0}){9999}){9999}){9999}$"])
def test_nothing_in_large_numbers_ends(text: str) -> None:
    """R-293: what takes no step is not held up by the limit of steps."""
    pattern = Pattern(text)
    assert pattern.is_in("")
    assert not pattern.is_in("a")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("(", 'a "(" is not closed'),
        ("a)", '")" without "("'),
        ("[", "it ends too early"),
        ("[b-a]", "a range ends below its beginning"),
        (r"[\d-z]", "a range needs a character at both ends"),
        ("*", '"*" has nothing to stand for'),
        ("a**", '"*" has nothing to stand for'),
        ("{1}", '"{" has nothing to stand for'),
        ("^*", '"^" cannot be repeated'),
        ("(?=a)", "what looks ahead or behind is not understood"),
        ("(?<!a)", "what looks ahead or behind is not understood"),
        (r"(a)\1", r'"\1" is not understood'),
        (r"\p{L}", r'"\p" is not understood'),
        (r"\bx", r'"\b" is not understood'),
        ("a{3", "a count is written {3}, {3,} or {3,5}"),
        ("a{,3}", "a count is written {3}, {3,} or {3,5}"),
        ("a{2,1}", "a count ends below its beginning"),
        ("a{99999}", "a count is too large"),
        ("\\", "it ends too early"),
        (r"\u12", "4 hexadecimal digits are missing"),
        (f"(a{{9}}){{{MAX_STEPS}}}", "it repeats too much"),
        ("(" * 60 + ")" * 60, "it is nested too deeply"),
    ],
)
def test_pattern_that_is_not_understood_is_refused(text: str, fault: str) -> None:
    """R-293: never skipped, and never something else."""
    with pytest.raises(PatternError) as caught:
        Pattern(text)
    assert str(caught.value).startswith(fault)
