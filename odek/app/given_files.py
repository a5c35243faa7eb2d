"""The files that are given with a task: which of them the model gets, and how the task is then written (F15)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from odek.agent.untrusted import wrap_untrusted
from odek.app.attachments import Attachment, render_task
from odek.app.config import Config, redactor_of
from odek.app.runtime import Runtime
from odek.approval.operation import Operation
from odek.config.settings import Settings
from odek.events import Sink, WarningIssued
from odek.sandbox_grammar import ATTACHMENTS, WORKSPACE
from odek.text import visible

if TYPE_CHECKING:
    from odek.sandbox.container.facts import ContainerFacts
    from odek.tools.workspace import Gate


def with_files(
    text: str, given: Sequence[Attachment], gone: Sequence[str], config: Config, runtime: Runtime, *, sandboxed: bool
) -> str:
    """Return `text` as the model gets it: the files before it, each where the tools find it; `gone` are named."""
    if given:
        text = render_task(
            text,
            given,
            workspace=WORKSPACE if sandboxed else runtime.host.cwd,
            folder=ATTACHMENTS if sandboxed else None,
            wrap=partial(wrap_untrusted, nonce=partial(runtime.random_hex, 8)),
            redact=redactor_of(config, runtime.host),
        )
    return f"[no longer in the sandbox: {', '.join(gone)}]\n\n{text}" if gone else text


def with_newer(files: Sequence[Attachment], newer: Sequence[Attachment]) -> tuple[Attachment, ...]:
    """Return `files` with `newer`, which take the places of those that have their names in the sandbox."""
    names = {file.placed_name for file in newer}
    return (*(file for file in files if file.placed_name not in names), *newer)


def may_give(file: Attachment, gate: Gate, emit: Sink) -> bool:
    """Return whether the model may have the file; says why not.

    A file that the text refers to is asked about as `read_file` would: the text may be of another origin.
    """
    refusal = gate.check(Operation(kind="read", subject=file.relative)) if gate and file.referenced else None
    if refusal is not None:
        _warn_not_attached(file, refusal.splitlines()[0], emit, hint="--ctx attaches whatever it names")
    return refusal is None


def may_give_unasked(file: Attachment, settings: Settings, facts: ContainerFacts | None, runtime: Runtime) -> bool:
    """Return whether `read_file` would read the file without a question; there may be no place of work yet."""
    from odek.app.tools import reads_unasked

    allowed = not file.referenced or reads_unasked(settings, facts, runtime, file.relative)
    if not allowed:
        _warn_not_attached(file, "reading it takes a yes", runtime.emit, hint="ask for it, and the model asks you")
    return allowed


def _warn_not_attached(file: Attachment, why: str, emit: Sink, *, hint: str) -> None:
    emit(WarningIssued(f'"@{visible(file.name)}" is not attached: {why}', hint=hint))
