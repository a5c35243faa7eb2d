"""Workspace paths as tools name them. Pure; links are the file scripts' affair (R-44)."""

from __future__ import annotations

from odek.errors import FileAccessDenied
from odek.sandbox.spec import ATTACHMENTS, WORKSPACE
from odek.text import visible

MAX_PATH_BYTES = 4096


def relative_path(path: str) -> str:
    """Return `path` relative to the workspace, without ".", ".." or doubled slashes.

    Accepts relative paths and absolute ones below /workspace. Raises FileAccessDenied when the path is
    empty, no file name at all, or names the workspace itself or something outside it.
    """
    parts = _parts(path)
    if not parts or f"/{parts[0]}" != WORKSPACE:
        raise _leaves(path)
    if len(parts) == 1 or path.endswith("/"):
        raise FileAccessDenied(f'"{visible(path)}" is a folder, not a file')
    return "/".join(parts[1:])


def relative_place(path: str) -> str:
    """Return `path` as `relative_path` does, but of a folder too; "" is the workspace.

    Bytes that are no UTF-8 (`surrogateescape`) are kept: for what goes by stdin and not through
    Docker's client. Raises FileAccessDenied when it is not usable or names something outside.
    """
    parts = _parts(path or ".", errors="surrogateescape")
    if not parts or f"/{parts[0]}" != WORKSPACE:
        raise _leaves(path)
    return "/".join(parts[1:])


def is_attachment(path: str) -> bool:
    """Return whether `path` names something in the folder of attached files."""
    try:
        parts = _parts(path)
    except FileAccessDenied:
        return False
    return len(parts) > 1 and f"/{parts[0]}" == ATTACHMENTS


def attachment_path(path: str) -> str:
    """Return `path`, which `is_attachment`, relative to the folder of attached files."""
    return "/".join(_parts(path)[1:])


def _parts(path: str, *, errors: str = "strict") -> list[str]:
    """Return the components of `path` from the root of the container on."""
    if "\0" in path or not 0 < _size(path, errors) <= MAX_PATH_BYTES:
        raise FileAccessDenied(f'"{visible(path[:200])}" is not a usable path')
    parts: list[str] = [] if path.startswith("/") else ["workspace"]
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise _leaves(path)
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
        if not parts and not path.startswith("/"):
            raise _leaves(path)
    return parts


def _size(path: str, errors: str) -> int:
    """Return the bytes of `path`, 0 when Docker could not be told it: its client sends text, and what is
    not UTF-8 would become the name of another file."""
    try:
        return len(path.encode(errors=errors))
    except UnicodeEncodeError:
        return 0


def _leaves(path: str) -> FileAccessDenied:
    return FileAccessDenied(f'"{visible(path)}" leaves the workspace', hint=f"only files below {WORKSPACE} can be used")
