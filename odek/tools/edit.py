"""Replacing a passage of a text without touching any other byte (B54).

Models write LF; files may have CRLF, or both. A passage is therefore found whatever its line ends
are in the file, and its replacement gets the line ends of what was there.
"""

from __future__ import annotations

import bisect
import itertools
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from odek.patterns import pattern
from odek.redact import MARK
from odek.text import truncate, visible

MAX_MATCHES = 10_000
MAX_COMPARED_LINES = 3000
_CONTEXT_LINES = 3
_LISTED_LINES = 20


class EditError(ValueError):
    """The passage cannot be replaced as asked; the text is for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One replaced passage: text[start:end] of the old text became `replacement`."""

    start: int
    end: int
    replacement: str


def find_changes(text: str, old: str, new: str, *, replace_all: bool) -> tuple[Change, ...]:
    """Return what replacing `old` by `new` changes in `text`, in order, at least one change.

    Raises EditError when `old` is empty, equals `new`, is missing, or occurs more than once
    without `replace_all` (F-67).
    """
    if not old:
        raise EditError("old_string is empty; write_file makes new files")
    if old == new:
        raise EditError("old_string and new_string are the same")
    matches = _find_matches(text, old, overlapping=not replace_all)
    if not matches:
        raise EditError(_missing(text, old))
    if len(matches) > 1 and not replace_all:
        places = _list_lines(text, [start for start, _ in matches])
        raise EditError(f"old_string occurs {len(matches)} times ({places}); add lines around it, or set replace_all")
    adapt = "\r\n" in text and "\n" in new and "\r" not in old + new
    return tuple(
        _smallest_change(text, start, end, _with_line_ends(text, start, end, new) if adapt else new)
        for start, end in matches
    )


def require_no_new_marks(before: str, after: str) -> None:
    """Raise EditError when `after` holds the mark of a secret that was taken out more often than `before`.

    The model has read the mark where the file has the secret itself, which would be lost.
    """
    if after.count(MARK) > before.count(MARK):
        raise EditError(
            f"the new text holds {MARK} where the file does not: in what you read it replaces a secret that is in "
            "the file and is not shown, and writing it would destroy the secret. Leave those passages out of the edit; "
            "if you mean the word itself, write it with a command"
        )


def compare_texts(before: str, after: str, *, most: int = MAX_COMPARED_LINES) -> tuple[Change, ...]:
    """Return what makes `after` of `before`, whole lines at a time.

    Raises EditError when the part in which they differ is too long: comparing takes time that grows
    with its square.
    """
    old, new = _split_lines(before), _split_lines(after)
    start = _common_length(old, new)
    same_after = _common_length(old[start:][::-1], new[start:][::-1])
    old_rest, new_rest = old[start : len(old) - same_after], new[start : len(new) - same_after]
    if max(len(old_rest), len(new_rest)) > most:
        raise EditError(f"the texts differ over more than {most} lines; use diff in the shell")
    import difflib  # few runs compare

    ends = list(itertools.accumulate(map(len, old_rest), initial=sum(map(len, old[:start]))))
    return tuple(
        Change(start=ends[i1], end=ends[i2], replacement="".join(new_rest[j1:j2]))
        for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old_rest, new_rest).get_opcodes()
        if kind != "equal"
    )


def apply_changes(text: str, changes: tuple[Change, ...]) -> str:
    """Return `text` with all `changes` made."""
    return "".join(_pieces(text, 0, len(text), changes))


def render_diff(text: str, changes: tuple[Change, ...], *, limit: int) -> str:
    """Return the unified diff of `changes` without file headers, about `limit` characters at most."""
    hunks: list[str] = []
    room = limit
    shift = 0  # lines by which the new text is ahead
    number = 1  # of the line at `position`
    position = 0
    for start, end, group in _hunk_groups(text, changes):
        number += text.count("\n", position, start)
        position = start
        old_lines = _split_lines(text[start:end])
        new_lines = _split_lines("".join(_pieces(text, start, end, group)))
        hunk = "\n".join(
            (
                f"@@ -{_range(number, len(old_lines))} +{_range(number + shift, len(new_lines))} @@",
                *_diff_lines(old_lines, new_lines),
            )
        )
        shift += len(new_lines) - len(old_lines)
        if len(hunk) > room:
            return "\n".join([*hunks, truncate(hunk, room), "[the rest of the diff is left out]"])
        room -= len(hunk)
        hunks.append(hunk)
    return "\n".join(hunks)


def _find_matches(text: str, old: str, *, overlapping: bool) -> list[tuple[int, int]]:
    """Return where `old` occurs; an LF in it also matches a CRLF of a text that has some."""
    if "\n" not in old or "\r" in old or "\r\n" not in text:
        return _find_exactly(text, old, overlapping=overlapping)
    # look in a copy with LF only; a position there is as many behind as there are CRLFs before it
    crlf_positions = array("q", (match.start() - index for index, match in enumerate(re.finditer("\r\n", text))))

    def in_text(position: int) -> int:
        return position + bisect.bisect_left(crlf_positions, position)

    matches = _find_exactly(text.replace("\r\n", "\n"), old, overlapping=overlapping)
    return [(in_text(start), in_text(end)) for start, end in matches]


def _find_exactly(text: str, old: str, *, overlapping: bool) -> list[tuple[int, int]]:
    matches: list[tuple[int, int]] = []
    start = text.find(old)
    while start >= 0:
        matches.append((start, start + len(old)))
        if len(matches) > MAX_MATCHES:
            raise EditError(f"old_string occurs more than {MAX_MATCHES} times")
        start = text.find(old, start + 1 if overlapping else start + len(old))
    return matches


def _with_line_ends(text: str, start: int, end: int, new: str) -> str:
    """Return `new`, whose line ends are LF, with the line ends that text[start:end] has."""
    present, wanted = _split_lines(text[start:end]), _split_lines(new)
    bare = [line.replace("\r\n", "\n") for line in present]
    same_before = _common_length(bare, wanted)
    same_after = _common_length(bare[same_before:][::-1], wanted[same_before:][::-1])
    old_rest = slice(same_before, len(present) - same_after)
    new_rest = slice(same_before, len(wanted) - same_after)
    default = _line_end_at(text, start)
    middle = _pair_line_ends(present[old_rest], bare[old_rest], wanted[new_rest], default)
    return "".join((*present[:same_before], *middle, *present[len(present) - same_after :]))


def _pair_line_ends(present: list[str], bare: list[str], wanted: list[str], default: str) -> Iterator[str]:
    """Yield `wanted` with the line ends of the lines of `present` that each one stays or replaces."""
    import difflib

    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, bare, wanted).get_opcodes():
        if kind == "equal":
            yield from present[i1:i2]
            continue
        for index, line in enumerate(wanted[j1:j2], i1):
            line_end = (_line_end(present[index]) if index < i2 else "") or default
            yield line[:-1] + line_end if line.endswith("\n") else line


def _smallest_change(text: str, start: int, end: int, replacement: str) -> Change:
    """Return the change without the beginning and the end that stay as they are."""
    present = text[start:end]
    before = _common_length(present, replacement)
    after = _common_length(present[before:][::-1], replacement[before:][::-1])
    return Change(start=start + before, end=end - after, replacement=replacement[before : len(replacement) - after])


def _common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many items both have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _line_end_at(text: str, start: int) -> str:
    """Return the line end in force at `start`: the next one, or the one before when none follows."""
    at = text.find("\n", start)
    if at < 0:
        at = text.rfind("\n", 0, start)
    return "\r\n" if text[at - 1 : at] == "\r" else "\n"


def _line_end(line: str) -> str:
    return "\r\n" if line.endswith("\r\n") else "\n" if line.endswith("\n") else ""


def _split_lines(text: str) -> list[str]:
    """Split after every LF; str.splitlines would also split at a lone CR and at form feeds."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]


def _pieces(text: str, start: int, end: int, changes: tuple[Change, ...]) -> Iterator[str]:
    """Yield text[start:end] with `changes`, all of them inside, made."""
    for change in changes:
        yield text[start : change.start]
        yield change.replacement
        start = change.end
    yield text[start:end]


def _hunk_groups(text: str, changes: tuple[Change, ...]) -> Iterator[tuple[int, int, tuple[Change, ...]]]:
    """Yield what one hunk shows: whole lines from start to end, and the changes between them."""
    group: list[Change] = []
    start = end = 0
    for change in changes:
        first = _lines_back(text, change.start)
        if group and first > end:
            yield start, end, tuple(group)
            group = []
        if not group:
            start = first
        group.append(change)
        end = _lines_ahead(text, change.end)
    yield start, end, tuple(group)


def _lines_back(text: str, position: int) -> int:
    for _ in range(_CONTEXT_LINES + 1):
        position = text.rfind("\n", 0, position)
        if position < 0:
            return 0
    return position + 1


def _lines_ahead(text: str, position: int) -> int:
    if position and text[position - 1] == "\n":
        position -= 1  # the change ends with its line
    for _ in range(_CONTEXT_LINES + 1):
        position = text.find("\n", position) + 1
        if not position:
            return len(text)
    return position


def _diff_lines(old: list[str], new: list[str]) -> Iterator[str]:
    import difflib

    everything = max(len(old), len(new))
    for line in list(difflib.unified_diff(old, new, n=everything))[3:]:
        yield line.rstrip("\n").removesuffix("\r")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _range(first: int, count: int) -> str:
    return f"{first if count else first - 1},{count}"


def _missing(text: str, old: str) -> str:
    """Return the error for an `old` that is not there, with where its first line is, give or take blanks."""
    first = next((line.strip() for line in old.split("\n") if line.strip()), "")
    numbers = [number for number, line in enumerate(text.split("\n"), 1) if first and line.strip() == first]
    if MARK in old:
        return (
            f"old_string was not found: {MARK} replaces a secret that is in the file and is not shown; choose "
            "another passage"
        )
    slip = _find_slip(text, old)
    if slip:
        return slip
    message = "old_string was not found; it must be exactly as in the file, blanks included"
    if not numbers:
        return message
    return f"{message}. Its first line, give or take blanks, is on {_join_lines(numbers)}"


def _find_slip(text: str, old: str) -> str:
    """Return in what `old` differs from a passage that is there, "" when none is similar (B120)."""
    text = text.replace("\r\n", "\n")
    for what, change, both in _SLIPS:
        wanted = change(old)
        place = (change(text) if both else text).find(wanted) if wanted.strip() and (both or wanted != old) else -1
        if place >= 0:
            number = (change(text) if both else text).count("\n", 0, place) + 1
            line = visible(truncate(text.split("\n")[number - 1], 200))
            return f'old_string was not found exactly: {what}. Line {number} of the file is "{line}"; copy it exactly'
    return ""


def _without_numbers(old: str) -> str:
    lines = old.split("\n")
    numbered = all(_NUMBER.match(line) for line in lines if line.strip())
    return "\n".join(_NUMBER.sub("", line, count=1) for line in lines) if numbered else old


def _without_signs(old: str) -> str:
    lines = old.split("\n")
    signed = all(line[:1] in ("+", "-", " ") for line in lines if line)
    return "\n".join(line[1:] for line in lines) if signed else old


def _plain(text: str) -> str:
    return text.translate(_TYPOGRAPHY)


def _unescaped(old: str) -> str:
    return old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')


def _stripped(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


def _list_lines(text: str, starts: list[int]) -> str:
    numbers: list[int] = []
    number, position = 1, 0
    for start in starts[: _LISTED_LINES + 1]:
        number += text.count("\n", position, start)
        position = start
        numbers.append(number)
    return _join_lines(numbers)


def _join_lines(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:_LISTED_LINES]))
    word = "line" if len(numbers) == 1 else "lines"
    return f"{word} {shown}{', …' if len(numbers) > _LISTED_LINES else ''}"


def _unescape(text: str) -> str:
    import html  # a list of 2,200 names

    return html.unescape(text)


_NUMBER = pattern(r"\s*\d{1,9}[|:\t\u2192] ?")
_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        **dict.fromkeys("\u00a0\u2009\u202f", " "),
        "\u2026": "...",
    }
)
_SLIPS: tuple[tuple[str, Callable[[str], str], bool], ...] = (
    ("it holds the line numbers that read_file shows in front of each line", _without_numbers, False),
    ("it differs in quotes, dashes or blanks that only look alike", _plain, True),
    ("it holds the signs of a diff in front of each line", _without_signs, False),
    ("it holds escapes (\\\\n) in place of the characters themselves", _unescaped, False),
    ("it holds HTML entities (&lt;) in place of the characters themselves", _unescape, False),
    ("it differs in blanks", _stripped, True),
)
"""what models get wrong when they copy: in words, how it is undone, and whether the file has to be seen so too"""
