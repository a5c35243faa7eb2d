"""The task of a command: its words, or stdin; with the files that it refers to (runtime contract 2.2, 2.11)."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from odek.agent.untrusted import wrap_untrusted
from odek.attachments import (
    STDIN,
    STDIN_LIMIT_BYTES,
    Attachment,
    from_stdin,
    read_named,
    read_referenced,
    render_task,
)
from odek.bootstrap import Session
from odek.cli.session import random_hex
from odek.cli.terminal import Terminal
from odek.errors import UsageError
from odek.host import Host
from odek.sandbox.spec import ATTACHMENTS
from odek.text import plural


def read_task(words: list[str], *, command: str) -> str:
    """Return what is to be done; a sole "-" reads it from stdin. Raises UsageError when there is nothing."""
    if _comes_by_stdin(words):
        text = from_stdin(_read_stdin()).data.decode("utf-8", errors="replace")
        if not text.strip():
            raise UsageError(
                "the task on stdin is empty", hint="find out why the command before the pipe prints nothing"
            )
    else:
        text = " ".join(words)
    if not text.strip():
        raise UsageError("no task provided", hint=f'say what to do: odek {command} "explain this project"')
    return text


def read_attachments(
    task: str, names: Sequence[str], host: Host, terminal: Terminal, *, words: Sequence[str] = ()
) -> tuple[Attachment, ...]:
    """Return the files named with --ctx and those that `task` refers to, each once. Raises UsageError.

    A "-" among `names` is stdin, read to its end; not when `words`, of which the task was read, took it.
    """
    if STDIN in names and _comes_by_stdin(words):
        raise UsageError("stdin cannot be both the task and a file", hint="give the task in words, or take out --ctx -")
    named = read_named(names, cwd=host.cwd, home=host.home, warn=terminal.warn)
    if STDIN in names:
        data = _read_stdin()
        named = (*named, from_stdin(data)) if data else named
        if not data:
            terminal.warn("nothing came by stdin; the task goes without it")
    known = {attachment.path for attachment in named}
    referenced = read_referenced(task, cwd=host.cwd, warn=terminal.warn, note=terminal.note)
    found = (*named, *(attachment for attachment in referenced if attachment.path not in known))
    if found:
        terminal.note(f"attached {plural(len(found), 'file')}")
    return found


@contextmanager
def unread_stdin(words: Sequence[str], names: Sequence[str], terminal: Terminal) -> Iterator[None]:
    """Tell within the block, in one line, that something came by stdin which nobody asked for (runtime 2.2).

    It is never read and never waited for: a pipe that stays open for ever holds nothing up. A program
    that writes slowly is noticed at the end of the block.
    """
    asked = _comes_by_stdin(words) or STDIN in names
    told = not asked and _tell_unread(terminal)
    try:
        yield
    finally:
        if not (asked or told):
            _tell_unread(terminal)


def render(task: str, attachments: Sequence[Attachment], opened: Session) -> str:
    """Return `task` as the model gets it: the files before it, each where the tools of `opened` find it."""
    if not attachments:
        return task
    return render_task(
        task,
        attachments,
        workspace=opened.executor.workspace,
        folder=ATTACHMENTS if opened.facts else None,
        wrap=partial(wrap_untrusted, nonce=partial(random_hex, 8)),
        redact=opened.redact,
    )


def _comes_by_stdin(words: Sequence[str]) -> bool:
    return list(words) == [STDIN]


def _read_stdin() -> bytes:
    return sys.stdin.buffer.read(STDIN_LIMIT_BYTES + 1) if sys.stdin else b""


def _tell_unread(terminal: Terminal) -> bool:
    if not _holds_data(0):
        return False
    terminal.warn("what came by stdin is not read; `--ctx -` gives it to the model with the task")
    return True


def _holds_data(descriptor: int) -> bool:
    """Return whether a pipe, a socket or a file has something to read at this moment."""
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            return found.st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
        if not (stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode)):
            return False
        waiting = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    except OSError:
        return False
    return int.from_bytes(waiting, sys.byteorder) > 0
