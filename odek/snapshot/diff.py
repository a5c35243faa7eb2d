"""Changes of files as a unified diff, in the form of git's, and how many lines each one has. Pure.

What a turn wrote may be made to be slow to compare, so a comparison takes a bounded number of steps, in all files
together; what is not done by then is shown as taken away and added as a whole.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from odek.snapshot.tree import Change, Damaged, State

Read = Callable[[State], bytes]
"""gives the content of a state; raises Damaged"""
Row = tuple[str, str]
"""a line of a diff, and what it is: "head", "place", "+", "-", "note" or " " """
_CONTEXT = 3
_MOST_EDITS = 1500
_TOO_MUCH = "not compared: too much was changed"
_NO_END = "\\ No newline at end of file"


@dataclass(slots=True)
class Effort:
    """How much is left for comparing: steps, bytes of contents, and their lines, of which each takes memory."""

    left: int = 3_000_000
    read_bytes: int = 200 << 20
    lines: int = 1_000_000


@dataclass(frozen=True, slots=True)
class FileDiff:
    """How one path differs, ready to be shown."""

    change: Change
    kind: str
    """added, deleted, modified, mode, type: what happened to it"""
    added: int = 0
    removed: int = 0
    binary: bool = False
    unknown: str = ""
    """why its content cannot be shown, "" when it can"""
    hunks: tuple[Row, ...] = ()
    halves: tuple[FileDiff, ...] = ()
    """where a path became something else: what went, and what came"""


def kind_of(change: Change) -> str:
    """Return what happened to the path of `change`."""
    before, after = change.before, change.after
    if before is None or after is None:
        return "added" if before is None else "deleted"
    if stat.S_IFMT(before.mode) != stat.S_IFMT(after.mode):
        return "type"
    return "mode" if (before.digest, before.stamp) == (after.digest, after.stamp) else "modified"


def diff_of(change: Change, read: Read, effort: Effort, *, with_hunks: bool = True) -> FileDiff:
    """Return how the path of `change` differs; without `with_hunks` only the numbers."""
    kind, before, after = kind_of(change), change.before, change.after
    if kind == "type":
        parts = (Change(change.path, before, None), Change(change.path, None, after))
        one, other = (diff_of(part, read, effort, with_hunks=with_hunks) for part in parts)
        return FileDiff(change, kind, other.added, one.removed, one.binary or other.binary, halves=(one, other))
    if kind == "mode" or all(state is None or state.is_folder for state in (before, after)):
        return FileDiff(change, kind)
    if any(state is not None and not state.is_kept for state in (before, after)):
        return FileDiff(change, kind, unknown="its content was not kept")
    effort.read_bytes -= sum(state.size for state in (before, after) if state is not None)
    if effort.read_bytes < 0:
        return FileDiff(change, kind, unknown=_TOO_MUCH)
    try:
        old, new = (b"" if state is None or state.is_folder else read(state) for state in (before, after))
        effort.lines -= old.count(b"\n") + new.count(b"\n")
        if effort.lines < 0:
            return FileDiff(change, kind, unknown=_TOO_MUCH)
        old_lines, new_lines = _lines(old), _lines(new)
    except Damaged as error:
        return FileDiff(change, kind, unknown=str(error))
    except UnicodeDecodeError:
        return FileDiff(change, kind, binary=True)
    edits = _edits(old_lines, new_lines, effort)
    removed = sum(end - start for start, end, _, _ in edits)
    added = sum(end - start for _, _, start, end in edits)
    hunks = tuple(_hunks(old_lines, new_lines, edits)) if with_hunks else ()
    return FileDiff(change, kind, added, removed, hunks=hunks)


def _lines(data: bytes) -> list[str]:
    """Return the lines of a text, each with its end. Raises UnicodeDecodeError for what is not one."""
    if b"\0" in data:
        raise UnicodeDecodeError("utf-8", data, 0, 1, "a NUL")
    return [line.decode() for line in data.splitlines(keepends=True)] if b"\r" not in data else _split(data.decode())


def _split(text: str) -> list[str]:
    """Return the lines that end with a line feed, as diff(1) counts them."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


Edit = tuple[int, int, int, int]
"""lines from … to of the old text that are replaced by lines from … to of the new one"""


def _edits(old: Sequence[str], new: Sequence[str], effort: Effort) -> list[Edit]:
    """Return the differences of two texts, in their order (Myers, An O(ND) Difference Algorithm)."""
    start = 0
    while start < len(old) and start < len(new) and old[start] == new[start]:
        start += 1
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    one, other = old[start : len(old) - tail], new[start : len(new) - tail]
    if not one and not other:
        return []
    found = _shortest(one, other, effort) if one and other else None
    if found is None:
        return [(start, len(old) - tail, start, len(new) - tail)]
    return [(a + start, b + start, c + start, d + start) for a, b, c, d in found]


def _shortest(old: Sequence[str], new: Sequence[str], effort: Effort) -> list[Edit] | None:
    """Return the shortest list of edits, None where it takes too long to find."""
    furthest = {1: 0}
    history: list[dict[int, int]] = []
    for count in range(min(len(old) + len(new), _MOST_EDITS) + 1):
        effort.left -= count + 1
        if effort.left < 0:
            return None
        history.append(furthest.copy())
        for diagonal in range(-count, count + 1, 2):
            down = diagonal == -count or (diagonal != count and furthest[diagonal - 1] < furthest[diagonal + 1])
            at = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
            place = at - diagonal
            while at < len(old) and place < len(new) and old[at] == new[place]:
                at, place = at + 1, place + 1
            furthest[diagonal] = at
            if at >= len(old) and place >= len(new):
                return _joined(_way_back(history, len(old), len(new)))
    return None


def _way_back(history: Sequence[dict[int, int]], at: int, place: int) -> list[Edit]:
    """Return the single steps that lead to the end of both texts, in their order."""
    steps: list[Edit] = []
    for count in range(len(history) - 1, 0, -1):
        furthest = history[count]
        diagonal = at - place
        down = diagonal == -count or (diagonal != count and furthest[diagonal - 1] < furthest[diagonal + 1])
        diagonal += 1 if down else -1
        before = furthest[diagonal]
        steps.append((before, before + (not down), before - diagonal, before - diagonal + down))
        at, place = before, before - diagonal
    return steps[::-1]


def _joined(steps: Sequence[Edit]) -> list[Edit]:
    """Return the steps with neighbours made one."""
    joined: list[Edit] = []
    for step in steps:
        if joined and joined[-1][1] == step[0] and joined[-1][3] == step[2]:
            joined[-1] = (joined[-1][0], step[1], joined[-1][2], step[3])
        else:
            joined.append(step)
    return joined


def _hunks(old: Sequence[str], new: Sequence[str], edits: Sequence[Edit]) -> Iterator[Row]:
    group: list[Edit] = []
    for edit in edits:
        if group and edit[0] - group[-1][1] > 2 * _CONTEXT:
            yield from _hunk(old, new, group)
            group = []
        group.append(edit)
    if group:
        yield from _hunk(old, new, group)


def _hunk(old: Sequence[str], new: Sequence[str], edits: Sequence[Edit]) -> Iterator[Row]:
    first, last = edits[0], edits[-1]
    start, end = max(first[0] - _CONTEXT, 0), min(last[1] + _CONTEXT, len(old))
    new_start = first[2] - (first[0] - start)
    new_end = last[3] + (end - last[1])
    yield f"@@ -{_span(start, end)} +{_span(new_start, new_end)} @@", "place"
    at = start
    for edit in edits:
        for line in old[at : edit[0]]:
            yield from _row(" ", line)
        for line in old[edit[0] : edit[1]]:
            yield from _row("-", line)
        for line in new[edit[2] : edit[3]]:
            yield from _row("+", line)
        at = edit[1]
    for line in old[at:end]:
        yield from _row(" ", line)


def _span(start: int, end: int) -> str:
    count = end - start
    return f"{start + (count > 0)}" + ("" if count == 1 else f",{count}")


def _row(sign: str, line: str) -> Iterator[Row]:
    yield sign + line.removesuffix("\n"), sign
    if not line.endswith("\n"):
        yield _NO_END, "note"


def render(diff: FileDiff) -> Iterator[Row]:
    """Yield the lines of one file's diff; `git apply` takes them, but for what is not kept, and for folders."""
    for half in diff.halves:
        yield from render(half)
    if not diff.halves:
        yield from _heading(diff)
        yield from _body(diff)


def _heading(diff: FileDiff) -> Iterator[Row]:
    path, before, after = diff.change.path, diff.change.before, diff.change.after
    if all(state is None or state.is_folder for state in (before, after)):
        words = {"added": "new folder", "deleted": "folder deleted"}.get(diff.kind, "folder, mode")
        yield f"{words}: {quoted(path)}{_modes(before, after) if diff.kind == 'mode' else ''}", "head"
        return
    yield f"diff --git {quoted(f'a/{path}')} {quoted(f'b/{path}')}", "head"
    if before is None and after is not None:
        yield f"new file mode {_mode(after)}", "head"
    elif after is None and before is not None:
        yield f"deleted file mode {_mode(before)}", "head"
    elif before is not None and after is not None and _mode(before) != _mode(after):
        yield f"old mode {_mode(before)}", "head"
        yield f"new mode {_mode(after)}", "head"
    elif diff.kind == "mode":
        yield f"mode:{_modes(before, after)}", "note"


def _body(diff: FileDiff) -> Iterator[Row]:
    path = diff.change.path
    old = "/dev/null" if diff.change.before is None else quoted(f"a/{path}")
    new = "/dev/null" if diff.change.after is None else quoted(f"b/{path}")
    if diff.unknown:
        yield diff.unknown, "note"
    elif diff.binary:
        yield f"Binary files {old} and {new} differ", "note"
    elif diff.hunks:
        yield f"--- {old}", "head"
        yield f"+++ {new}", "head"
        yield from diff.hunks


def _mode(state: State) -> str:
    if stat.S_ISLNK(state.mode):
        return "120000"
    return "100755" if state.mode & 0o100 else "100644"


def _modes(before: State | None, after: State | None) -> str:
    words = (f"{stat.S_IMODE(state.mode):04o}" if state else "-" for state in (before, after))
    return f" {' → '.join(words)}"


_ESCAPES = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", '"': '"', "\\": "\\"}


def quoted(path: str) -> str:
    """Return a path as git writes it: in quotes, with escapes, where it has more than plain characters."""
    shown = "".join(map(_escaped, path))
    return path if shown == path else f'"{shown}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return f"\\{_ESCAPES[character]}"
    if " " <= character <= "~" or (character > "\xa0" and character.isprintable()):
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))
