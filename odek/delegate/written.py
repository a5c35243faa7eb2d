"""An executor that notes which files were written through it (R-224, R-227)."""

from __future__ import annotations

from collections.abc import Sequence

from odek.errors import FileAccessDenied
from odek.executor import CommandRequest, CommandResult, DirScan, Entry, Executor, Guard, ScanOptions


class RecordingExecutor:
    """Another executor; what its file tools wrote is in `written`, relative to the workspace, links followed."""

    def __init__(self, executor: Executor, written: set[str]) -> None:
        self._executor = executor
        self._written = written
        self.workspace = executor.workspace

    def expect(self, count: int) -> None:
        """See Executor."""
        self._executor.expect(count)

    def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """See Executor."""
        return self._executor.run(command, timeout_s=timeout_s)

    def run_many(self, requests: Sequence[CommandRequest]) -> tuple[CommandResult, ...]:
        """See Executor."""
        return self._executor.run_many(requests)

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        """See Executor."""
        return self._executor.read(path, limit_bytes=limit_bytes)

    def read_many(
        self, paths: Sequence[str], *, limit_bytes: int, total_bytes: int
    ) -> tuple[bytes | FileAccessDenied, ...]:
        """See Executor."""
        return self._executor.read_many(paths, limit_bytes=limit_bytes, total_bytes=total_bytes)

    def write(self, path: str, data: bytes, *, replacing: bytes | None, guard: Guard | None = None) -> None:
        """See Executor."""
        place = path

        def note(found: str) -> None:
            nonlocal place
            place = found
            if guard is not None:
                guard(found)

        self._executor.write(path, data, replacing=replacing, guard=note)
        self._written.add(place)

    def stat(self, path: str) -> Entry:
        """See Executor."""
        return self._executor.stat(path)

    def walk(self, path: str, how: ScanOptions) -> DirScan:
        """See Executor."""
        return self._executor.walk(path, how)
