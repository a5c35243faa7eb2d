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
    return hang("", text, columns, indent=indent)


def hang(head: str, text: str, columns: int, *, indent: str | None = None) -> str:
    """Return `head` and, behind it, `text`, as `wrap`; further lines begin below `text` unless there is an `indent`."""
    start = " " * len(head) if indent is None else indent
    lines, line, fresh = [], head, True
    for word in text.split():
        if not fresh and len(line) + 1 + len(word) > columns:
            lines.append(line)
            line, fresh = start, True
        line += word if fresh else f" {word}"
        fresh = False
    return "\n".join((*lines, line)).rstrip()


def fold(text: str, columns: int) -> str:
    """Return `text` with each line that is longer than `columns` broken at blanks, and gone on with below what follows
    its label, "label: …" or "label  …", or a little further in than it began.

    0: as it is, for what goes into a pipe.
    """
    lines = text.split("\n") if columns else ()
    return "\n".join(_fold_line(line, columns) if len(line) > columns else line for line in lines) if lines else text


def _fold_line(line: str, columns: int) -> str:
    blanks = line[: len(line) - len(line.lstrip(" "))]
    head = blanks
    for end in (": ", "  "):
        label, found, rest = line[len(blanks) :].partition(end)
        if found and (end == "  " or " " not in label):
            head = line[: len(line) - len(rest.lstrip(" "))]
            break
    below = len(blanks) < len(head) <= columns // _MOST_TERM
    return hang(head, line[len(head) :], columns, indent=None if below else blanks + "  ")


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
            yield hang(f"  {term:<{width}}  ", text, columns)
        else:
            yield f"  {term}"
            yield hang("      ", text, columns)
