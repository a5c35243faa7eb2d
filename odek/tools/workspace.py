"""What all file tools share: how a path is taken, how bytes become text, and the gate before a write."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from odek.approval.operation import Operation
from odek.errors import FileAccessDenied
from odek.executor import Executor
from odek.model.types import ToolSpec
from odek.text import visible
from odek.tools.registry import Gate, Tool, ToolResult, Work, Wrap, failure

FILE_LIMIT_BYTES = 10 << 20

PATH_KEYS = ("path", "path_a", "path_b")
"""arguments that name a file or a folder, in whatever tool"""
PATH: Mapping[str, Any] = {
    "type": "string",
    "description": "a file in the workspace",
}
FOLDER: Mapping[str, Any] = {
    "type": "string",
    "description": "a folder in the workspace; all of it unless given",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Reads and writes files as tools name them."""

    executor: Executor
    wrap: Wrap

    def place(self, path: str) -> str:
        """Return the absolute form of `path`, for labels and results; it decides nothing."""
        return posixpath.normpath(posixpath.join(self.executor.workspace, path))

    def within(self, path: str) -> str:
        """Return `path` relative to the workspace as its letters say. Raises FileAccessDenied when it leaves it."""
        relative = posixpath.relpath(self.place(inside(path)), self.executor.workspace)
        if relative == ".." or relative.startswith("../"):
            raise FileAccessDenied(f'"{visible(path)}" leaves the workspace')
        return relative

    def read(self, path: str) -> bytes:
        """Return the bytes of a file of at most FILE_LIMIT_BYTES. Raises FileAccessDenied."""
        return self.executor.read(inside(path), limit_bytes=FILE_LIMIT_BYTES)

    def require_read(self, path: str, gate: Gate) -> None:
        """Ask `gate` about a file of which something will be shown. Raises FileAccessDenied."""
        denial = gate.check(Operation(kind="read", subject=self.within(path)))
        if denial is not None:
            raise FileAccessDenied(denial)

    def write(self, path: str, data: bytes, *, replacing: bytes | None, gate: Gate, change: str) -> None:
        """Write a file if `gate` lets it through, to which `change` shows what is written. Raises FileAccessDenied."""
        guard = partial(_require, gate, change)
        self.executor.write(inside(path), data, replacing=replacing, guard=guard)


def localized(value: object, project: str, workspace: str) -> object:
    """Return the arguments of a call with paths of the project as this machine has them named as commands see them.

    A model that has read the path of the project somewhere (in a message of a compiler, in the user's words) means
    the same file (B112). `project` is the folder on this machine that `workspace` is in the sandbox.
    """
    if isinstance(value, list):
        return [localized(item, project, workspace) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _local(inner, project, workspace)
        if key in PATH_KEYS and isinstance(inner, str)
        else localized(inner, project, workspace)
        for key, inner in value.items()
    }


def _local(path: str, project: str, workspace: str) -> str:
    whole = posixpath.normpath(path)
    if whole == workspace or whole.startswith(workspace + "/"):
        return path
    if whole != project and not whole.startswith(project.rstrip("/") + "/"):
        return path
    return workspace + whole[len(project.rstrip("/")) :] + "/" * path.endswith("/")


def inside(path: str) -> str:
    """Return `path` for the executor; `~` is the shell's word for a place outside (F-61)."""
    if not path.strip():
        raise FileAccessDenied("the path is empty")
    if path == "~" or path.startswith("~/"):
        raise FileAccessDenied(f'"{visible(path)}" leaves the workspace')
    return path


def decode_text(data: bytes, path: str) -> str:
    """Return `data` as text. Raises FileAccessDenied for a NUL byte or bytes that are no UTF-8 (F-66)."""
    shown = f'"{visible(path)}"'
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileAccessDenied(f"{shown} looks like UTF-16, not UTF-8; convert it with iconv in the shell")
    position = data.find(b"\0")
    if position >= 0:
        raise FileAccessDenied(f"{shown} is binary: NUL byte at offset {position}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileAccessDenied(
            f"{shown} is no UTF-8 text: byte 0x{data[error.start]:02x} on line {line}. It is binary or in an older "
            "encoding such as Latin-1; convert it with iconv in the shell"
        ) from error


def _require(gate: Gate, change: str, path: str) -> None:
    denial = gate.check(Operation(kind="write", subject=path, change=change))
    if denial is not None:
        raise FileAccessDenied(denial)


class AskedReads:
    """A tool that shows contents of files, each of which the gate has to let through first."""

    parallel = True

    def __init__(self, tool: Tool, *, executor: Executor, gate: Gate, wrap: Wrap) -> None:
        """`tool` names files by `path`, `path_a`, `path_b`, or by the `path` of each of `files`."""
        self._tool = tool
        self._gate = gate
        self._workspace = Workspace(executor=executor, wrap=wrap)

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return self._tool.spec

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """See Tool."""
        return self.prepare(arguments)()

    def prepare(self, arguments: Mapping[str, Any]) -> Work:
        """Ask about every file, and return what reads them; one refusal refuses the call."""
        for operation in self.operations(arguments):
            refusal = self._gate.check(operation)
            if refusal is not None:
                return partial(failure, refusal)
        return partial(self._tool.call, arguments)

    def operations(self, arguments: Mapping[str, Any]) -> tuple[Operation, ...]:
        """Return what a call would read in the workspace; the executor refuses what lies outside."""
        paths = dict.fromkeys(self._within(path) for path in _paths(arguments))
        return tuple(Operation(kind="read", subject=path) for path in paths if path)

    def _within(self, path: str) -> str:
        try:
            return self._workspace.within(path)
        except FileAccessDenied:
            return ""


def _paths(arguments: Mapping[str, Any]) -> Sequence[str]:
    named = [arguments[key] for key in PATH_KEYS if key in arguments]
    return [*named, *(entry["path"] for entry in arguments.get("files", ()))]
