"""Where the model's commands and file accesses happen: one protocol, two places.

`Container` (sandbox/container/) and `HostExecutor` (host_executor/commands.py) both satisfy it; tools know
nothing else about where they run. Names of files are as the file system has them: bytes that are not UTF-8
are lone surrogates (`surrogateescape`), and a name may hold line ends; they are shown through text.visible.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

from odek.errors import FileAccessDenied
from odek.process import Output


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """A shell command that is to be run."""

    command: str
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What came of one shell command of the model, wherever it ran."""

    output: Output
    """stdout and stderr in the order they were written; stdout alone where `stderr` is not None"""
    code: int | None
    """exit status; None when the command was stopped before it had one"""
    timed_out: bool
    duration_s: float
    notes: tuple[str, ...] = ()
    """what else the model must know: what was stopped, what goes on, what could not be done"""
    stderr: Output | None = None
    """None when it is part of `output`"""


WATCH_FIRST_S = 0.5
WATCH_EVERY_S = 0.25
_WATCHED_BYTES = 4096


class OutputWatch:
    """Shows the latest output of a command while it runs, at most four times a second (R-129)."""

    def __init__(
        self,
        show: Callable[[str, int], None],
        *,
        show_call: Callable[[str, str, int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`show` gets the end of what was printed and the size of all of it in bytes; it is called in this thread.

        `show_call` gets the same of calls that run at the same time, after the id of each, in their threads.
        """
        self._show = show
        self._show_call = show_call
        self._clock = clock
        self._next: float | None = None
        self._size = 0

    def of_call(self, call_id: str) -> OutputWatch | None:
        """Return what watches the commands of one of several calls; None: that is not wanted."""
        return OutputWatch(partial(self._show_call, call_id), clock=self._clock) if self._show_call else None

    def begin(self) -> None:
        """Note that a command has begun."""
        self._next, self._size = self._clock() + WATCH_FIRST_S, 0

    def look(self, read: Callable[[], Output]) -> None:
        """Show what `read` returns, if that is due and there is more than the last time."""
        now = self._clock()
        if self._next is None or now < self._next:
            return
        self._next = now + WATCH_EVERY_S
        output = read()
        if output.size_bytes != self._size:
            self._size = output.size_bytes
            self._show(output.data[-_WATCHED_BYTES:].decode("utf-8", "replace"), output.size_bytes)


_watch: ContextVar[OutputWatch | None] = ContextVar("output_watch", default=None)


def current_watch() -> OutputWatch | None:
    """Return what watches the commands of this thread."""
    return _watch.get()


@contextmanager
def use_watch(watch: OutputWatch | None) -> Iterator[None]:
    """Let `watch` see the commands that this thread runs in the block."""
    before = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(before)


Kind = Literal["file", "folder", "link", "other"]

MAX_DEPTH = 64  # each level costs the walk on the host an open descriptor; 256 is the least a process may have


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """How deep and how far folders are scanned."""

    depth: int = MAX_DEPTH
    """levels below the first folder; 0: only that itself"""
    count: int = 20_000
    """entries to collect at most"""
    timeout_s: float = 20.0
    skip: frozenset[str] = frozenset()
    """names of folders that are listed but not entered"""
    hidden: bool = True
    """whether folders are entered whose names begin with a dot"""

    def passes_over(self, name: str) -> bool:
        """Return whether a folder of that name is not entered."""
        return name in self.skip or (not self.hidden and name.startswith("."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing in a folder, links not followed."""

    path: str
    """relative to the workspace; "" is the workspace itself"""
    kind: Kind
    mode: int
    """permission bits, as chmod takes them"""
    size_bytes: int
    mtime_s: int
    """seconds since the epoch"""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirScan:
    """The result of a scan."""

    top: Entry
    """what was asked for; a link to it has been followed"""
    entries: tuple[Entry, ...] = ()
    """what lies below, sorted by path"""
    complete: bool = True
    """False: a limit ended the walk, and there is more"""
    problems: tuple[str, ...] = ()
    """folders that could not be read, in words fit to be shown"""


def kind_of(mode: int) -> Kind:
    """Return what `mode` (st_mode, all of it) says that a thing is."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def sorted_entries(entries: list[Entry]) -> tuple[Entry, ...]:
    """Return `entries` as a person reads a tree: each folder right before what it holds."""
    return tuple(sorted(entries, key=lambda entry: entry.path.split("/")))


Guard = Callable[[str], None]
"""gets a path relative to the workspace; raises FileAccessDenied when that must not be written"""


class Executor(Protocol):
    """Runs commands and reads and writes files of one workspace."""

    workspace: str
    """the workspace as commands see it: "/workspace" in the sandbox, the working directory on the host"""

    def expect(self, count: int) -> None:
        """Get ready for so many commands and file accesses, in place of what was expected before."""
        ...

    def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """Run a shell command to its end or its limit; on a cancel of this thread's token, stop it and re-raise."""
        ...

    def run_many(self, requests: Sequence[CommandRequest]) -> tuple[CommandResult, ...]:
        """Run shell commands at the same time, each as `run` does, with stdout and stderr separate."""
        ...

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        """Return the bytes of a regular file inside the workspace.

        Raises FileAccessDenied when it is missing, not a regular file, larger than `limit_bytes`, or
        leaves the workspace by `..` or a link.
        """
        ...

    def read_many(
        self, paths: Sequence[str], *, limit_bytes: int, total_bytes: int
    ) -> tuple[bytes | FileAccessDenied, ...]:
        """Return for each of `paths` what `read` would return or raise.

        Together they may have at most `total_bytes`; what would exceed them is refused.
        """
        ...

    def write(self, path: str, data: bytes, *, replacing: bytes | None, guard: Guard | None = None) -> None:
        """Put `data` at `path`, atomically, keeping the mode of an existing file.

        Missing parent folders are made. With `replacing`, the file must still hold exactly those
        bytes. `guard` is asked about `path`, and about the place itself where links lead elsewhere,
        before anything is written there. Raises FileAccessDenied as `read` does, or when the place
        cannot be written.
        """
        ...

    def stat(self, path: str) -> Entry:
        """Return what is at `path`; a link there is not followed. Raises FileAccessDenied."""
        ...

    def walk(self, path: str, how: ScanOptions) -> DirScan:
        """Return what lies below the folder `path`, or the file `path` alone; "" is the workspace.

        A link at `path` is followed inside the workspace, links below it are listed and never
        followed. Raises FileAccessDenied when there is nothing or it leaves the workspace.
        """
        ...
