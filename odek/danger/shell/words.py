"""What single words are: assignments, plain text. Pure."""

from __future__ import annotations

import re

from odek.danger.shell.syntax import Assignment, Text, Word

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?(\+?)=")
_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")


def parse_assignment(word: Word) -> Assignment | None:
    """Return `word` as `name=value`, or None when it is none."""
    first = word.parts[0]
    if not isinstance(first, Text) or first.quoted:
        return None
    match = _ASSIGNMENT.match(first.text)
    if match:
        rest = first.text[match.end() :]
        head = (Text(text=rest, quoted=False),) if rest else ()
        return Assignment(
            name=match[1], value=Word(parts=(*head, *word.parts[1:])), append=bool(match[3]), subscript=bool(match[2])
        )
    if _SUBSCRIPT.match(first.text) and any(
        isinstance(part, Text) and not part.quoted and ("]=" in part.text or "]+=" in part.text) for part in word.parts
    ):  # a[$(…)]=value: the subscript is evaluated like the value
        return Assignment(
            name=first.text.partition("[")[0], value=Word(parts=word.parts[1:]), append=True, subscript=True
        )
    return None


def literal_text(word: Word) -> str | None:
    """Return the text of a word without expansions, quotes removed; None for any other word."""
    if all(isinstance(part, Text) for part in word.parts):
        return "".join(part.text for part in word.parts if isinstance(part, Text))
    return None
