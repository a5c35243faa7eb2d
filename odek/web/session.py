"""One live session: a conversation with its container, its events, its questions, and the thread that they belong to.

All that touches the conversation happens in that thread, one job after the other. Other threads hand in jobs, cancel,
answer questions, and look at the view. A session that has had nothing to do for a while ends (R-138).
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import TypeVar

from odek.app.attachments import read_referenced
from odek.app.config import Config
from odek.app.conversation import Conversation, compacted_line, prepare_conversation
from odek.app.isolation import CommandProfile
from odek.app.runtime import Runtime
from odek.app.stored_sessions import ResumedSession, resume_session
from odek.app.workspace import quote_docker
from odek.cancel import CancelToken, use_token
from odek.errors import Cancelled, OdekError, StateFileInUse
from odek.events import (
    Event,
    ModelReplied,
    Notice,
    SandboxStarted,
    ToolOutput,
    WarningIssued,
    usage_fields,
)
from odek.events import (
    SandboxChanged as SandboxState,
)
from odek.executor import OutputWatch, use_watch
from odek.model.types import Message, Usage
from odek.sandbox.argv import SESSION_LABEL
from odek.sandbox.container.container import Container
from odek.sandbox.container.facts import ContainerFacts
from odek.web.errors import Refused
from odek.web.place import Place, Serving, require_ours, require_unchanged
from odek.web.promise import Promise

T = TypeVar("T")
_SHORT = 13  # characters of an id: the date and a few digits
_TAIL = 2000  # characters of what a command printed last
_CLOSED = ("closed", "deleted")
_WORDLESS = "(no words; see the files)"


class LiveSession:
    """See the module."""

    def __init__(self, serving: Serving, place: Place, *, on_known: Callable[[LiveSession], None]) -> None:
        """`on_known` is called when its id is known, before anything happens in it, and `on_end` when it has ended."""
        self.id = ""
        self.place = place
        self.conversation: Conversation | None = None
        self.ended_because = "closed"
        self._serving = serving
        self._on_known = on_known
        self._runtime = replace(serving.runtime_for(self._emit, place.cards), person_in_any_thread=True)
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._stack = ExitStack()
        self._token: CancelToken | None = None
        self._turn = 0
        self._is_new = False
        self._early: list[Event] = []
        """what came before the id was known"""
        self._base = 0
        """how many messages there were before the turn"""
        self._closing = False
        self._not_started: OdekError | None = None
        """why the last start failed, which an event has said"""
        self.thread = Thread(target=self._work, name="odek-session", daemon=True)

    @property
    def short(self) -> str:
        return self.id[:_SHORT]

    # from any thread

    def submit(self, job: Callable[[], T]) -> Promise[T] | None:
        """Let `job` happen in the session's thread; None when that is about to end."""
        done: Promise[T] = Promise()

        def carry_out() -> None:
            try:
                result = job()
            except (Exception, Cancelled) as error:
                if not isinstance(error, (OdekError, Cancelled)):
                    self._show_bug(error)
                done.fail(error)
            else:
                done.keep(result)

        with self.place.log.lock:
            if self._closing:
                return None
            self._jobs.put(carry_out)
        return done

    def start_turn(self, text: str, uploads: Sequence[str]) -> Promise[int] | None:
        """Begin a turn; the promise has its number when the task is on the disk, or why it does not begin.

        The caller has made the session busy.
        """
        accepted: Promise[int] = Promise()
        with self.place.log.lock:
            if self._closing:
                return None
            self._jobs.put(partial(self._do_turn, text, tuple(uploads), accepted))
        return accepted

    def cancel(self, turn: int, cause: Callable[[], Cancelled] = Cancelled) -> bool:
        """Cancel the turn with that number; return whether it was under way."""
        with self.place.log.lock:
            token = self._token if turn in (self._turn, -1) else None
        if token is None:
            return False
        token.cancel(cause)
        self.place.cards.settle_all("cancelled")
        return True

    def close(self, because: str) -> None:
        """End the session after what it does now."""
        with self.place.log.lock:
            self._closing = True
            self.ended_because = because
            self.place.is_ending = True
        self.place.cards.settle_all("closed")
        self._jobs.put(None)

    # in the session's thread

    def go_live(self, session_id: str) -> None:
        """Take up a stored session. Raises Refused and OdekError."""
        serving, store = self._serving, self._serving.store
        try:
            recorder = self._stack.enter_context(store.open(session_id))
        except StateFileInUse as error:
            raise Refused.because(error, status=409, code="in_use") from error
        except OdekError as error:
            raise Refused.because(error, status=409, code="damaged") from error
        require_ours(recorder.transcript.state.cwd, recorder.transcript.header.sandbox, serving)
        config = serving.config
        if self.place.model:
            config = config.with_model(self.place.model, origin="the page")
        resumed = resume_session(recorder, config, self._runtime, command="serve", here=False)
        if self.place.model:
            resumed = replace(resumed, config=config)
        profile = replace(serving.profile, pinned=resumed.profile.pinned)
        self.conversation = self._converse(profile, resumed.config, resumed=resumed)
        self._known(session_id, resumed.messages, recorder.stored.usage)

    def undo(self) -> dict[str, object]:
        """Take the last turn back."""
        conversation = self._conversation
        conversation.undo()
        with self.place.log.lock:
            self.place.view.keep(conversation.history)
            self.place.log.renew()
        return {"turns": conversation.turns}

    def set_model(self, name: str) -> dict[str, object]:
        """Ask another model from now on."""
        conversation = self._conversation
        conversation.set_model(name)
        self.place.view.window = None
        self._emit(Notice(f"the model is now {conversation.settings.model.model}"))
        return {"model": conversation.settings.model.model}

    def compact(self, words: str) -> None:
        """Let a summary stand for the older part of what is sent; a notice or a warning says what came of it."""
        conversation, token = self._conversation, CancelToken()
        with self.place.log.lock:
            self._token, self._turn = token, 0
        try:
            with use_token(token):
                before, after = conversation.compact(words)
            self.place.view.tokens = after
            self._emit(Notice(compacted_line(before, after)))
        except OdekError as error:
            self._emit(WarningIssued(error.message, hint=error.hint))
        except Cancelled:
            self._emit(Notice("the summary was cancelled; the conversation is as it was"))
        finally:
            self._rest()

    def restart(self) -> None:
        """End the container and start another one."""
        conversation = self._conversation
        if self._serving.sandboxes is None:
            raise Refused(409, "no_sandbox", "commands run on this host; there is no sandbox to start again")
        token = CancelToken()
        with self.place.log.lock:
            self._token, self._turn = token, 0
        try:
            with use_token(token):
                conversation.end_workspace()
                self._emit(SandboxState("closed", "it is started again"))
                conversation.restart()
        except OdekError as error:
            if error is not self._not_started:  # what follows the start can fail as well
                self._emit(SandboxState("closed", error.message))
        except Cancelled:
            self._emit(SandboxState("closed", "the start was cancelled"))
        finally:
            self._rest()

    def applied(self) -> dict[str, object] | None:
        """Return what `config_view` shows in this session; None before there is a place of work."""
        conversation = self.conversation
        if conversation is None or not conversation.is_open:
            return None
        return dict(conversation.workspace.applied())

    @property
    def facts(self) -> ContainerFacts | None:
        """of the present container"""
        conversation = self.conversation
        return conversation.workspace.facts if conversation is not None and conversation.is_open else None

    @property
    def is_closing(self) -> bool:
        """whether it takes no more jobs"""
        return self._closing

    def cancel_task(self, task_id: str) -> bool:
        """Cancel one sub-agent of the turn; return whether it was at work."""
        return self.conversation is not None and self.conversation.cancel_task(task_id)

    @property
    def _conversation(self) -> Conversation:
        if self.conversation is None:
            raise Refused(409, "closed", "the session has ended", "send a message to go on with it")
        return self.conversation

    def _converse(self, profile: CommandProfile, config: Config, resumed: ResumedSession | None = None) -> Conversation:
        serving = self._serving
        return prepare_conversation(
            profile, config, self._runtime, sink=self._emit, store=serving.store, start=self._start,
            expected=serving.expected, resumed=resumed, servers=serving.servers,
        )  # fmt: skip

    def _known(self, session_id: str, messages: Sequence[Message], usage: Usage) -> None:
        place, self.id = self.place, session_id
        place.cards.note = lambda text: self._serving.log(f"{self.short}: {text}")
        with place.log.lock:
            place.live, place.view.lost = True, False
            place.view.begin(messages, usage_fields(usage))
            place.log.renew()
        self._on_known(self)
        self._serving.log(f"{self.short}: session is live")
        early, self._early = self._early, []
        for event in early:
            self._emit(event)

    def _start(self, runtime: Runtime) -> Container:
        """Start this session's container; never anything else (R-7)."""
        sandboxes = self._serving.sandboxes
        assert sandboxes is not None
        self._emit(SandboxState("starting"))
        try:
            return sandboxes.start(runtime, labels=((SESSION_LABEL, self.id),))
        except OdekError as error:
            self._not_started = error
            self._emit(SandboxState("closed", error.message))
            quote_docker(error, self._emit)
            self._serving.log(f"{self.short}: no sandbox: {error.message}")
            raise

    def _emit(self, event: Event) -> None:
        if not self.id:
            self._early.append(event)
            return
        if isinstance(event, SandboxStarted):
            self._serving.log(f"{self.short}: {event.line}")
        elif isinstance(event, WarningIssued):
            self._serving.log(f"{self.short}: warning: {event.text}")
        elif isinstance(event, ModelReplied) and self.conversation is not None:
            usage = event.reply.usage
            self.place.view.window = self.conversation.agent.model.window(usage.input_tokens + usage.output_tokens)
        self.place.put(event)

    def _show_output(self, tail: str, size_bytes: int) -> None:
        """Show what the command prints that this thread runs; those of other threads are not watched."""
        with self.place.log.lock:
            running = self.place.view.running
            call_id = str(running[-1]["id"]) if running else ""
        if call_id:
            shown = self._serving.redact(tail)[-_TAIL:]
            self.place.put(ToolOutput(call_id=call_id, tail=shown, size_bytes=size_bytes))

    def _work(self) -> None:
        idle = self._serving.config.settings.serve.idle_seconds
        try:
            while True:
                try:
                    job = self._jobs.get(timeout=idle)
                except queue.Empty:
                    if self._close_idle():
                        return
                    continue
                if job is None:
                    return
                job()
        finally:
            self._end()

    def _close_idle(self) -> bool:
        """Return whether the session ends now: nothing came in this very moment."""
        with self.place.log.lock:
            if not self._jobs.empty():
                return False
            self._closing, self.ended_because = True, "idle"
            return True

    def _do_turn(self, text: str, uploads: tuple[str, ...], accepted: Promise[int]) -> None:
        conversation: Conversation | None = None
        try:
            conversation, token = self._accept(text, uploads), CancelToken()
            self._is_new = False
            with self.place.log.lock:
                self._token, self._turn = token, conversation.turns
                if self._closing:  # the server stops
                    token.cancel()
            accepted.keep(conversation.turns)
            with use_watch(OutputWatch(self._show_output)):
                conversation.work(text, cancel=token)
        except Exception as error:
            if not accepted.is_kept:
                self._withdraw()
                accepted.fail(error)
            elif not isinstance(error, OdekError):  # the turn has ended as failed; the server lives
                self._show_bug(error)
        except Cancelled:
            pass
        finally:
            self._end_turn(conversation)

    def _accept(self, text: str, uploads: tuple[str, ...]) -> Conversation:
        """Put the task on the disk, with what was given with it."""
        sandboxes = self._serving.sandboxes
        if sandboxes is not None and (self.conversation is None or not self.conversation.is_open):
            require_unchanged(sandboxes, self._runtime)
        if self.conversation is None:
            self._is_new = True
            self.conversation = self._converse(self._serving.profile, self._serving.config)
            self.conversation.begin_session(text or _WORDLESS)
            self._known(self.conversation.session_id or "", (), Usage())
        conversation = self.conversation
        files = self._serving.take_files(uploads, self.id)
        named = read_referenced(
            text,
            cwd=self._runtime.host.cwd,
            warn=lambda words: self._emit(WarningIssued(words)),
            note=lambda words: self._emit(Notice(words)),
        )
        self._base = len(conversation.history)
        conversation.accept(text or _WORDLESS, (*files, *named))
        return conversation

    def _withdraw(self) -> None:
        """Let go of a session whose message was refused, unless it has a place of work already."""
        if self.conversation is None or not self.conversation.is_open:
            with self.place.log.lock:
                self._closing, self.ended_because = True, "refused"
            self._jobs.put(None)

    def _end_turn(self, conversation: Conversation | None) -> None:
        if conversation is not None:
            if conversation.lost:
                self._emit(SandboxState("lost", "the sandbox is gone; a new message or a restart makes another one"))
            with self.place.log.lock:
                self.place.view.end_turn(conversation.history[self._base :])
        self._rest()

    def _rest(self) -> None:
        with self.place.log.lock:
            self._token = None
            self.place.busy = self.place.is_ending = False
            self.place.log.lock.notify_all()

    def _end(self) -> None:
        place, conversation = self.place, self.conversation
        with place.log.lock:
            self._closing = True
        place.cards.settle_all("closed")
        try:
            with self._stack:
                if conversation is not None:
                    conversation.close()
        except OdekError as error:
            self._serving.log(f"{self.short}: {error.message}")
        finally:
            with place.log.lock:
                place.live = place.view.lost = False
                place.view.entries.clear()
                place.log.forget()
                place.is_ending = False
                if self.ended_because in _CLOSED:  # the thread that asked for it has made the session busy
                    place.busy = False
                place.log.lock.notify_all()
            if self._is_new and self.id:  # nothing of it was accepted
                with suppress(OdekError):
                    self._serving.store.delete(self.id)
            if self.id:
                place.put(SandboxState("closed", self.ended_because))
                self._serving.log(f"{self.short}: session has ended ({self.ended_because})")

    def _show_bug(self, error: Exception) -> None:
        import traceback  # most servers have no bug to show

        shown = "".join(traceback.format_exception(error)) if self._serving.debug else type(error).__name__
        self._serving.log(f"{self.short}: a bug: {shown}")
