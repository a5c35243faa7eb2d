"""What a stream can show: the one place that decides (C1, C2, R-260)."""

from __future__ import annotations

import pytest

from odek.cli.look import MANY, NOTHING, Look, choose_look

XTERM = {"TERM": "xterm"}


@pytest.mark.parametrize(
    ("env", "how", "look"),
    [
        (XTERM, {}, Look(colors=16, moves=True, shapes=True)),
        ({"TERM": "xterm-256color"}, {}, Look(colors=256, moves=True, shapes=True)),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, {}, Look(colors=256, moves=True, shapes=True)),
        ({"TERM": "xterm-kitty"}, {}, Look(colors=256, moves=True, shapes=True)),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, {}, Look(shapes=True)),
        ({}, {}, Look(shapes=True)),
        ({"TERM": ""}, {}, Look(shapes=True)),
        ({**XTERM, "NO_COLOR": "1"}, {}, Look(moves=True, shapes=True)),
        ({**XTERM, "NO_COLOR": ""}, {}, Look(colors=16, moves=True, shapes=True)),
        (XTERM, {"no_color": True}, Look(moves=True, shapes=True)),
        (XTERM, {"plain": True}, Look(plain=True)),
        (XTERM, {"encoding": "ascii"}, Look(colors=16, moves=True)),
        (XTERM, {"encoding": "UTF-8"}, Look(colors=16, moves=True, shapes=True)),
        ({"TERM": "xterm-256color"}, {"is_terminal": False}, Look(shapes=True)),
    ],
    ids=str,
)
def test_what_a_stream_can_show(env: dict[str, str], how: dict[str, object], look: Look) -> None:
    """R-260."""
    assert choose_look(env, **{"is_terminal": True, **how}) == look  # type: ignore[arg-type]


def test_styles_are_those_of_the_terminal() -> None:
    assert Look(colors=16).style("x", "red", "bold") == "\x1b[31;1mx\x1b[0m"
    assert Look(colors=256).style("x", "red", "bold") == "\x1b[38;5;161;1mx\x1b[0m"
    assert (NOTHING.style("x", "red"), Look(colors=16).style("", "red"), Look(colors=16).style("x")) == ("x", "", "x")


def luminance(number: int) -> float:
    """Return the relative luminance of a color of xterm's cube, as WCAG defines it."""
    levels = (0, 95, 135, 175, 215, 255)
    place = number - 16
    parts = [levels[step] / 255 for step in (place // 36, place // 6 % 6, place % 6)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("name", MANY)
def test_colours_can_be_read_on_white_and_on_black(name: str) -> None:
    """R-260: a contrast of 4 with both; of the 16 the terminal's own theme takes care."""
    light = luminance(MANY[name])
    assert min(1.05 / (light + 0.05), (light + 0.05) / 0.05) > 4
