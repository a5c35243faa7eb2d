"""What a conversation stores of itself: a disk that is full ends no turn, and is named once (R-85)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from odek.app.attachments import Attachment
from odek.config.settings import ModelSettings
from odek.errors import StateFileError
from odek.events import Notice, Sink, WarningIssued
from odek.model.types import Message, Usage
from odek.text import visible

if TYPE_CHECKING:
    from odek.session.receipts import Receipt
    from odek.session.recorder import Recorder
    from odek.session.store import SessionStore
    from odek.session.transcript import Summary


class SessionWriter:
    """Stores one conversation, where it is kept; each step tries again what an earlier one could not store."""

    def __init__(self, store: SessionStore | None, emit: Sink) -> None:
        """`store` is where it begins with its first turn; None: nowhere, or it goes on from a recorder."""
        self.recorder: Recorder | None = None
        """None: nothing is kept, or nothing was said yet"""
        self.unkept = ""
        """why nothing is kept though it was meant to be, as a sentence; "" otherwise"""
        self._store = store
        self._emit = emit
        self._failure: StateFileError | None = None
        self._receipts_fail = False
        self._has_replies = False

    @property
    def turns(self) -> int:
        """how many turns are stored"""
        return self.recorder.stored.turns if self.recorder else 0

    @property
    def summary(self) -> Summary | None:
        """the session as it is on the disk; None before the first turn"""
        if self.recorder is None:
            return None
        from odek.session.transcript import Summary

        return Summary(header=self.recorder.transcript.header, state=self.recorder.stored)

    def begin(
        self, until: ExitStack, *, needed: bool, task: str, model: str, sandboxed: bool, cwd: str
    ) -> Recorder | None:
        """Make the session, if there is to be one and is none yet, and hold it to the end of `until`.

        Raises StateFileError when it is `needed`; otherwise that is shown once, and nothing is kept.
        """
        if self._store is None or self.recorder is not None:
            return None
        try:
            return until.enter_context(self._store.create(task=task, model=model, sandbox=sandboxed, cwd=cwd))
        except StateFileError as error:
            if needed:
                raise
            self._store, self.unkept = None, f"this conversation is not kept: {error.message}"
            self._emit(WarningIssued(self.unkept, error.hint))
            return None

    def begin_turn(self, model: ModelSettings, cwd: str, files: Sequence[Attachment]) -> None:
        """Let the next message of the user begin a turn."""
        if self.recorder is not None:
            from odek.app.stored_sessions import given_files

            self.recorder.begin_turn(model=model.model, server=model.chosen_server, cwd=cwd, files=given_files(files))

    def save(self, messages: Sequence[Message], usage: Usage) -> None:
        """Store what is new in `messages`, the whole conversation; `usage` is that of the turn so far."""
        if self.recorder is None:
            return
        from odek.agent.loop import NO_REPLY  # not before Docker is asked; by now it is loaded

        self._has_replies = any(message.role == "assistant" and message.content != NO_REPLY for message in messages)
        try:
            self.recorder.record(messages, usage)
            self._failure = None
        except StateFileError as error:
            if self._failure is None:
                self._emit(WarningIssued(f"this step is not saved: {error.message}"))
            self._failure = error

    def require_saved(self) -> None:
        """Raise StateFileError when something could not be stored."""
        if self._failure is not None:
            raise self._failure

    @property
    def receipt_keeper(self) -> Callable[[Receipt], None] | None:
        """keeps what was executed, in any thread; None: there is no session for it"""
        return self._keep_receipt if self.recorder else None

    def _keep_receipt(self, receipt: Receipt) -> None:
        assert self.recorder is not None
        try:
            self.recorder.add_receipt(receipt)
        except StateFileError as error:  # what it is of has happened; the next one is tried again
            if not self._receipts_fail:
                self._emit(WarningIssued(f"what was executed is not recorded: {error.message}"))
            self._receipts_fail = True

    def note_saved(self, command: str, *, planning: bool) -> None:
        """Show whether the session is saved, and how to go on with it after `command`, which has made a plan or not.

        Where the model never replied there is nothing to go on with (C12).
        """
        if not self._has_replies:
            return
        session_id = visible(self.recorder.id if self.recorder else "")
        task = '"carry out the plan"' if planning else "TASK"
        words = f"repl --id {session_id}" if command == "repl" else f"continue --id {session_id} {task}"
        saved = "session saved" if self._failure is None else "session saved in part"
        self._emit(Notice(f"{saved}; go on with: odek {words}"))
