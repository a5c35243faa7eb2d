"""The files of a conversation's turns: looked at while the model thinks, and again when a turn is over (R-272).

The first look at a project copies it, so it waits for a call that may write; later ones cost little and begin with the
turn. No call that may write runs before a look is over. Nothing here ends a turn: what cannot be kept is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING

from odek.app.workspace import Workspace
from odek.cancel import POLL_S, CancelToken, current_token, use_token
from odek.errors import OdekError, StateFileError
from odek.events import (
    ChangedFile,
    Event,
    FilesChanged,
    Notice,
    Progress,
    RequestStarted,
    Sink,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WarningIssued,
)
from odek.text import truncate, visible

if TYPE_CHECKING:
    from odek.config.settings import Settings
    from odek.host import Host
    from odek.snapshot.diff import FileDiff
    from odek.snapshot.project import ProjectFiles, Turn
    from odek.snapshot.scan import Scan
    from odek.snapshot.store import Record

READING_TOOLS = frozenset(
    ("read_file", "batch_read", "search_files", "glob", "file_info", "tree", "diff", "config_view")
)
"""those that cannot change a file; every other one may"""
_BEGINS_AFTER_S = 0.05
"""until the request is on its way"""
_SHOWN_AFTER_S = 1.0
_TASK_LENGTH = 60
_NAMED = 3


def project_files(host: Host, settings: Settings, watch: Callable[[Scan], None] = lambda _: None) -> ProjectFiles:
    """Return what is kept of the folder that odek was started in. Raises StateFileError."""
    from odek.snapshot.project import Bounds, ProjectFiles  # not before the first request has been sent
    from odek.snapshot.scan import Limits

    asked = settings.snapshots
    total = asked.max_total_mb << 20
    limits = Limits(file_bytes=asked.max_file_mb << 20, total_bytes=total // 2)
    bounds = Bounds(limits=limits, max_turns=asked.max_turns, max_bytes=total)
    return ProjectFiles(host.operator_home, host.cwd, bounds, folder_id=host.cwd_id, watch=watch)


class _Stopped(Exception):
    """The turn is over, and needed no look."""


class TurnFiles:
    """Those of one turn; all but the look itself happens in its thread."""

    def __init__(self, workspace: Workspace, *, session: str, turn: int, task: str, told: set[str]) -> None:
        """`task` is what the turn is about; `told` holds the failures that were shown before, and is added to."""
        self._workspace = workspace
        self._session, self._number = session, turn
        self._task = truncate(" ".join(workspace.redact(task).split()), _TASK_LENGTH)
        self._emit = workspace.runtime.emit
        self._told = told
        self._thread: Thread | None = None
        self._go, self._wanted, self._stop, self._done = Flag(), Flag(), Flag(), Flag()
        self._scan: Scan | None = None
        self._project: ProjectFiles | None = None
        self._turn: Turn | None = None
        self._failure: OdekError | OSError | None = None
        self._may_have_written = False

    def watch(self, event: Event) -> None:
        """Look at the files when it is time; returns when they are looked at, if `event` is a call that may write."""
        if isinstance(event, (RequestStarted, ToolStarted)) and self._thread is None:
            self._thread = Thread(target=self._look, name="odek-files", daemon=True)
            self._thread.start()
        may_write = isinstance(event, ToolStarted) and event.call.name not in READING_TOOLS
        if may_write and not self._may_have_written:
            self._may_have_written = True
            self._wanted.set()
            self._wait()

    def end(self) -> FilesChanged | None:
        """The turn is over: return what it changed, None for nothing. Says what cannot be kept."""
        for flag in (self._stop, self._go, self._wanted):
            flag.set()
        if self._thread is not None:
            self._thread.join()
        if self._turn is None or self._project is None:
            return None
        self._stop.clear()
        try:
            # however the turn ended
            with use_token(CancelToken()), self._workspace.runtime.waiting("looking at what changed"):
                if not self._may_have_written:
                    self._project.discard(self._turn)
                    return None
                found = self._project.finish(self._turn)
                return _event(*found) if found else None
        except (StateFileError, OSError) as error:
            self._say(error)
            return None

    def _look(self) -> None:
        self._go.wait(_BEGINS_AFTER_S)
        try:
            workspace = self._workspace
            self._watch_scan(None)
            project = project_files(workspace.runtime.host, workspace.config.settings, self._watch_scan)
            if not project.store.exists():
                self._wanted.wait()
            self._watch_scan(None)
            self._turn = project.begin(session=self._session, turn=self._number, task=self._task)
            self._project = project
        except _Stopped:
            pass
        except (StateFileError, OSError) as error:
            self._failure = error
        finally:
            self._done.set()

    def _watch_scan(self, scan: Scan | None) -> None:
        self._scan = scan
        if self._stop.is_set():
            raise _Stopped

    def _wait(self) -> None:
        """Wait for the look, showing how far it is; then say what is not kept. Raises what cancels this thread."""
        self._go.set()
        began, shown_s = time.monotonic(), _SHOWN_AFTER_S
        while not self._done.wait(POLL_S):
            current_token().raise_if_cancelled()
            if time.monotonic() - began >= shown_s and self._scan is not None:
                shown_s *= 2
                size = f"{self._scan.read_bytes >> 20} MB"
                self._emit(Progress(f"keeping the project's files for odek undo: {self._scan.files} files, {size}"))
        if self._failure is not None:
            self._say(self._failure)
        elif self._turn is not None and self._project is not None and self._turn.is_first:
            self._name_not_kept(self._project.not_kept(self._turn.before))

    def _say(self, error: OdekError | OSError) -> None:
        reason, hint = (error.message, error.hint) if isinstance(error, OdekError) else (error.strerror or "", "")
        if reason not in self._told:
            self._told.add(reason)
            self._emit(WarningIssued(f"this turn cannot be undone: {reason}", hint=hint))

    def _name_not_kept(self, left: tuple[tuple[str, str], ...]) -> None:
        if left:
            named = ", ".join(f"{visible(path)} ({reason})" for path, reason in left[:_NAMED])
            more = f", and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
            self._emit(Notice(f"not kept for odek undo: {named}{more}"))


def _event(record: Record, diffs: tuple[FileDiff, ...]) -> FilesChanged:
    files = []
    for diff in diffs:
        state = diff.change.after or diff.change.before
        is_counted = not (diff.binary or diff.unknown)
        files.append(
            ChangedFile(
                path=diff.change.path, change=diff.kind, is_folder=state is not None and state.is_folder,
                added=diff.added if is_counted else None, removed=diff.removed if is_counted else None,
            )
        )  # fmt: skip
    return FilesChanged(number=record.number, files=tuple(files), shared=record.shared)


class KeptTurns:
    """A sink that passes the events of a conversation on, and keeps what its turns change."""

    def __init__(
        self, sink: Sink, workspace: Callable[[], Workspace], session: Callable[[], str | None], unsaved: str
    ) -> None:
        """`workspace` is asked once a turn is under way. `unsaved` is the key of a conversation that is not kept."""
        self._sink = sink
        self._workspace = workspace
        self._session = session
        self._unsaved = unsaved
        self._told: set[str] = set()
        self._started: TurnStarted | None = None
        """the turn that is under way, until its files are to be looked at"""
        self._files: TurnFiles | None = None

    @property
    def key(self) -> str:
        """what the turns are kept under"""
        return self._session() or self._unsaved

    def __call__(self, event: Event) -> None:
        """Take an event. Raises what cancels this thread while a call waits for its look."""
        match event:
            case TurnStarted():
                self._started, self._files = event, None
            case RequestStarted() | ToolStarted() if self._started is not None:
                self._files = self._begin(self._started)
                self._started = None
            case TurnEnded():
                files, self._files = self._files, None
                changed = files.end() if files is not None else None
                if changed is not None:
                    self._sink(changed)
        self._sink(event)
        if self._files is not None:
            self._files.watch(event)

    def _begin(self, started: TurnStarted) -> TurnFiles | None:
        """Return what keeps the files of a turn; None where that is switched off, or nothing can write."""
        workspace = self._workspace()
        is_readonly = workspace.facts is not None and workspace.facts.readonly
        writes = any(tool.name not in READING_TOOLS for tool in workspace.tools.specs)
        if is_readonly or not writes or not workspace.config.settings.snapshots.enabled:
            return None
        return TurnFiles(workspace, session=self.key, turn=started.turn, task=started.text, told=self._told)
