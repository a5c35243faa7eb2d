"""Text that fits a terminal: how wide it is, lines broken between words, lists of terms with what they mean.

Loaded by `odek --help` as well, which imports next to nothing: no standard module here that is not there anyway.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEFAULT_COLUMNS = 80
"""of help that goes into a file or a pipe, and of a terminal that does not say how wide it is"""
_MIN_COLUMNS, _MAX_COLUMNS = 40, 200
_MOST_TERM = 3  # a term takes at most a third of the line


def help_columns() -> int:
    """Return how wide help may be: as the terminal on stdout, within reason."""
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError, AttributeError):
        columns = 0
    if not columns:  # a pipe, or a terminal that does not say
        return DEFAULT_COLUMNS
    return min(max(columns, _MIN_COLUMNS), _MAX_COLUMNS)


def wrap(text: str, columns: int, *, indent: str = "") -> str:
    """Return `text` in lines of at most `columns`, broken at blanks alone; lines after the first begin with `indent`.

    A word that is longer than a line stays whole.
    """
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > columns:
            lines.append(line)
            line = indent + word
        else:
            line = f"{line} {word}" if line.strip() else line + word
    return "\n".join((*lines, line))


def wrap_example(line: str, columns: int) -> str:
    """Return a command line of the shell in lines of at most `columns` that mean the same, as far as blanks allow.

    Lines are broken between words, with a backslash; what is in quotes, and a comment, stays whole.
    """
    if len(line) <= columns:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    lines, current = [], indent
    for word in _shell_words(line):
        if current.strip() and len(current) + len(word) + 3 > columns:
            lines.append(current + " \\")
            current = f"{indent}  {word}"
        else:
            current = f"{current} {word}" if current.strip() else current + word
    return "\n".join((*lines, current))


def _shell_words(line: str) -> Iterator[str]:
    """Yield the words of a line, quotes and all; a comment is one word."""
    word, quote = "", ""
    for place, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#" and not word:
            yield line[place:]
            return
        if character == " " and not quote:
            if word:
                yield word
            word = ""
        else:
            word += character
    if word:
        yield word


def list_of_terms(terms: Sequence[tuple[str, str]], columns: int) -> Iterator[str]:
    """Yield lines with a term and, behind or below it, what it means."""
    width = max((len(term) for term, _ in terms), default=0)
    behind = width + 4 <= max(columns // _MOST_TERM, 16)
    for term, text in terms:
        if behind:
            yield _hang(f"  {term:<{width}}  ", text, columns)
        else:
            yield f"  {term}"
            yield _hang("      ", text, columns)


def _hang(head: str, text: str, columns: int) -> str:
    lines = wrap(text, columns - len(head)).split("\n")
    return "\n".join((head + lines[0], *(" " * len(head) + line for line in lines[1:]))).rstrip()
