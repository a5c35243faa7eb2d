"""Files that the user gives to the model with a task: `--ctx FILE` and `@file` in the text (R-43, D-3).

`--ctx` comes from the operator: any file that it names may be read, wherever it is. `@file` may come out of a text
of another origin, so it reaches no further than the working directory. Neither follows a link out of the working
directory: the target can be named instead. What is attached is read once, here; nothing on the host is made or changed.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odek.errors import UsageError
from odek.host_executor.files import open_below
from odek.model.images import describe, image_fault, image_type
from odek.patterns import pattern
from odek.text import plural, truncate, visible

if TYPE_CHECKING:
    from odek.tools.workspace import UntrustedWrapper

FILE_LIMIT_BYTES = 32 << 20
REFERENCE_LIMIT_BYTES = 1 << 20
STDIN_LIMIT_BYTES = 1 << 20
STDIN = "-"
_RESOURCE = "resource:@"
IMAGE = "image:"
_CTX = "ctx:"
SHOWN_LIMIT_BYTES = 50 << 10

# `@` at the start of the text or after a blank, a bracket or a quote; up to a blank, a closing bracket,
# a comma or a semicolon.
_REFERENCE = pattern(r"(?:(?<=[\s([{<\"'`])|\A)@(?P<name>[^@\s)\]},;\"'`][^\s)\]},;\"'`]*)")
_TRAILING = ".,:;!?"
_NAME = pattern(r"[\w./]")  # begins like the name of a file, unlike @{u} or @-1
_NAME_LENGTH = 60
_NAMED = 3  # references without a file that are listed by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file as it was when the task was given."""

    name: str
    """as the user wrote it"""
    source: str
    """what labels its content: "ctx:NAME", "image:NAME", "upload:NAME", "resource:@NAME" """
    path: str
    """absolute, links resolved; "" for what came by stdin"""
    relative: str
    """its path below the working directory; "" when it is outside of it"""
    data: bytes

    @property
    def referenced(self) -> bool:
        """whether a text refers to it, not the operator's --ctx"""
        return self.source.startswith(_RESOURCE)

    @property
    def is_image(self) -> bool:
        """whether the model is shown it as an image; what --ctx names is for the tools"""
        return not self.source.startswith(_CTX) and not image_fault(self.data)

    @property
    def placed_name(self) -> str:
        """what it is called in a sandbox when it is from outside the working directory: valid UTF-8, for Docker"""
        return os.path.basename(self.path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Skipped(Exception):
    """Why a file is not attached."""


def read_ctx_files(
    names: Sequence[str], *, cwd: str, home: str, flag: str = "--ctx", label: str = _CTX
) -> tuple[Attachment, ...]:
    """Return the files that `--ctx`, or another flag, names; `label` begins what labels their content.

    STDIN is not among them; see `from_stdin`. `cwd` has its links resolved. Raises UsageError when one is missing
    or cannot be attached, and when two files from outside the working directory have one name.
    """
    found: list[Attachment] = []
    for name in names:
        if name == STDIN:
            continue
        try:
            expanded = os.path.join(home, name[2:]) if name.startswith("~/") and home else name
            attachment = _read(expanded, name, f"{label}{name}", cwd=cwd, limit_bytes=FILE_LIMIT_BYTES)
        except _Skipped as reason:
            raise UsageError(
                f'"{visible(name)}" cannot be attached: {reason}',
                hint="--ctx takes the names of files, and - for stdin"
                if flag == "--ctx"
                else f"{flag} takes names of files",
            ) from reason
        if all(attachment.path != other.path for other in found):
            found.append(attachment)
    _require_distinct(found)
    return tuple(found)


def from_stdin(data: bytes) -> Attachment:
    """Return what came by stdin: not a file, so all of it is shown. Raises UsageError: too much, or binary."""
    if len(data) > STDIN_LIMIT_BYTES:
        raise UsageError(
            f"stdin is larger than {STDIN_LIMIT_BYTES >> 20} MiB", hint="put it into a file and name the file"
        )
    if b"\0" in data:
        raise UsageError("stdin is binary, not text", hint="put it into a file and name the file with --ctx")
    return Attachment(name=STDIN, source=f"ctx:{STDIN}", path="", relative="", data=data)


def read_referenced(
    task: str, *, cwd: str, warn: Callable[[str], None], note: Callable[[str], None]
) -> tuple[Attachment, ...]:
    """Return the files of the working directory that `task` refers to as @name, each once.

    What is not a file there stays a word, as `@property` and `@types/node` may be meant: one line to `note`. A file
    that cannot be attached is a line to `warn`.
    """
    found: list[Attachment] = []
    words: list[str] = []
    for match in _REFERENCE.finditer(task):
        try:
            attachment = _referenced(match["name"], cwd)
        except _Skipped as reason:
            warn(f'"@{visible(match["name"])}" is not attached: {reason}')
            continue
        if attachment is None:
            words.append(match["name"])
        elif all(attachment.path != other.path for other in found):
            found.append(attachment)
    missing = [word for word in dict.fromkeys(words) if _NAME.match(word) and not _is_folder(word, cwd)]
    if missing:
        note(_describe_missing(missing))
    return tuple(found)


def external(attachments: Sequence[Attachment]) -> tuple[Attachment, ...]:
    """Return those that no mount shows to a sandbox."""
    return tuple(attachment for attachment in attachments if attachment.path and not attachment.relative)


def render_task(
    task: str,
    attachments: Sequence[Attachment],
    *,
    workspace: str,
    folder: str | None,
    wrap: UntrustedWrapper,
    redact: Callable[[str], str],
) -> str:
    """Return `task` with the content of the files before it, each where the tools find it. Pure.

    `workspace` is the working directory as commands see it, `folder` the one of files from
    outside in the sandbox; None: commands run on the host.
    """
    blocks = [_block(attachment, _place(attachment, workspace, folder), wrap, redact) for attachment in attachments]
    return "\n\n".join((*blocks, task))


def _require_distinct(attachments: Sequence[Attachment]) -> None:
    taken: dict[str, Attachment] = {}
    for attachment in external(attachments):
        other = taken.setdefault(attachment.placed_name, attachment)
        if other is not attachment:
            raise UsageError(
                f'"{visible(attachment.name)}" and "{visible(other.name)}" cannot both be attached: both are outside '
                f'the working directory and are called "{visible(attachment.placed_name)}"',
                hint="give one of them another name, or copy it into the working directory",
            )


def _referenced(name: str, cwd: str) -> Attachment | None:
    for candidate in dict.fromkeys((name, name[:-1] if name[-1] in _TRAILING else name)):
        path = os.path.normpath(os.path.join(cwd, candidate))
        if candidate and os.path.lexists(path):
            if not _inside(path, cwd):
                raise _Skipped("it is outside the working directory; --ctx can attach it")
            if os.path.isdir(path):
                return None
            attachment = _read(candidate, candidate, f"{_RESOURCE}{candidate}", cwd=cwd, limit_bytes=FILE_LIMIT_BYTES)
            _check_referenced(attachment.data)
            return attachment
    return None


def _check_referenced(data: bytes) -> None:
    if image_type(data):
        fault = image_fault(data)
        if fault:
            raise _Skipped(fault)
    elif len(data) > REFERENCE_LIMIT_BYTES:
        raise _Skipped(f"it is larger than {REFERENCE_LIMIT_BYTES >> 20} MiB")
    elif b"\0" in data:
        raise _Skipped("it is binary")


def _is_folder(name: str, cwd: str) -> bool:
    return os.path.isdir(os.path.join(cwd, name.rstrip(_TRAILING)))


def _describe_missing(words: Sequence[str]) -> str:
    names = [f'"@{visible(truncate(word.rstrip(_TRAILING), _NAME_LENGTH))}"' for word in words]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    said = f"{', '.join(names[:_NAMED])}{more}"
    return f"no file here is called {said}; it stays a word" if len(names) == 1 else f"no files here: {said}"


def _read(path: str, name: str, source: str, *, cwd: str, limit_bytes: int) -> Attachment:
    if "\0" in path:
        raise _Skipped("it is not a file name")
    path = os.path.normpath(os.path.join(cwd, path))
    try:
        real = os.path.realpath(path)
    except OSError as error:  # a link to where this user may not look
        raise _Skipped(str(error.strerror).lower()) from error
    if _inside(path, cwd) and not _inside(real, cwd):
        raise _Skipped(f"it is a link that leaves the working directory; name {visible(real)} itself")
    try:
        descriptor = _open(real, cwd)
    except OSError as error:
        raise _Skipped(str(error.strerror).lower()) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise _Skipped("it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(limit_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit_bytes:
        raise _Skipped(f"it is larger than {limit_bytes >> 20} MiB")
    relative = os.path.relpath(real, cwd) if _inside(real, cwd) else ""
    return Attachment(name=name, source=source, path=real, relative=relative, data=data)


def _open(real: str, cwd: str) -> int:
    """Open a file whose links are resolved: none is on the way unless one is put there at this moment.

    In the working directory another sandbox may do that; elsewhere odek trusts those who could.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return open_below(cwd, os.path.relpath(real, cwd), flags) if _inside(real, cwd) else os.open(real, flags)


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _place(attachment: Attachment, workspace: str, folder: str | None) -> str:
    if attachment.relative:
        return posixpath.join(workspace, attachment.relative)
    return attachment.path if folder is None or not attachment.path else posixpath.join(folder, attachment.placed_name)


def _block(attachment: Attachment, place: str, wrap: UntrustedWrapper, redact: Callable[[str], str]) -> str:
    name = visible(attachment.name)
    where = (f"path: {visible(place)}",) if place else ()
    return "\n".join((f"--- {name} ---", *where, *_content(attachment, wrap, redact), f"--- end {name} ---"))


def _content(attachment: Attachment, wrap: UntrustedWrapper, redact: Callable[[str], str]) -> list[str]:
    data = attachment.data
    if attachment.is_image:
        return [f"({describe(data)}; shown)"]
    if b"\0" in data:
        return [f"(binary, {plural(len(data), 'byte')}; not shown)"]
    if not data:
        return ["(empty file)"]
    limit = SHOWN_LIMIT_BYTES if attachment.path else STDIN_LIMIT_BYTES
    text = redact(data.decode("utf-8", errors="replace"))  # before the cut, which may go through a secret
    if len(data) <= limit:
        return [wrap(text, source=attachment.source)]
    shown = wrap(text.encode()[:limit].decode(errors="ignore"), source=attachment.source)
    return [shown, f"[the first {SHOWN_LIMIT_BYTES} of {len(data)} bytes are shown; the rest is in the file]"]
