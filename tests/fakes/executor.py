"""An executor without a machine: files in a dictionary, commands with scripted results."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from odek.errors import FileAccessDenied
from odek.executor import CommandRequest, CommandResult, DirScan, Entry, Kind, ScanOptions, sorted_entries
from odek.process import Output


def command_result(
    output: bytes = b"",
    *,
    code: int | None = 0,
    timed_out: bool = False,
    notes: tuple[str, ...] = (),
    stderr: bytes | None = None,
) -> CommandResult:
    """Return the result of a command that printed `output` and nothing was cut."""
    return CommandResult(
        output=whole(output),
        code=code,
        timed_out=timed_out,
        duration_s=0.0,
        notes=notes,
        stderr=None if stderr is None else whole(stderr),
    )


def whole(data: bytes) -> Output:
    """Return a stream of which nothing was left out."""
    return Output(head=data, tail=b"", size_bytes=len(data))


class FakeExecutor:
    """Implements Executor; a command or a file that was not announced fails the test."""

    def __init__(
        self,
        *,
        files: Mapping[str, bytes] | None = None,
        commands: Mapping[str, CommandResult] | None = None,
        entries: Mapping[str, Entry] | None = None,
        links: Mapping[str, str] | None = None,
        count: int | None = None,
    ) -> None:
        """`files` by path relative to the workspace; `commands` by exact text, each usable once.

        `entries` replaces what `stat` and `walk` say of a path, or adds to it. `links` leads from a
        path to the one that is written in its place. `count`: no walk finds more entries.
        """
        self._entries = dict(entries or {})
        self._links = dict(links or {})
        self._count = count
        self.expected: list[int] = []
        """what it was to get ready for, in order"""
        self.reads: list[tuple[str, ...]] = []
        """paths of each `read_many`"""
        self.guarded: list[str] = []
        """places that a guard was asked about"""
        self.workspace = "/workspace"
        self.files = dict(files or {})
        self.runs: list[tuple[str, float]] = []
        """commands with their `timeout_s`, in order"""
        self._commands = dict(commands or {})

    def expect(self, count: int) -> None:
        self.expected.append(count)

    def run(self, command: str, *, timeout_s: float) -> CommandResult:
        assert command in self._commands, f"unscripted command: {command!r}"
        self.runs.append((command, timeout_s))
        return self._commands.pop(command)

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        key = self._key(path)
        if key not in self.files:
            raise FileAccessDenied(f'"{path}" does not exist')
        data = self.files[key]
        if len(data) > limit_bytes:
            raise FileAccessDenied(f'"{path}" is larger than {limit_bytes} bytes')
        return data

    def run_many(self, requests: Sequence[CommandRequest]) -> tuple[CommandResult, ...]:
        return tuple(self.run(request.command, timeout_s=request.timeout_s) for request in requests)

    def read_many(
        self, paths: Sequence[str], *, limit_bytes: int, total_bytes: int
    ) -> tuple[bytes | FileAccessDenied, ...]:
        self.reads.append(tuple(paths))
        found: list[bytes | FileAccessDenied] = []
        for path in paths:
            try:
                data = self.read(path, limit_bytes=limit_bytes)
            except FileAccessDenied as refusal:
                found.append(refusal)
                continue
            total_bytes -= len(data)
            found.append(data if total_bytes >= 0 else FileAccessDenied(f'"{path}" was not read: too much at once'))
        return tuple(found)

    def write(
        self, path: str, data: bytes, *, replacing: bytes | None, guard: Callable[[str], None] | None = None
    ) -> None:
        key = self._key(path)
        for place in (key, *((self._links[key],) if key in self._links else ())):
            if guard is not None:
                self.guarded.append(place)
                guard(place)
            key = place
        if replacing is not None and self.files.get(key) != replacing:
            raise FileAccessDenied(f'"{path}" was changed by another process meanwhile; read it again')
        self.files[key] = data

    def stat(self, path: str) -> Entry:
        key = self._key(path) if path else ""
        known = self._all_entries()
        if key not in known:
            raise FileAccessDenied(f'"{path}" does not exist')
        return known[key]

    def walk(self, path: str, how: ScanOptions) -> DirScan:
        top = self.stat(path)
        prefix = f"{top.path}/" if top.path else ""
        below = [
            entry
            for entry in self._all_entries().values()
            if entry.path != top.path and entry.path.startswith(prefix) and _is_reached(entry.path[len(prefix) :], how)
        ]
        shown = sorted_entries(below)[: self._count]
        return DirScan(top=top, entries=shown, complete=len(shown) == len(below))

    def _all_entries(self) -> dict[str, Entry]:
        known = {"": entry("", "folder")}
        for path, data in self.files.items():
            known[path] = entry(path, "file", size_bytes=len(data))
            while path := path.rpartition("/")[0]:
                known[path] = entry(path, "folder")
        return {**known, **{path: replace(item, path=path) for path, item in self._entries.items()}}

    def assert_all_used(self) -> None:
        assert not self._commands, f"commands that were never run: {sorted(self._commands)}"

    def _key(self, path: str) -> str:
        whole = posixpath.normpath(posixpath.join(self.workspace, path))
        if f"{whole}/" != f"{self.workspace}/" and not whole.startswith(self.workspace + "/"):
            raise FileAccessDenied(f'"{path}" leaves the workspace')
        return whole[len(self.workspace) + 1 :]


def entry(path: str, kind: Kind, *, size_bytes: int = 0, mtime_s: int = 0, mode: int = 0o644) -> Entry:
    """Return what a walk says of a path."""
    return Entry(path=path, kind=kind, mode=mode, size_bytes=size_bytes, mtime_s=mtime_s)


def _is_reached(path: str, how: ScanOptions) -> bool:
    folders = path.split("/")[:-1]
    return len(folders) < how.depth and not any(map(how.passes_over, folders))
