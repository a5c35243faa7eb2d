"""How foreign text is laid out for somebody who must decide on it (R-64, B32, B34).

Beyond `text.visible`, which makes every character seen: runs of blanks that push something off the
screen are counted instead of printed, and long text is broken here, not by the terminal, so that
no part of it can pose as a line of the prompt.
"""

from __future__ import annotations

import re

from odek.text import visible

WIDTH = 66  # with the deepest indent below 80 columns, the narrowest terminal worth the name
BLANK_RUN = 25  # a Python body indented six deep still shows as it is
# tab and the space separators of Unicode, and the empty Braille cell, which is blank but no space
_BLANKS = re.compile(rf"([ \t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000\u2800]{{{BLANK_RUN},}})")
_PLAIN = re.compile(r"[A-Za-z0-9_.,:;/@=+%~${}()\[\]-]+")
_FIRST, _NEXT, _REMARK = "  | ", "  + ", "  * "


def readable(text: str) -> str:
    """Return `text` on one line, invisible characters escaped, long blank runs as "[4000 spaces]"."""
    pieces = _BLANKS.split(text)  # every second piece is a run
    return "".join(_counted(piece) if index % 2 else visible(piece) for index, piece in enumerate(pieces))


def value(text: str) -> str:
    """Return `text` as `readable` does, in quotes unless it is made of everyday characters only."""
    if _PLAIN.fullmatch(text):
        return text
    return '"' + readable(text).replace('"', '\\"') + '"'


def fold(text: str, width: int = WIDTH) -> tuple[str, ...]:
    """Return `text` in pieces of at most `width` columns; always at least one piece."""
    pieces: list[str] = []
    piece = ""
    columns = 0
    for character in text:
        # beyond ASCII two columns are the most a character takes: better a short line than a wrapped one
        size = 1 if character < "\x7f" else 2
        if columns + size > width:
            pieces.append(piece)
            piece, columns = "", 0
        piece += character
        columns += size
    return (*pieces, piece)


def field(label: str, text: str, *, indent: int = 2) -> tuple[str, ...]:
    """Return the lines "  label:   text", what does not fit on lines that are marked as continued."""
    first, *rest = fold(text)
    return (f"{' ' * indent}{label + ':':<8} {first}".rstrip(), *(f"         + {piece}" for piece in rest))


def command_rows(command: str) -> tuple[str, ...]:
    """Return `command` as rows of the screen: "|" starts a line of it, "+" continues one, "*" is a remark."""
    rows: list[str] = []
    blank_lines = 0
    for line in (*command.split("\n"), None):
        if line is not None and not line.strip(" \t"):
            blank_lines += 1
            continue
        rows += _blank_rows(blank_lines)
        blank_lines = 0
        if line is not None:
            first, *rest = fold(readable(line))
            rows += [_FIRST + first, *(_NEXT + piece for piece in rest)]
    return tuple(rows)


def _blank_rows(count: int) -> list[str]:
    return [_FIRST.rstrip()] * count if count < 3 else [f"{_REMARK}[{count} blank lines]"]


def _counted(blanks: str) -> str:
    kinds = {" ": "spaces", "\t": "tabs"}
    return f"[{len(blanks)} {kinds.get(blanks[0], 'blanks') if len(set(blanks)) == 1 else 'blanks'}]"
