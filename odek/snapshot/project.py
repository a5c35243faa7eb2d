"""The files of one project through its turns: looked at before and after each, shown, and taken back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from odek import safefile
from odek.errors import StateFileError, UsageError
from odek.operator_home import OperatorHome, repositories_around
from odek.snapshot.diff import Effort, FileDiff, diff_of
from odek.snapshot.doors import Doors
from odek.snapshot.ignore import IgnoreRules, Pattern, parse_patterns
from odek.snapshot.restore import Plan, Restorer, make_plan, repair
from odek.snapshot.scan import PATTERNS, Limits, Scan, TooManyFiles, not_kept
from odek.snapshot.store import HeldStore, Record, SnapshotStore, lock_of, project_key, sweep_others
from odek.snapshot.tracked import Tracked, tracked_in
from odek.snapshot.tree import Change, Folder, State, Tree, compare
from odek.text import plural

_WAIT_S = 10.0
_MOST_SECONDS = 120.0
_PATTERN_BYTES = 256 << 10


class NothingKept(StateFileError):
    """No turn that changed files is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much is kept of a project."""

    limits: Limits
    max_turns: int
    max_bytes: int
    """of all projects together"""


@dataclass(slots=True)
class Turn:
    """One that is under way."""

    record: Record
    before: Tree
    is_first: bool
    """whether nothing was kept of the project so far"""
    stack: ExitStack = field(default_factory=ExitStack)
    """holds the lock that says that this process is alive"""


class ProjectFiles:
    """What is kept of the turns in one folder. Its methods raise StateFileError."""

    def __init__(
        self, where: OperatorHome, folder: str, bounds: Bounds, *, folder_id: tuple[int, int] | None = None,
        clock: Callable[[], float] = time.time, watch: Callable[[Scan], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """`folder` is absolute and without links; `folder_id` its device and inode, where they are known.

        `watch` is called while files are looked at, and may raise to end that.
        """
        self.folder = folder
        self.bounds = bounds
        self.store = SnapshotStore(where, project_key(folder))
        self._folder_id = folder_id
        self._clock = clock
        self._watch = watch

    def begin(self, *, session: str, turn: int, task: str) -> Turn:
        """Keep the files as they are now, before a turn."""
        with self._held() as (held, top, doors):
            live = self._recover(held, top, doors)
            if not live:  # turns of no change have kept contents as well
                held.sweep(max_turns=self.bounds.max_turns, max_bytes=self.bounds.max_bytes)
            cache = held.load_index()
            before = self._look(held, top, doors, cache=cache)
            number = held.next_number()
            opened = Record(number=number, session=session, turn=turn, task=task, at_s=self._clock(), is_open=True)
            opened = replace(opened, shared=bool(live))
            for record in live:
                held.write(replace(record, shared=True))
            stack = ExitStack()
            stack.enter_context(self.store.locked(lock_of(number), wait_s=0))
            try:
                held.write(opened)
                held.keep_base(number)
            except BaseException:
                stack.close()
                raise
            return Turn(opened, before, not cache, stack)

    def finish(self, turn: Turn) -> tuple[Record, tuple[FileDiff, ...]] | None:
        """Keep what the turn changed, and return it with the numbers of lines; None for nothing."""
        number = turn.record.number
        with turn.stack, self._held() as (held, top, doors):
            now = self._look(held, top, doors, known=turn.before, cache=turn.before)
            changes = compare(turn.before, now)
            if not changes:
                held.drop(number)
                return None
            opened = held.record(number) or turn.record  # which another turn may have marked
            ignored = sum(folder.ignored for folder in now.values())
            record = replace(opened, is_open=False, changes=changes, ignored=ignored)
            held.write(record)
            effort = Effort(500_000, 20 << 20)
            diffs = tuple(diff_of(each, partial(_content, held), effort, with_hunks=False) for each in changes)
            held.sweep(max_turns=self.bounds.max_turns, max_bytes=self.bounds.max_bytes)
            sweep_others(self.store, max_bytes=self.bounds.max_bytes)
            return record, diffs

    def discard(self, turn: Turn) -> None:
        """Forget a turn that wrote nothing."""
        with turn.stack, self.store.held(wait_s=_WAIT_S) as held:
            held.drop(turn.record.number)

    def not_kept(self, tree: Tree) -> tuple[tuple[str, str], ...]:
        """Return the paths of `tree` that cannot be brought back, each with the reason."""
        return not_kept(tree, self.bounds.limits)

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """Give what is kept, with the turns of killed processes closed."""
        if not self.store.exists():
            raise self._nothing()
        with self._held() as (held, top, doors):
            yield Reading(self, held, top, doors, self._recover(held, top, doors))

    def _nothing(self) -> NothingKept:
        return NothingKept(
            "no turn that changed files is kept for this folder",
            hint="turns are kept by the folder in which odek was started",
        )

    @contextmanager
    def _held(self) -> Iterator[tuple[HeldStore, int, Doors]]:
        with self.store.held(wait_s=_WAIT_S) as held:
            doors = Doors()
            top = doors.open_top(self.folder, require=self._require)
            try:
                yield held, top, doors
            finally:
                doors.close()
                os.close(top)

    def _tracked(self) -> Tracked:
        around = repositories_around(self.folder)
        return tracked_in(self.folder, around[0]) if around else Tracked()

    def _require(self, status: os.stat_result) -> None:
        if self._folder_id not in (None, (status.st_dev, status.st_ino)):
            raise StateFileError("the working directory was exchanged", hint="start odek again in it")

    def _look(
        self, held: HeldStore, top: int, doors: Doors, *, cache: Tree, known: Tree | None = None
    ) -> dict[str, Folder]:
        """Look at the project, and keep what is new in it."""
        deadline = time.monotonic() + _MOST_SECONDS

        def watch(scan: Scan) -> None:
            if time.monotonic() > deadline:
                raise StateFileError(f"looking at the project took over {_MOST_SECONDS:.0f} seconds", hint=_OFF)
            self._watch(scan)

        scan = Scan(held.put, self.bounds.limits, time.time_ns(), watch, doors, self._tracked())
        try:
            tree = scan.run(top, cache=cache, rules=rules_around(self.folder), known=known)
        except TooManyFiles as error:
            most = plural(self.bounds.limits.files, "file")
            raise StateFileError(f"the project has more than {most} that git does not ignore", hint=_OFF) from error
        if tree != cache:
            held.save_index(tree)
        return tree

    def _recover(self, held: HeldStore, top: int, doors: Doors) -> list[Record]:
        """Close the turns and undos of processes that were killed; return those of processes that live."""
        live = []
        for number in held.numbers():
            record = held.record(number)
            if record is None or not record.is_open:
                continue
            if self.store.holder(lock_of(number)) is not None:
                live.append(record)
            elif record.undoes:
                self._recover_undo(held, top, doors, record)
            elif base := held.load_base(number):
                now = self._look(held, top, doors, known=base, cache=base)
                changes = compare(base, now)
                held.write(replace(record, is_open=False, cut_off=True, changes=changes))
            else:
                held.drop(number)
        return live

    def _recover_undo(self, held: HeldStore, top: int, doors: Doors, record: Record) -> None:
        file_bytes = self.bounds.limits.file_bytes
        repair(top, record.changes, str(record.number), file_bytes=file_bytes, doors=doors)
        missing = make_plan(top, record.changes, file_bytes=file_bytes, doors=doors)
        undone = {change.path for change in missing.todo} | {path for path, _ in missing.left}
        done = tuple(change for change in record.changes if change.path not in undone)
        _close_undo(held, replace(record, cut_off=True), done)


_OFF = "snapshots.enabled=false in ~/.odek/config.json switches this off"


def _close_undo(held: HeldStore, record: Record, done: tuple[Change, ...]) -> None:
    """Keep what an undo did, and note it with the record whose changes it took back."""
    if not done:
        held.drop(record.number)
        return
    held.write(replace(record, is_open=False, changes=done))
    undone = held.record(record.undoes)
    if undone is not None:
        held.write(replace(undone, undone_by=record.number))
        if undone.undoes and (again := held.record(undone.undoes)) is not None:
            held.write(replace(again, undone_by=0))


def _content(held: HeldStore, state: State) -> bytes:
    return held.get(state.digest, state.size)


@dataclass(slots=True)
class Reading:
    """What is kept, while nothing can change it."""

    project: ProjectFiles
    held: HeldStore
    top: int
    doors: Doors
    live: list[Record]
    """of turns that are under way"""

    def read(self, state: State) -> bytes:
        """Return the content of `state`. Raises Damaged."""
        return _content(self.held, state)

    @property
    def damaged(self) -> tuple[int, ...]:
        """the numbers of records that cannot be read"""
        return tuple(number for number in self.held.numbers() if self.held.record(number) is None)

    def records(self) -> Iterator[Record]:
        """Yield the records, the newest first."""
        return (record for record in self.held.records() if not record.is_open)

    def find(self, number: int | None, *, session: str = "", turn: int = 0, undone_too: bool = False) -> Record:
        """Return the record `number`; None: the last turn that was not undone, of `turn` of `session` if given.

        With `undone_too`, one that was undone where there is no other. Raises UsageError and NothingKept.
        """
        if number is not None:
            record = self.held.record(number)
            if record is None or record.is_open:
                raise UsageError(f"there is no turn {number}", hint="`odek diff --list` shows those that are kept")
            return record
        turns = [
            record
            for record in self.records()
            if not record.undoes and (not session or (record.session, record.turn) == (session, turn))
        ]
        standing = [record for record in turns if not record.undone_by] or (turns if undone_too else [])
        if standing:
            return standing[0]
        if turns and not session:
            raise NothingKept("every turn that is kept is undone", hint="`odek diff --list` shows them")
        if session:
            raise NothingKept(
                f"no change of a file is kept of turn {turn} of this session",
                hint="`odek diff --list` shows what is kept of this folder",
            )
        raise self.project._nothing()

    def plan(self, record: Record) -> Plan:
        """Return what an undo of `record` would do now."""
        wanted = [change.reversed for change in record.changes]
        return make_plan(self.top, wanted, file_bytes=self.project.bounds.limits.file_bytes, doors=self.doors)

    def undo(self, record: Record, plan: Plan) -> tuple[Record | None, list[tuple[str, str]]]:
        """Carry `plan` out; return the record of what was done, which can be undone too, and what was left.

        Raises StateFileError while another odek is at work in the folder.
        """
        if self.live:
            raise StateFileError(
                "odek is at work in this folder, or in another terminal", hint="wait for its turn to end"
            )
        number = self.held.next_number()
        made = Record(
            number=number, session=record.session, turn=0, task=record.task, at_s=self.project._clock(),
            is_open=True, undoes=record.number, changes=tuple(plan.todo),
        )  # fmt: skip
        with self.project.store.locked(lock_of(number), wait_s=0):
            self.held.write(made)
            file_bytes = self.project.bounds.limits.file_bytes
            restorer = Restorer(self.top, self.read, file_bytes, str(number), self.doors)
            restorer.run(plan.todo)
            done = tuple(sorted(restorer.done, key=lambda change: change.path))
            _close_undo(self.held, made, done)
        return (self.held.record(number) if done else None), restorer.left


def rules_around(folder: str) -> IgnoreRules:
    """Return the rules of the checkout that holds `folder`: those of folders above it, and .git/info/exclude."""
    tops = repositories_around(folder)
    if not tops:
        return IgnoreRules()
    top = tops[0]
    rules = IgnoreRules(_patterns(os.path.join(top, ".git", "info", "exclude")))
    inner = os.path.relpath(folder, top)
    parts = [] if inner == "." else inner.split("/")
    for place, part in enumerate(parts):
        own = _patterns(os.path.join(top, *parts[:place], PATTERNS))
        rules = IgnoreRules(own, rules).enter(os.fsencode(part))
    return rules


def _patterns(path: str) -> tuple[Pattern, ...]:
    try:
        return parse_patterns(safefile.read_regular(path, limit_bytes=_PATTERN_BYTES))
    except OSError:
        return ()
