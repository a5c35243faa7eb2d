"""What the tools of a session work with: the executor, the gate before it, and how a path or bytes are taken."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from odek.approval.operation import NO_GRANT, Basis, Grant, Operation
from odek.errors import FileAccessDenied
from odek.executor import CommandRequest, CommandResult, Executor
from odek.model.images import describe, image_type
from odek.safefile import is_inside
from odek.text import visible
from odek.tools.arguments import string

FILE_LIMIT_BYTES = 10 << 20
TOTAL_LIMIT_BYTES = 32 << 20
"""of the files that one call reads"""
PATH_KEYS = ("path", "path_a", "path_b")
"""arguments that name a file or a folder, in whatever tool; others are not translated by `localized`"""
PATH: Mapping[str, Any] = string("a file in the workspace")
FOLDER: Mapping[str, Any] = string("a folder in the workspace; all of it unless given")


class Gate(Protocol):
    """Decides what may happen; approval.gatekeeper.Gatekeeper."""

    def check(self, operation: Operation, grant: Grant = ...) -> str | None:
        """Return None to let `operation` happen, else the refusal for the model. May ask the user and wait.

        `grant` is the one of its call: what was answered beforehand is not asked again.
        """
        ...

    def is_denied(self, operation: Operation) -> str | None:
        """Return the refusal of an `operation` that is refused without a question, else None; never asks."""
        ...

    def allows(self, operation: Operation) -> bool:
        """Return whether `operation` happens without a question; never asks."""
        ...

    def basis(self, operation: Operation) -> Basis | None:
        """Return why an operation of that kind and subject was allowed last; None when none was."""
        ...

    def preapprove(self, calls: Sequence[Sequence[Operation]]) -> tuple[Grant, ...]:
        """Ask one question about what several calls of a turn will do, as far as one question can cover it.

        Return the grant of each call.
        """
        ...


class ExecutionLog(Protocol):
    """Is shown what was executed, in any thread; app.receipts.Receipts."""

    def ran(self, command: str, result: CommandResult | None, basis: Basis | None) -> None:
        """Take a command that ran, its output without secrets; no result when it was cancelled or lost."""
        ...

    def called(self, call: str, answer: str | None, basis: Basis | None, *, on_host: bool) -> None:
        """Take a call of a tool of an MCP server, `on_host` or in the sandbox; no answer when it had none."""
        ...

    def wrote(self, path: str, data: bytes, basis: Basis | None) -> None:
        """Take a file, named as the gate was asked about it, that has new content."""
        ...


class UntrustedWrapper(Protocol):
    """Puts foreign text between untrusted_content tags (agent.untrusted, with its nonce bound)."""

    def __call__(self, text: str, *, source: str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Reads and writes files as tools name them, and runs commands."""

    executor: Executor
    """for tools that write: they need the bytes that are there"""
    shown: Executor
    """for tools that show something: the same without secrets"""
    gate: Gate
    grant: Grant = NO_GRANT
    """what was answered beforehand about the call that this is for"""
    call_id: str = ""
    """the id of that call"""
    shows_changes: bool = False
    """whether a person sees what becomes of a file that is written as a whole: what was there is read before"""
    log: ExecutionLog | None = None
    wrap: UntrustedWrapper
    config: Callable[[], Mapping[str, object]] = dict
    """returns the settings in force: fit for JSON, without secrets"""

    def absolute(self, path: str) -> str:
        """Return the absolute form of `path`, for labels and results; it decides nothing."""
        return posixpath.normpath(posixpath.join(self.executor.workspace, path))

    def relative_to_root(self, path: str) -> str:
        """Return `path` relative to the workspace, without following links. Raises FileAccessDenied outside it."""
        relative = posixpath.relpath(self.absolute(usable(path)), self.executor.workspace)
        if relative == ".." or relative.startswith("../"):
            raise FileAccessDenied(f'"{visible(path)}" leaves the workspace')
        return relative

    def read_text(self, path: str) -> str:
        """Return the text of a file, without secrets. Raises FileAccessDenied."""
        return decode_text(self.shown.read(usable(path), limit_bytes=FILE_LIMIT_BYTES), path)

    def read_bytes(self, path: str) -> bytes:
        """Return the bytes that are in a file, to be edited. Raises FileAccessDenied."""
        return self.executor.read(usable(path), limit_bytes=FILE_LIMIT_BYTES)

    def require_read(self, path: str) -> None:
        """Ask the gate about a file of which something will be shown. Raises FileAccessDenied."""
        self._require(Operation(kind="read", subject=self.relative_to_root(path)))

    def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """Run an allowed command; its output is without secrets."""
        request = CommandRequest(command=command, timeout_s=timeout_s)
        return self._logged((request,), lambda: (self.shown.run(command, timeout_s=timeout_s),))[0]

    def run_many(self, requests: Sequence[CommandRequest]) -> tuple[CommandResult, ...]:
        """Run allowed commands at the same time; their outputs are without secrets, stdout and stderr separate."""
        return self._logged(requests, lambda: self.shown.run_many(requests))

    def write(self, path: str, data: bytes, *, replacing: bytes | None, change: str) -> None:
        """Write a file if the gate lets it through, to which `change` is shown. Raises FileAccessDenied."""
        place = path

        def guard(path: str) -> None:
            nonlocal place
            self._require(Operation(kind="write", subject=path, change=change))
            place = path

        self.executor.write(usable(path), data, replacing=replacing, guard=guard)
        if self.log is not None:
            self.log.wrote(place, data, self.gate.basis(Operation(kind="write", subject=place)))

    def called(self, operation: Operation, answer: str | None) -> None:
        """Note that a tool of an MCP server was called, and what it answered; None: nothing."""
        if self.log is not None:
            basis = self.gate.basis(operation)
            self.log.called(operation.subject, answer, basis, on_host=operation.on_host)

    def _logged(
        self, requests: Sequence[CommandRequest], run: Callable[[], tuple[CommandResult, ...]]
    ) -> tuple[CommandResult, ...]:
        results: tuple[CommandResult | None, ...] = (None,) * len(requests)
        try:
            results = done = run()
            return done
        finally:
            if self.log is not None:
                for request, result in zip(requests, results, strict=True):
                    basis = self.gate.basis(Operation(kind="command", subject=request.command))
                    self.log.ran(request.command, result, basis)

    def _require(self, operation: Operation) -> None:
        denial = self.gate.check(operation, self.grant)
        if denial is not None:
            raise FileAccessDenied(denial)


def read_operations(workspace: Workspace, arguments: Mapping[str, Any]) -> tuple[Operation, ...]:
    """Return what a call reads of the workspace that names its files by PATH_KEYS, or by `path` in each of `files`.

    The executor refuses what lies outside.
    """
    named = [arguments[key] for key in PATH_KEYS if key in arguments]
    paths: dict[str, None] = {}
    for path in (*named, *(entry["path"] for entry in arguments.get("files", ()))):
        try:
            paths[workspace.relative_to_root(path)] = None
        except FileAccessDenied:
            continue
    return tuple(Operation(kind="read", subject=path) for path in paths)


def read_all(executor: Executor, paths: Sequence[str]) -> list[bytes | FileAccessDenied]:
    """Return the bytes of each file, or why they cannot be read."""
    results: list[bytes | FileAccessDenied | None] = []
    accepted: list[str] = []
    for path in paths:
        try:
            accepted.append(usable(path))
            results.append(None)
        except FileAccessDenied as refusal:
            results.append(refusal)
    contents = iter(executor.read_many(accepted, limit_bytes=FILE_LIMIT_BYTES, total_bytes=TOTAL_LIMIT_BYTES))
    return [next(contents) if known is None else known for known in results]


def localized(arguments: Mapping[str, Any], project: str, workspace: str) -> dict[str, Any]:
    """Return the arguments of a call with paths of the project as this machine has them named as commands see them.

    A model that has read the path of the project somewhere (in a message of a compiler, in the user's words) means
    the same file (B112). `project` is the folder on this machine that `workspace` is in the sandbox.
    """

    def local(key: str, value: object) -> object:
        if isinstance(value, str):
            return _local_path(value, project, workspace) if key in PATH_KEYS else value
        if isinstance(value, list):
            return [local("", item) for item in value]
        return localized(value, project, workspace) if isinstance(value, dict) else value

    return {key: local(key, value) for key, value in arguments.items()}


def _local_path(path: str, project: str, workspace: str) -> str:
    whole = posixpath.normpath(path)
    if is_inside(whole, workspace):
        return path
    if not is_inside(whole, project):
        return path
    return workspace + whole[len(project.rstrip("/")) :] + "/" * path.endswith("/")


def usable(path: str) -> str:
    """Return `path` for the executor; `~` is expanded by shells only, to a place outside (F-61)."""
    if not path.strip():
        raise FileAccessDenied("the path is empty")
    if path == "~" or path.startswith("~/"):
        raise FileAccessDenied(f'"{visible(path)}" leaves the workspace')
    return path


def decode_text(data: bytes, path: str) -> str:
    """Return `data` as text. Raises FileAccessDenied for a NUL byte or bytes that are not UTF-8 (F-66)."""
    shown = f'"{visible(path)}"'
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileAccessDenied(f"{shown} looks like UTF-16, not UTF-8; convert it with iconv in the shell")
    position = data.find(b"\0")
    if position >= 0 and image_type(data):
        raise FileAccessDenied(
            f"{shown} is a {describe(data)}, which no tool can show you. The user can: as @{visible(path)} in the next "
            "message, or with --image; what is in it can be worked out by a program in the shell"
        )
    if position >= 0:
        raise FileAccessDenied(f"{shown} is binary: NUL byte at offset {position}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileAccessDenied(
            f"{shown} is not UTF-8 text: byte 0x{data[error.start]:02x} on line {line}. It is binary or in an older "
            "encoding such as Latin-1; convert it with iconv in the shell"
        ) from error
