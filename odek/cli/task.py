"""The task of a command: its words, or stdin; with the files that it refers to (runtime contract 2.2, 2.11)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from odek.agent.untrusted import wrap_untrusted
from odek.attachments import Attachment, read_named, read_referenced, render_task
from odek.bootstrap import Session
from odek.cli.session import random_hex
from odek.cli.terminal import Terminal
from odek.errors import UsageError
from odek.host import Host
from odek.sandbox.spec import ATTACHMENTS
from odek.text import plural

_MAX_STDIN_BYTES = 1 << 20


def read_task(words: list[str], *, command: str) -> str:
    """Return what is to be done; a sole "-" reads it from stdin. Raises UsageError when there is nothing."""
    if words == ["-"]:
        data = sys.stdin.buffer.read(_MAX_STDIN_BYTES + 1)
        if len(data) > _MAX_STDIN_BYTES:
            raise UsageError("the task on stdin is larger than 1 MiB", hint="put it into a file and name the file")
        text = data.decode("utf-8", errors="replace")
        if not text.strip():
            raise UsageError(
                "the task on stdin is empty", hint="find out why the command before the pipe prints nothing"
            )
    else:
        text = " ".join(words)
    if not text.strip():
        raise UsageError("no task provided", hint=f'say what to do: odek {command} "explain this project"')
    return text


def read_attachments(task: str, names: Sequence[str], host: Host, terminal: Terminal) -> tuple[Attachment, ...]:
    """Return the files named with --ctx and those that `task` refers to, each once. Raises UsageError."""
    named = read_named(names, cwd=host.cwd, home=host.home, warn=terminal.warn)
    known = {attachment.path for attachment in named}
    referenced = read_referenced(task, cwd=host.cwd, warn=terminal.warn)
    found = (*named, *(attachment for attachment in referenced if attachment.path not in known))
    if found:
        terminal.note(f"attached {plural(len(found), 'file')}")
    return found


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
