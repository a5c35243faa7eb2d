"""Sessions as commands use them: the store in the real world, which one is meant, where it may go on (R-2, R-85)."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from odek.app.attachments import Attachment, external, read_ctx_files
from odek.app.bootstrap import CommandProfile, intent_of
from odek.cli.keeper import Keeper
from odek.cli.terminal import Terminal
from odek.config.layers import Layer, Value
from odek.config.options import Source
from odek.config.settings import Settings
from odek.errors import OdekError, StateFileError, UsageError
from odek.host import Host
from odek.sandbox_grammar import ATTACHMENTS
from odek.session.files import SessionFolder
from odek.session.recorder import Recorder
from odek.session.store import SessionList, SessionStore
from odek.session.transcript import GivenFile, Transcript
from odek.text import visible

_PREFIX_LENGTH = 4  # of an id that is cut short, the date counted


def open_store(host: Host, terminal: Terminal, redact: Callable[[str], str]) -> SessionStore:
    """Return the sessions of the user; nothing is read or made yet."""
    return SessionStore(
        SessionFolder(host.operator_home),
        clock=time.time,
        nonce=lambda: os.urandom(16).hex(),
        redact=redact,
        warn=terminal.warn,
    )


def find_session(store: SessionStore, text: str, *, warn: Callable[[str], None]) -> str:
    """Return the id that `text` is, or is the only beginning of; "" means the session used last.

    Damaged sessions, which that one may have been, are told. Raises StateFileError when there is none,
    UsageError when there are several.
    """
    if not text:
        listing = store.list()
        tell_damaged(listing, warn)
        if not listing.sessions:
            raise StateFileError("there is no session yet", hint='`odek run --session "…"` and `odek repl` make one')
        return listing.sessions[0].header.id
    if len(text) < _PREFIX_LENGTH or store.find(text) is not None:
        return text
    found = [summary.header.id for summary in store.list().sessions if summary.header.id.startswith(text)]
    if len(found) > 1:
        raise UsageError(f'"{visible(text)}" is the beginning of {len(found)} sessions', hint="write more of the id")
    return found[0] if found else text


def tell_damaged(listing: SessionList, warn: Callable[[str], None]) -> None:
    """Name what lies among the sessions and cannot be used."""
    for damaged in listing.damaged:
        warn(f"a session is passed over: {damaged.reason}")


def require_place(
    transcript: Transcript,
    profile: CommandProfile,
    settings: Settings,
    host: Host,
    *,
    here: bool,
    warn: Callable[[str], None],
) -> None:
    """Refuse to go on in another folder than the session's when it would be given to a sandbox.

    Raises OdekError; on the host, or with `here`, it is said and no more.
    """
    then = transcript.state.cwd
    if not then or then == host.cwd:
        return
    said = f'the session worked in "{visible(then)}", this is "{visible(host.cwd)}"'
    if intent_of(profile, settings).sandboxed and not here:
        raise OdekError(said, hint="change into that folder, or let the sandbox have this one with --here")
    warn(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierFiles:
    """Files from external that were given with earlier turns of a sandboxed session."""

    files: tuple[Attachment, ...]
    """those that are still what they were; the new sandbox has them, too"""
    gone: tuple[str, ...]
    """where the others stood in the sandbox"""

    def told(self, task: str) -> str:
        """Return `task` with a word to the model on what it cannot find any more."""
        return f"[no longer in the sandbox: {', '.join(self.gone)}]\n\n{task}" if self.gone else task


def given_files(attachments: Sequence[Attachment]) -> tuple[GivenFile, ...]:
    """Return what a session keeps of `attachments`: of those in the working directory nothing."""
    return tuple(
        GivenFile(path=file.path, sha256=hashlib.sha256(file.data).hexdigest()) for file in external(attachments)
    )


def earlier_files(
    transcript: Transcript, attachments: Sequence[Attachment], host: Host, *, warn: Callable[[str], None]
) -> EarlierFiles:
    """Return the files of earlier turns, but for those in whose place `attachments` stand. What is gone is told."""
    given = [file for entry in transcript.entries for file in entry.files] if transcript.header.sandbox else []
    places = {os.path.basename(file.path): file for file in given}
    taken = {file.placed_name for file in external(attachments)}
    files: list[Attachment] = []
    gone: list[str] = []
    for name, file in places.items():
        if name in taken:
            continue
        try:
            found = external(read_ctx_files((file.path,), cwd=host.cwd, home=host.home))
        except UsageError:
            found = ()
        if given_files(found) == (file,):
            files += found
        else:
            warn(
                f'"{visible(file.path)}", given with an earlier turn, is gone or has changed: the sandbox lacks it now'
            )
            gone.append(visible(f"{ATTACHMENTS}/{name}"))
    return EarlierFiles(files=tuple(files), gone=tuple(gone))


def model_layer(transcript: Transcript) -> tuple[Layer, ...]:
    """Return the layer in which a session keeps its model: stronger than files and variables, not than flags."""
    model = transcript.state.model
    if not model:
        return ()
    value = Value(value=model, origin="the session")
    return (Layer(source=Source.FLAG, origin="the session", values={"model": value}),)


def tell_where_it_is(
    stack: ExitStack, recorder: Recorder, keeper: Keeper, terminal: Terminal, *, command: str = "continue --id {} TASK"
) -> None:
    """Say, when `stack` ends, whether the session is saved and which `command` goes on with it."""
    go_on = f"odek {command.format(visible(recorder.id))}"
    stack.callback(lambda: terminal.note(f"{keeper.outcome}; go on with: {go_on}"))
