"""An executor without a machine: files in a dictionary, commands with scripted results."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from odek.errors import FileRefused
from odek.process import CommandResult, Output


def command_result(
    output: bytes = b"", *, code: int | None = 0, timed_out: bool = False, notes: tuple[str, ...] = ()
) -> CommandResult:
    """Return the result of a command that printed `output` and nothing was cut."""
    whole = Output(head=output, tail=b"", size_bytes=len(output))
    return CommandResult(output=whole, code=code, timed_out=timed_out, duration_s=0.0, notes=notes)


class FakeExecutor:
    """Implements Executor; a command or a file that was not announced fails the test."""

    def __init__(
        self, *, files: Mapping[str, bytes] | None = None, commands: Mapping[str, CommandResult] | None = None
    ) -> None:
        """`files` by path relative to the workspace; `commands` by exact text, each usable once."""
        self.workspace = "/workspace"
        self.files = dict(files or {})
        self.runs: list[tuple[str, float]] = []
        """commands with their `timeout_s`, in order"""
        self._commands = dict(commands or {})

    def run(self, command: str, *, timeout_s: float) -> CommandResult:
        assert command in self._commands, f"unscripted command: {command!r}"
        self.runs.append((command, timeout_s))
        return self._commands.pop(command)

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        key = self._key(path)
        if key not in self.files:
            raise FileRefused(f'"{path}" does not exist')
        data = self.files[key]
        if len(data) > limit_bytes:
            raise FileRefused(f'"{path}" is larger than {limit_bytes} bytes')
        return data

    def write(self, path: str, data: bytes, *, replacing: bytes | None) -> None:
        key = self._key(path)
        if replacing is not None and self.files.get(key) != replacing:
            raise FileRefused(f'"{path}" was changed by somebody else meanwhile; read it again')
        self.files[key] = data

    def assert_all_used(self) -> None:
        assert not self._commands, f"commands that were never run: {sorted(self._commands)}"

    def _key(self, path: str) -> str:
        whole = posixpath.normpath(posixpath.join(self.workspace, path))
        if not whole.startswith(self.workspace + "/"):
            raise FileRefused(f'"{path}" leaves the workspace')
        return whole[len(self.workspace) + 1 :]
