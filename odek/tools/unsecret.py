"""An executor as the tools that show something get it: what it hands out holds no secret (E6, F-50).

Tools cut: an output to its two ends, a file to some lines, a line to some characters. What is redacted
before them cannot be cut in two by them; the toolbox redacts their results once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from odek.errors import FileAccessDenied
from odek.executor import CommandRequest, CommandResult, DirScan, Entry, Executor, Guard, ScanOptions
from odek.process import Output
from odek.redact import Redactor


class UnsecretExecutor:
    """Another executor, seen through a Redactor. Lines keep their numbers; writing is as it was."""

    def __init__(
        self, executor: Executor, redact: Redactor, found: Callable[[str, str], None] = lambda _holder, _path: None
    ) -> None:
        """`found` is called, in any thread, with the holder of a known secret masked in a file, and its path."""
        self._executor = executor
        self._redact = redact
        self._found = found
        self.workspace = executor.workspace

    def expect(self, count: int) -> None:
        """See Executor."""
        self._executor.expect(count)

    def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """See Executor."""
        return self._result(self._executor.run(command, timeout_s=timeout_s))

    def run_many(self, requests: Sequence[CommandRequest]) -> tuple[CommandResult, ...]:
        """See Executor."""
        return tuple(map(self._result, self._executor.run_many(requests)))

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        """See Executor; what is returned must not be written back."""
        return self._clean(path, self._executor.read(path, limit_bytes=limit_bytes))

    def read_many(
        self, paths: Sequence[str], *, limit_bytes: int, total_bytes: int
    ) -> tuple[bytes | FileAccessDenied, ...]:
        """See Executor."""
        contents = self._executor.read_many(paths, limit_bytes=limit_bytes, total_bytes=total_bytes)
        return tuple(
            each if isinstance(each, FileAccessDenied) else self._clean(path, each)
            for path, each in zip(paths, contents, strict=True)
        )

    def write(self, path: str, data: bytes, *, replacing: bytes | None, guard: Guard | None = None) -> None:
        """See Executor."""
        self._executor.write(path, data, replacing=replacing, guard=guard)

    def stat(self, path: str) -> Entry:
        """See Executor."""
        return self._executor.stat(path)

    def walk(self, path: str, how: ScanOptions) -> DirScan:
        """See Executor."""
        return self._executor.walk(path, how)

    def _result(self, result: CommandResult) -> CommandResult:
        return replace(
            result,
            output=redact_output(result.output, self._redact),
            stderr=None if result.stderr is None else redact_output(result.stderr, self._redact),
        )

    def _clean(self, path: str, data: bytes) -> bytes:
        if b"\0" in data:  # a binary file is not shown
            return data
        clean = _clean(data, self._redact)
        if clean != data and (holder := self._redact.holder_of_secret_in(_decode(data))):
            self._found(holder, path)
        return clean


def redact_output(output: Output, redact: Redactor) -> Output:
    """Return `output` without secrets; its size is without them as well.

    Where bytes are missing between its ends, a secret may be there in part. So many characters as any can
    have are left out on both sides of the gap, after the redaction: before it, they tell what else is one.
    """
    if output.omitted_bytes == 0:
        data = _clean(output.data, redact)
        return Output(head=data, tail=b"", size_bytes=len(data))
    head = redact.in_lines(_decode(output.head))
    tail = redact.in_lines(_decode(output.tail))
    shorter = len(output.data) - len(_encode(head)) - len(_encode(tail))
    kept = _encode(head[: max(len(head) - redact.reach, 0)]), _encode(tail[redact.reach :])
    return Output(head=kept[0], tail=kept[1], size_bytes=output.size_bytes - shorter)


def _clean(data: bytes, redact: Redactor) -> bytes:
    return _encode(redact.in_lines(_decode(data)))


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
