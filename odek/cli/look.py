"""What a stream can show: how many colours, other shapes than ASCII, a cursor that moves. Decided here alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

_ATTRIBUTES = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "strike": "9"}
_FEW = {"red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# Of 256 those that differ enough from white and from black: a contrast of 4 at least (tests/unit/cli/test_look.py).
_MANY = {"red": 161, "green": 28, "yellow": 130, "cyan": 30}
_CODES = {
    16: {**_ATTRIBUTES, **_FEW},
    256: {**_ATTRIBUTES, **{name: f"38;5;{number}" for name, number in _MANY.items()}},
}
MANY = _MANY
"""the colours of a terminal that has 256, by name: numbers of xterm's table"""
_TERMS_WITH_MANY = ("256color", "direct", "kitty", "alacritty", "ghostty", "foot", "wezterm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What may be written to one stream besides plain lines."""

    colors: int = 0
    """0, 16 or 256; with 0 there is no bold either"""
    moves: bool = False
    """whether what was written may be replaced: the last lines of a terminal"""
    shapes: bool = False
    """whether lines and dots other than ASCII are drawn"""
    plain: bool = False
    """whether a program reads it aloud: whole lines, each written once"""

    def style(self, text: str, *styles: str) -> str:
        """Return `text` in the given styles, or as it is where there are no colours."""
        if not (self.colors and text and styles):
            return text
        codes = _CODES[self.colors]
        return f"\x1b[{';'.join(codes[style] for style in styles)}m{text}\x1b[0m"

    def without_color(self) -> Look:
        return replace(self, colors=0)


NOTHING = Look()
"""a pipe or a file"""


def choose_look(
    env: Mapping[str, str], *, is_terminal: bool, no_color: bool = False, plain: bool = False, encoding: str = "utf-8"
) -> Look:
    """Return what a stream can show. Pure.

    `no_color` and `plain` are the user's settings; NO_COLOR, TERM and COLORTERM are read from `env`.
    """
    if not is_terminal:
        return Look(shapes=not plain, plain=plain)
    term = env.get("TERM") or "dumb"
    is_capable = term != "dumb" and not plain
    shapes = not plain and encoding.lower().replace("-", "") == "utf8"
    if not is_capable or no_color or env.get("NO_COLOR"):
        return Look(moves=is_capable, shapes=shapes, plain=plain)
    many = bool(env.get("COLORTERM")) or any(name in term for name in _TERMS_WITH_MANY)
    return Look(colors=256 if many else 16, moves=True, shapes=shapes)
