"""What turns changed, as a person at the terminal sees and undoes it: `odek diff`, `odek undo`, `/diff` and `/undo`.

A question is asked with the store let go, and what it was about is looked at again afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from odek.cli.terminal import Span, Terminal
from odek.errors import StateFileError, UsageError
from odek.snapshot.diff import Effort, FileDiff, diff_of, kind_of, quoted, render
from odek.snapshot.project import NothingKept, ProjectFiles, Reading
from odek.snapshot.restore import CHANGED, FULL_FOLDER, Plan
from odek.snapshot.store import Record
from odek.snapshot.tree import Change, State
from odek.text import plural, truncate, visible

_STYLES = {"head": ("bold",), "place": ("cyan",), "+": ("green",), "-": ("red",), "note": ("dim",), " ": ()}
_SHOWN = 20
_BAR = 30
_AGES = ((60, "second", 1), (3600, "minute", 60), (86_400, "hour", 3600), (float("inf"), "day", 86_400))


@dataclass(frozen=True, slots=True)
class Which:
    """Which turn: by its number in the folder, by that in a session, or the last one that was not undone."""

    number: int | None = None
    session: str = ""
    turn: int = 0

    def find(self, reading: Reading, *, undone_too: bool = False) -> Record:
        """Return its record. Raises OdekError."""
        return reading.find(self.number, session=self.session, turn=self.turn, undone_too=undone_too)


def parse_number(text: str) -> int | None:
    """Return the number of a turn, None where none was given. Raises UsageError."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f'"{visible(truncate(text, 40))}" is not the number of a turn', hint="see odek diff --list")
    return int(text[:9])


def name_of(record: Record) -> str:
    """Return what a record is called in a sentence."""
    return f"turn {record.number}" if not record.undoes else f"undo {record.number} (of {record.undoes})"


def count(changes: Sequence[Change]) -> str:
    """Return "3 files", or folders where there are no files."""
    folders = sum(all(state is None or state.is_folder for state in (each.before, each.after)) for each in changes)
    return plural(len(changes) - folders, "file") if len(changes) > folders else plural(folders, "folder")


def doubts_of(record: Record) -> tuple[str, ...]:
    """Return the sentences that should be read before a record is trusted to be odek's work alone."""
    doubts = []
    if record.shared:
        doubts.append("another odek worked in this folder at the same time; its changes are among these")
    if record.cut_off:
        doubts.append("odek was killed during it; what was changed until now, by whatever program, is among these")
    return tuple(doubts)


def show_diff(project: ProjectFiles, which: Which, terminal: Terminal, *, stat: bool = False) -> None:
    """Print what a turn changed. Raises OdekError."""
    with project.reading() as reading:
        warn_of_damage(reading, terminal)
        record = which.find(reading, undone_too=True)
        effort = Effort()
        spans: list[Span] = []
        if stat:
            diffs = [diff_of(change, reading.read, effort, with_hunks=False) for change in record.changes]
            spans = [span for row in stat_rows(diffs) for span in row]
        else:
            for change in record.changes:
                for text, kind in render(diff_of(change, reading.read, effort)):
                    spans += [(text, _STYLES[kind]), ("\n", ())]
            spans = spans[:-1]
        since = sum(reason == CHANGED for _, reason in reading.plan(record).left)
    terminal.answer_spans(spans)
    for doubt in doubts_of(record):
        terminal.warn(doubt)
    if record.undone_by:
        terminal.note(f"{name_of(record)} is undone; odek undo {record.undone_by} makes these changes again")
    elif since:
        terminal.note(f"{plural(since, 'path')} changed again since")
    if record.ignored:
        terminal.note("what git ignores is not looked at")


def stat_rows(diffs: Sequence[FileDiff]) -> Iterator[tuple[Span, ...]]:
    """Yield the rows of `--stat`: a path each, and their sum."""
    names = [quoted(diff.change.path) + ("/" if _is_folder(diff.change) else "") for diff in diffs]
    width = max(map(len, names), default=0)
    most = max((diff.added + diff.removed for diff in diffs), default=0)
    for name, diff in zip(names, diffs, strict=True):
        yield ((f" {name.ljust(width)} | ", ()), *_counts(diff, most), ("\n", ()))
    added, removed = sum(diff.added for diff in diffs), sum(diff.removed for diff in diffs)
    total = count([diff.change for diff in diffs])
    yield ((f" {total} changed, ", ()), (f"+{added}", ("green",)), (" ", ()), (f"−{removed}", ("red",)))


def _counts(diff: FileDiff, most: int) -> tuple[Span, ...]:
    if diff.unknown:
        return ((f"{diff.kind}; {diff.unknown}", ("dim",)),)
    if diff.binary:
        return ((f"{diff.kind}, binary", ("dim",)),)
    if not diff.added + diff.removed:
        return ((diff.kind, ("dim",)),)
    scale = min(1.0, _BAR / most)
    plus, minus = (max(round(number * scale), number > 0) for number in (diff.added, diff.removed))
    return ((f"{diff.added + diff.removed:>5} ", ()), ("+" * plus, ("green",)), ("-" * minus, ("red",)))


def _is_folder(change: Change) -> bool:
    state = change.after or change.before
    return state is not None and state.is_folder


def diff_json(reading: Reading, record: Record) -> dict[str, Any]:
    """Return what a turn changed as JSON values."""
    effort = Effort()
    diffs = [diff_of(change, reading.read, effort) for change in record.changes]
    return {**_record_json(record), "files": [_file_json(diff) for diff in diffs]}


def list_json(reading: Reading) -> dict[str, Any]:
    """Return all that is kept as JSON values, without the changes."""
    return {"turns": [_record_json(record) for record in reading.records()], "damaged": list(reading.damaged)}


def _record_json(record: Record) -> dict[str, Any]:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.at_s))
    return {
        "number": record.number, "at": at, "session": record.session, "turn": record.turn or None,
        "task": record.task, "undoes": record.undoes or None, "undone_by": record.undone_by or None,
        "shared": record.shared, "cut_off": record.cut_off, "count": len(record.changes),
    }  # fmt: skip


def _file_json(diff: FileDiff) -> dict[str, Any]:
    text = "\n".join(text for text, _ in render(diff))
    return {
        "path": diff.change.path, "change": diff.kind, "folder": _is_folder(diff.change), "binary": diff.binary,
        "added": diff.added, "removed": diff.removed, "not_shown": diff.unknown or None,
        "before": _state_json(diff.change.before), "after": _state_json(diff.change.after), "diff": text,
    }  # fmt: skip


def _state_json(state: State | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {"mode": f"{state.mode:o}", "size": state.size, "sha256": state.digest.hex() or None}


def list_rows(reading: Reading, *, now_s: float) -> Iterator[str]:
    """Yield a line for each turn and undo that is kept, the newest first."""
    for record in reading.records():
        state = f"undone by {record.undone_by}" if record.undone_by else "cut off" if record.cut_off else ""
        about = f"undo of {record.undoes}" if record.undoes else record.task
        line = f"{record.number:>4}  {_age(now_s - record.at_s):<14}  {count(record.changes):<10}  {visible(about)}"
        yield f"{line}  ({state})" if state else line


def _age(seconds: float) -> str:
    for limit, unit, size in _AGES:
        if seconds < limit:
            number = int(seconds // size)
            return f"{plural(number, unit)} ago" if number > 0 else "just now"
    return ""


def warn_of_damage(reading: Reading, terminal: Terminal) -> None:
    """Name what is kept and cannot be read."""
    for number in reading.damaged:
        terminal.warn(f"what turn {number} changed is damaged and cannot be shown or undone")


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo came to."""

    record: Record
    """whose changes were taken back"""
    made: Record | None
    """of the undo; None where nothing could be done"""
    left: tuple[tuple[str, str], ...]
    """paths that stay as they are, each with the reason"""


def undo_files(
    project: ProjectFiles, which: Which, *, partial: bool, partial_hint: str, ask: Callable[[Record, Plan], None],
    name: str = "",
) -> Undone:  # fmt: skip
    """Take back what a turn changed. `ask` is shown what would happen, and raises to stop it. Raises OdekError.

    `name` is what the turn is called in errors; its number unless given.
    """
    with project.reading() as reading:
        record = which.find(reading)
        plan = reading.plan(record)
        require_possible(name or name_of(record), plan, partial=partial, hint=partial_hint)
    ask(record, plan)
    with project.reading() as reading:
        again = reading.find(record.number)
        plan = reading.plan(again)
        require_possible(name or name_of(again), plan, partial=partial, hint=partial_hint)
        made, left = reading.undo(again, plan)
    return Undone(again, made, tuple(sorted((*plan.left, *left))))


def require_possible(name: str, plan: Plan, *, partial: bool, hint: str) -> None:
    """Raise unless `plan` takes back all of the turn `name`, or a part of it where that is enough."""
    if plan.left and not partial:
        paths = plan.left[:_SHOWN]
        more = [f"… and {len(plan.left) - len(paths)} more"] if len(plan.left) > len(paths) else []
        raise StateFileError(
            f"{name} is not undone: {plural(len(plan.left), 'path')} cannot be taken back",
            hint=hint,
            detail="\n".join([*(f"{visible(path)}: {reason}" for path, reason in paths), *more]),
        )
    if not plan.todo:
        raise NothingKept(f"there is nothing to undo: the files are as before {name}", hint="see odek diff")


def plan_rows(plan: Plan) -> Iterator[str]:
    """Yield what an undo would do, a path each."""
    for change in plan.todo[:_SHOWN]:
        if change.after is None:
            verb = "removes"
        elif change.before is None:
            verb = "brings back"
        else:
            verb = "sets the mode of" if kind_of(change) == "mode" else "restores"
        yield f"  {verb} {visible(change.path)}{'/' if _is_folder(change) else ''}"
    if len(plan.todo) > _SHOWN:
        yield f"  … and {len(plan.todo) - _SHOWN} more"
    for path, reason in plan.left[:_SHOWN]:
        yield f"  leaves {visible(path)}: {reason}"


def report_undone(undone: Undone, terminal: Terminal, *, name: str = "") -> int:
    """Say what was done, and how to make it again; return the exit code. `name` as for `undo_files`."""
    for path, reason in undone.left:
        terminal.warn(f"{visible(path)} stays as it is: {reason}")
    if undone.made is not None:
        what, again = count(undone.made.changes), f"odek undo {undone.made.number} makes the changes again"
        terminal.note(f"{name or name_of(undone.record)} is undone, {what}; {again}")
    return int(undone.made is None or any(reason != FULL_FOLDER for _, reason in undone.left))
