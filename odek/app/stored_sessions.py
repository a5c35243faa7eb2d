"""Stored sessions: the store in the real world, which session is meant, and how it goes on (R-2, R-85)."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from odek.app.attachments import Attachment, external, read_ctx_files
from odek.app.config import Config
from odek.app.images import with_images
from odek.app.isolation import CommandProfile, decide_sandbox
from odek.app.runtime import Runtime
from odek.config.options import Source
from odek.config.settings import Settings
from odek.errors import OdekError, StateFileError, UsageError
from odek.events import Notice, WarningIssued
from odek.host import Host
from odek.model.types import Message
from odek.sandbox_grammar import ATTACHMENTS
from odek.session.files import SessionFolder
from odek.session.groups import compactions, history
from odek.session.recorder import Recorder
from odek.session.store import SessionList, SessionStore
from odek.session.transcript import GivenFile, Transcript
from odek.text import visible

_PREFIX_LENGTH = 4  # characters of an id that is cut short
_MOST_SHOWN = 8


def open_store(host: Host, redact: Callable[[str], str], *, warn: Callable[[str], None]) -> SessionStore:
    """Return the sessions of the user; nothing is read or made yet."""
    return SessionStore(
        SessionFolder(host.operator_home),
        clock=time.time,
        nonce=lambda: os.urandom(16).hex(),
        redact=redact,
        warn=warn,
    )


def find_session(store: SessionStore, text: str, *, warn: Callable[[str], None]) -> str:
    """Return the id that `text` is, or is the only beginning of, with its date or without; "": the session used last.

    Damaged sessions, of which that one may have been one, are warned of. Raises StateFileError when there is none,
    UsageError when there are several.
    """
    if not text:
        listing = store.list()
        warn_of_damaged(listing, warn)
        if not listing.sessions:
            raise StateFileError("there is no session yet", hint='`odek run --session "…"` and `odek repl` make one')
        return listing.sessions[0].header.id
    ids = store.ids()
    if text in ids:
        return text
    # the date comes first in an id, and says little; what follows it is as good
    found = [each for each in ids if each.startswith(text) or each.partition("-")[2].startswith(text)]
    if found and len(text) < _PREFIX_LENGTH:
        raise UsageError(f'"{visible(text)}" is too short for an id', hint=f"write {_PREFIX_LENGTH} or more characters")
    if len(found) > 1:
        shown = ", ".join(map(visible, found[-_MOST_SHOWN:])) + (", …" if len(found) > _MOST_SHOWN else "")
        raise UsageError(
            f'"{visible(text)}" is the beginning of {len(found)} sessions', hint=f"write more of the id: {shown}"
        )
    return found[0] if found else text


def warn_of_damaged(listing: SessionList, warn: Callable[[str], None]) -> None:
    """Name what lies among the sessions and cannot be used."""
    for damaged in listing.damaged:
        warn(f"a session is skipped: {damaged.reason}")


@contextmanager
def open_session(
    store: SessionStore, text: str, config: Config, runtime: Runtime, *, command: str, fork: bool, here: bool
) -> Iterator[Recorder]:
    """Open the session that `text` means to go on with it, or, `fork`, one that begins with all that was said in it.

    None is made that could not go on here. Raises OdekError.
    """

    def warn(message: str) -> None:
        runtime.emit(WarningIssued(message))

    session_id = find_session(store, text, warn=warn)
    if not fork:
        with store.open(session_id) as recorder:
            yield recorder
        return
    _require_resumable(store.read(session_id), config.settings, runtime.host, command=command, here=here, warn=_nothing)
    with store.fork(session_id) as recorder:
        runtime.emit(Notice(f"a copy of session {visible(session_id)} goes on, as {visible(recorder.id)}"))
        yield recorder


def _nothing(_: str) -> None:
    """Say nothing: it is said when the session goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedSession:
    """A session that goes on."""

    recorder: Recorder
    config: Config
    """with the model of the session, unless a flag names another one"""
    profile: CommandProfile
    messages: tuple[Message, ...]
    compactions: tuple[tuple[int, Message], ...]
    """places in `messages`, and what the model gets for what precedes them"""
    files: tuple[Attachment, ...]
    """from outside, given with earlier turns and unchanged since: the new sandbox has them, too"""
    gone: tuple[str, ...]
    """where the others were in the sandbox"""
    cwd: str
    """the folder that the session is of; "" where that is not known"""

    @property
    def turn(self) -> int:
        """the number of the next turn"""
        return self.recorder.transcript.state.turns + 1


def resume_session(
    recorder: Recorder,
    config: Config,
    runtime: Runtime,
    *,
    command: str,
    here: bool,
    attachments: Sequence[Attachment] = (),
) -> ResumedSession:
    """Return how `command` goes on with an open session; `attachments` are new and take the place of earlier ones.

    `here`: its sandbox may have this folder instead of its own. Raises OdekError when it cannot go on, here or like
    this.
    """
    transcript, settings = recorder.transcript, config.settings

    def warn(text: str) -> None:
        runtime.emit(WarningIssued(text))

    profile = _require_resumable(transcript, settings, runtime.host, command=command, here=here, warn=warn)
    files, gone = earlier_files(transcript, attachments, runtime.host, warn=warn)
    model, server = transcript.state.model, transcript.state.server
    return ResumedSession(
        recorder=recorder,
        config=config.with_chosen_model(model, server, origin="the session") if model else config,
        profile=profile,
        messages=with_images(history(transcript), warn=warn),
        compactions=compactions(transcript),
        files=files,
        gone=gone,
        cwd=transcript.state.cwd,
    )


def _require_resumable(
    transcript: Transcript,
    settings: Settings,
    host: Host,
    *,
    command: str,
    here: bool,
    warn: Callable[[str], None],
) -> CommandProfile:
    """Return how `command` goes on with a session. Raises OdekError when it cannot."""
    sandboxed = transcript.header.sandbox
    if sandboxed and settings.sandbox.enabled is False and settings.source_of("sandbox") is Source.FLAG:
        raise UsageError(
            "--no-sandbox cannot be given for this session: it is pinned to the sandbox",
            hint='leave it out; "sandbox" in ~/.odek/config.json, or ODEK_SANDBOX, decides for all sessions',
        )
    profile = CommandProfile(command=command, pinned=sandboxed)
    _require_folder(transcript, profile, settings, host, here=here, warn=warn)
    return profile


def _require_folder(
    transcript: Transcript,
    profile: CommandProfile,
    settings: Settings,
    host: Host,
    *,
    here: bool,
    warn: Callable[[str], None],
) -> None:
    """Refuse to go on in another folder than the session's when it would be given to a sandbox.

    Raises OdekError; on the host, or with `here`, there is only a warning.
    """
    then = transcript.state.cwd
    if not then or then == host.cwd:
        return
    said = f'the session worked in "{visible(then)}", this is "{visible(host.cwd)}"'
    if decide_sandbox(profile, settings).sandboxed and not here:
        raise OdekError(said, hint="change into that folder, or let the sandbox have this one with --here")
    warn(said)


def given_files(attachments: Sequence[Attachment]) -> tuple[GivenFile, ...]:
    """Return what a session keeps of `attachments`: of those in the working directory nothing."""
    return tuple(
        GivenFile(path=file.path, sha256=hashlib.sha256(file.data).hexdigest()) for file in external(attachments)
    )


def earlier_files(
    transcript: Transcript, attachments: Sequence[Attachment], host: Host, *, warn: Callable[[str], None]
) -> tuple[tuple[Attachment, ...], tuple[str, ...]]:
    """Return the files of earlier turns that are what they were, and where in the sandbox the others were.

    Those whose place `attachments` take are left out. What is gone is warned of.
    """
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
    return tuple(files), tuple(gone)
