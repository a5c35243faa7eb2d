"""The task of a command: its words, or stdin; with the files that it refers to (runtime contract 2.2, 2.11)."""

from __future__ import annotations

import fcntl
import os
import select
import stat
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from odek.app.attachments import (
    IMAGE,
    STDIN,
    STDIN_LIMIT_BYTES,
    Attachment,
    from_stdin,
    read_ctx_files,
    read_referenced,
)
from odek.app.images import require_images
from odek.cli.terminal import Terminal
from odek.errors import UsageError
from odek.host import Host
from odek.text import plural

PATIENCE_S = 5.0
STALL_S = 60.0
_PIECE_BYTES = 1 << 16
_WITHOUT = "`</dev/null` says that there is nothing to read"


def read_task(words: list[str], *, command: str, terminal: Terminal) -> str:
    """Return what is to be done; a sole "-" reads it from stdin. Raises UsageError when there is nothing."""
    if _comes_by_stdin(words):
        tell_reading("the task", terminal)
        text = from_stdin(_read_stdin()).data.decode("utf-8", errors="replace")
        if not text.strip():
            raise UsageError(
                "the task on stdin is empty", hint="find out why the command before the pipe prints nothing"
            )
    else:
        text = " ".join(words)
    if not text.strip():
        raise UsageError(
            "no task provided",
            hint=f'say what to do: odek {command} "explain this project"; `odek {command} -` reads the task from stdin',
        )
    return text


def read_attachments(
    task: str,
    names: Sequence[str],
    host: Host,
    terminal: Terminal,
    *,
    words: Sequence[str] = (),
    images: Sequence[str] = (),
) -> tuple[Attachment, ...]:
    """Return the files named with --ctx and --image and those that `task` refers to, each once. Raises UsageError.

    A "-" among `names` is stdin, read to its end; not when `words`, of which the task was read, took it. What is
    piped in together with a task in words is attached as well.
    """
    if STDIN in names and _comes_by_stdin(words):
        raise UsageError("stdin cannot be both the task and a file", hint="give the task in words, or take out --ctx -")
    named = read_ctx_files(names, cwd=host.cwd, home=host.home)
    if STDIN in names:
        tell_reading("a file", terminal)
        data = _read_stdin()
        named = (*named, from_stdin(data)) if data else named
        if not data:
            terminal.warn("nothing came by stdin; the task goes without it")
    elif words and not _comes_by_stdin(words) and (data := read_beside(0, terminal)):
        named = (*named, from_stdin(data))
        terminal.note(f"stdin is attached ({plural(len(data), 'byte')}); </dev/null leaves it out")
    shown = read_ctx_files(images, cwd=host.cwd, home=host.home, flag="--image", label=IMAGE)
    require_images(shown)
    named = (*(file for file in named if file.path not in {image.path for image in shown}), *shown)
    known = {attachment.path for attachment in named}
    referenced = read_referenced(task, cwd=host.cwd, warn=terminal.warn, note=terminal.note)
    found = (*named, *(attachment for attachment in referenced if attachment.path not in known))
    if found:
        terminal.note(f"attached {plural(len(found), 'file')}")
    return found


@contextmanager
def warn_unread_stdin(words: Sequence[str], names: Sequence[str], terminal: Terminal) -> Iterator[None]:
    """Tell within the block, in one line, that something came by stdin after the wait for it was over (A24).

    A program that writes slowly is noticed at the end of the block.
    """
    asked = _comes_by_stdin(words) or STDIN in names
    warned = not asked and _warn_unread(terminal)
    try:
        yield
    finally:
        if not (asked or warned):
            _warn_unread(terminal)


def _comes_by_stdin(words: Sequence[str]) -> bool:
    return list(words) == [STDIN]


def tell_reading(what: str, terminal: Terminal) -> None:
    """Say at a terminal that `what` is read from there, and how it ends (C6)."""
    if sys.stdin and sys.stdin.isatty():
        terminal.note(f"{what} is read from this terminal; Ctrl-D at the beginning of a line ends it")


def _read_stdin() -> bytes:
    return sys.stdin.buffer.read(STDIN_LIMIT_BYTES + 1) if sys.stdin else b""


def _warn_unread(terminal: Terminal) -> bool:
    if not _holds_data(0):
        return False
    terminal.warn("what came by stdin was too late and is not read; `--ctx -` waits for it")
    return True


def read_beside(
    descriptor: int, terminal: Terminal, *, patience_s: float = PATIENCE_S, stall_s: float = STALL_S
) -> bytes:
    """Return what is piped into `descriptor`, up to its end and little more than STDIN_LIMIT_BYTES; b"" for nothing.

    A terminal or /dev/null is never read. A pipe from which nothing comes for `patience_s`, such as the stdin
    that some CI runners and daemons leave open, is left alone, with a warning. Raises UsageError for
    one that has begun and then stays silent for `stall_s`: half of the input may be what the task is about.
    """
    if not _is_fed(descriptor):
        return b""
    data = bytearray()
    try:
        terminal.show_status("waiting for the end of stdin")
        while len(data) <= STDIN_LIMIT_BYTES:
            ready, _, _ = select.select([descriptor], [], [], stall_s if data else patience_s)
            if not ready:
                break
            piece = os.read(descriptor, _PIECE_BYTES)
            if not piece:
                return bytes(data)
            data += piece
    except OSError as error:
        raise UsageError(f"stdin cannot be read: {str(error.strerror).lower()}", hint=_WITHOUT) from error
    finally:
        terminal.clear_status()
    if not data:
        terminal.warn(
            f"stdin is a pipe, but nothing came within {patience_s:g} s; the task goes without it",
            hint=f"`--ctx -` waits for it; {_WITHOUT}",
        )
    elif len(data) <= STDIN_LIMIT_BYTES:
        raise UsageError(
            f"stdin was not closed: nothing came for {stall_s:g} s after {plural(len(data), 'byte')}",
            hint=f"`--ctx -` waits for its end; {_WITHOUT}",
        )
    return bytes(data)


def _is_fed(descriptor: int) -> bool:
    """Return whether `descriptor` is a pipe, a socket, or a file that is not at its end."""
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            return found.st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
        return stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode)
    except OSError:
        return False


def _holds_data(descriptor: int) -> bool:
    """Return whether a pipe, a socket or a file has something to read at this moment."""
    if not _is_fed(descriptor):
        return False
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return True
        waiting = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    except OSError:
        return False
    return int.from_bytes(waiting, sys.byteorder) > 0
