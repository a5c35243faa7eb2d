"""One conversation: a model that works in one place, turn by turn, and what is kept of it (R-85).

What was said is on the disk before the next thing is done: the task before the model gets it, each call before it
runs, each result before the next. So whatever ends odek, nothing that was finished is lost and nothing is stored that
did not happen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from odek.app.attachments import Attachment, external
from odek.app.budget import budget_of
from odek.app.config import Config, require_model_name
from odek.app.cost import pricing
from odek.app.given_files import may_give, may_give_unasked, with_files, with_newer
from odek.app.images import images_of
from odek.app.isolation import CommandProfile, decide_sandbox, require_permitted
from odek.app.planning import planned
from odek.app.prompt import PromptParts, ask_ahead, is_place_enough, last_compaction, read_parts
from odek.app.runtime import Runtime
from odek.app.session_writer import SessionWriter
from odek.app.turn_events import shown_turn, turn_started
from odek.app.turn_files import KeptTurns
from odek.app.workspace import StartSandbox, TrustByBoundary, Workspace, look_ahead, open_workspace, servers_for
from odek.cancel import CancelToken, current_token, use_token
from odek.config.settings import Settings
from odek.errors import OdekError, StateFileError, UsageError
from odek.events import Event, RequestStarted, Sink, ToolFinished, ToolStarted
from odek.model.images import Image
from odek.model.types import Message, Usage
from odek.sandbox.errors import SandboxLost

if TYPE_CHECKING:
    from odek.agent.loop import Agent
    from odek.agent.prompt import Instructions
    from odek.app.delegation import Delegation
    from odek.app.shared_servers import SharedServers
    from odek.app.stored_sessions import ResumedSession
    from odek.sandbox.container.facts import ContainerFacts
    from odek.session.recorder import Recorder
    from odek.session.store import SessionStore
    from odek.session.transcript import Summary
    from odek.tools.registry import ToolResult
    from odek.tools.workspace import Workspace as ToolWorkspace


def open_conversation(
    profile: CommandProfile,
    config: Config,
    runtime: Runtime,
    *,
    sink: Sink,
    attachments: Sequence[Attachment] = (),
    store: SessionStore | None = None,
    resumed: ResumedSession | None = None,
    first: str | None = None,
) -> Conversation:
    """Begin a conversation, or go on with `resumed`; `attachments` are in each of its containers.

    With a `store` it is kept, from its first turn on. The model is made before the workspace: a missing key must cost
    no container (F-20). `first` is what will be sent first: with no files, no foreign tools and nothing to verify,
    the model is asked while the container starts, the task stored before (R-251). Raises OdekError, with no container.
    """
    conversation = Conversation(profile, config, runtime, sink=sink, attachments=attachments, store=store)
    try:
        conversation._take_up(resumed)
        conversation._open_workspace(conversation._history, first)
    except BaseException:
        if conversation._is_ahead and conversation._recorder:  # the model was asked in vain
            conversation._leave_unanswered(conversation._accepted[0])
        conversation.close()
        raise
    return conversation


def prepare_conversation(
    profile: CommandProfile,
    config: Config,
    runtime: Runtime,
    *,
    sink: Sink,
    store: SessionStore,
    start: StartSandbox,
    expected: ContainerFacts | None,
    resumed: ResumedSession | None = None,
    servers: SharedServers | None = None,
) -> Conversation:
    """Return a conversation that gets its place of work, by `start`, with its first turn: `accept`, then `work`.

    `expected` is what is known of the sandbox; None: commands run on the host. `servers` is shared with others. Raises
    OdekError for what the settings forbid.
    """
    conversation = Conversation(profile, config, runtime, sink=sink, attachments=(), store=store, start=start)
    conversation._expected, conversation._servers = expected, servers
    conversation._take_up(resumed)
    return conversation


def compacted_line(before: int, after: int) -> str:
    """Return what to say of a summary; the numbers are those of `Conversation.compact`."""
    return f"a request took about {before} tokens and takes {after} now; the session keeps everything"


class Conversation:
    """Holds a workspace, a model and the agent between them, until it is closed.

    A disk that is full does not end a turn: that is shown once, each step tries again, and `require_saved` says in the
    end whether all is stored.
    """

    workspace: Workspace
    """made with the first turn that needs one"""
    agent: Agent

    def __init__(
        self,
        profile: CommandProfile,
        config: Config,
        runtime: Runtime,
        *,
        sink: Sink,
        attachments: Sequence[Attachment],
        store: SessionStore | None,
        start: StartSandbox | None = None,
    ) -> None:
        self._profile = profile
        self.unplanned = config
        """the settings of turns that do the work"""
        self._config = planned(config) if profile.planning else config
        self._runtime = runtime
        self.kept = KeptTurns(sink, lambda: self.workspace, lambda: self.session_id, runtime.random_hex(8))
        self._sink: Sink = self.kept
        self._attachments = tuple(attachments)
        self._trusted: TrustByBoundary = {}
        """what the person said once holds in the next container, too, if its boundary is the same"""
        self._servers: SharedServers | None = None
        self._writer = SessionWriter(store, runtime.emit)
        self._cwd = runtime.host.cwd
        """the folder that the session is of"""
        self._images: tuple[Image, ...] = ()
        """of the task that was rendered last"""
        self._gone: tuple[str, ...] = ()
        """attachments of earlier turns that the model is to be shown as missing"""
        self._start = start
        self._expected: ContainerFacts | None = None
        self._instructions: Instructions = ()
        self._delegation: Delegation | None = None
        self._session = ExitStack()
        self._history: tuple[Message, ...] = ()
        """what was said before there was an agent"""
        self._compactions: tuple[tuple[int, Message], ...] = ()
        """places in the history, and what the model gets for what precedes them; the last one counts"""
        self._accepted: tuple[str, tuple[Attachment, ...]] = ("", ())
        """the task of the next `work` as the model gets it, and its files"""
        self._is_ahead = False
        """whether that is the task of the next `send`, for which the model was asked already"""
        self._turn = 0
        """the number of the present or the last turn"""
        self.lost = False
        """whether the container of `workspace` is gone"""

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workspace, then let go of the session."""
        with self._session:
            if hasattr(self, "workspace"):
                self.workspace.close()

    @property
    def _recorder(self) -> Recorder | None:
        return self._writer.recorder

    @property
    def config(self) -> Config:
        return self._config

    @property
    def settings(self) -> Settings:
        return self._config.settings

    @property
    def session_id(self) -> str | None:
        """None: nothing is kept, or nothing was said yet"""
        return self._recorder.id if self._recorder else None

    @property
    def turns(self) -> int:
        """how many turns are stored; how many there were, where none can be"""
        return self._turn if self.unkept else self._writer.turns

    @property
    def summary(self) -> Summary | None:
        """the session as it is on the disk; None before the first turn"""
        return self._writer.summary

    @property
    def unkept(self) -> str:
        """why nothing is kept though it was meant to be, as a sentence; "" otherwise"""
        return self._writer.unkept

    def begin_session(self, task: str, *, needed: bool = True) -> None:
        """Make the session in which the conversation is kept, if there is none yet. Raises StateFileError if `needed`;
        otherwise the conversation goes on without, with one warning."""
        model, sandboxed = self.settings.model.model, decide_sandbox(self._profile, self.settings).sandboxed
        recorder = self._writer.begin(
            self._session, needed=needed, task=task, model=model, sandboxed=sandboxed, cwd=self._cwd
        )
        if recorder is not None:
            self._keep(recorder)

    def send(self, text: str, *, files: Sequence[Attachment] = (), cancel: CancelToken | None = None) -> str:
        """Let the agent work on `text` with `files` and return the answer; saved, however it ends.

        `cancel` ends it from any thread; None: the token of this one does.
        Raises OdekError when there is none; the conversation can go on.
        """
        with use_token(cancel or current_token()):
            self.workspace.prepare_turn()
            self.begin_session(text, needed=self._profile.session_needed)  # others have it by now, or asked for it
            is_ahead, self._is_ahead, (whole, _) = self._is_ahead, False, self._accepted
            if not is_ahead:
                given = [file for file in files if may_give(file, self.workspace.tools.gate, self._runtime.emit)]
                whole = self._render(text, given, sandboxed=self.workspace.facts is not None)
                self._begin_turn(files)
            with self._shown_turn(text, files, is_stored=is_ahead):
                return self._run(whole)

    def accept(self, text: str, files: Sequence[Attachment] = ()) -> None:
        """Store `text` with `files` as the task of the next `work`; there need not be a place of work (R-132).

        A file that `text` refers to and that would be asked about is left out, with a warning. Raises StateFileError;
        then nothing is begun.
        """
        self.begin_session(text)
        given = [file for file in files if may_give_unasked(file, self.settings, self._expected, self._runtime)]
        whole = self._render(text, given, sandboxed=decide_sandbox(self._profile, self.settings).sandboxed)
        self._begin_turn(files)
        if self._recorder is not None:
            self._recorder.record((*self.history, Message(role="user", content=whole, images=self._images)), Usage())
        self._accepted = (whole, tuple(files))

    def work(self, text: str, *, cancel: CancelToken | None = None) -> str:
        """Do the accepted task, which the user wrote as `text`; in a new container where there is none. See `send`."""
        whole, files = self._accepted
        with use_token(cancel or current_token()), self._shown_turn(text, files, is_stored=True):
            try:
                if self.is_open:
                    self.workspace.give(files)
                else:
                    self._reopen()
                self.workspace.prepare_turn()
            except BaseException as error:
                self.lost |= isinstance(error, SandboxLost)
                self._leave_unanswered(whole)
                raise
            return self._run(whole)

    @property
    def is_open(self) -> bool:
        """whether there is a place of work"""
        return hasattr(self, "agent") and not self.lost

    @property
    def history(self) -> tuple[Message, ...]:
        """all that was said, but for the system message"""
        return tuple(self.agent.messages[1:]) if hasattr(self, "agent") else self._history

    def undo(self) -> None:
        """Take the last turn back; files stay as they are. Raises StateFileError when there is none."""
        if self._recorder is None:
            raise StateFileError(self.unkept or "there is no turn to take back", hint="see /info")
        left = self._recorder.undo_turn()
        self._compactions = tuple(each for each in self._compactions if each[0] < left)
        if hasattr(self, "agent"):
            self.agent = self._new_agent(self.agent.messages[1 : 1 + left])
        else:
            self._history = self._history[:left]

    def compact(self, words: str) -> tuple[int, int]:
        """Let a summary by the model stand for the older part, and return about how many tokens a request took before,
        and takes now.

        `words` say what matters. The session keeps everything. Raises OdekError; then everything is as it was.
        """
        if self._recorder is None or not self.is_open:
            raise UsageError(self.unkept or "there is nothing to compact yet")
        self._save()
        self.require_saved()  # what is stored is counted from its end
        with self._runtime.waiting("writing a summary"):
            found = self.agent.write_summary(words, nonce=partial(self._runtime.random_hex, 8))
        place, message = found.compaction.place - 1, found.compaction.message  # without the system message
        self._recorder.compact(len(self.history) - place, message, found.usage)
        self._compactions = (*self._compactions, (place, message))
        self.agent.use(found.compaction)
        return found.before, found.after

    def set_model(self, name: str) -> None:
        """Ask the model called `name`, or PROVIDER/NAME, from now on. Raises OdekError when there is no such client."""
        require_model_name(name)
        unplanned = self.unplanned.with_model(name, origin="/model")
        config = planned(unplanned) if self.planning else unplanned
        price, model = pricing(config, self._runtime.emit), self._runtime.new_model(config.settings)
        self.unplanned, self._config = unplanned, config
        if hasattr(self, "agent"):
            self._model = self.agent.model = model
            self._price = self.agent.price = price
            self.workspace.config = config

    def restart(self) -> None:
        """End the container and go on in a new one. Raises OdekError; then there is none until the next try.

        A conversation on the host has nothing to start again, and a sandbox is never followed by the host.
        """
        if hasattr(self, "workspace") and self.workspace.facts is None:
            raise UsageError(
                "commands run on this host; there is no sandbox to start again", hint="/exit, then `odek repl`"
            )
        self.lost = True
        if hasattr(self, "workspace"):
            self.workspace.close()
        self._profile = replace(self._profile, pinned=True)
        self._open_workspace(self.history)

    @property
    def planning(self) -> bool:
        """whether turns only plan"""
        return self._profile.planning

    def set_planning(self, planning: bool) -> None:
        """Let turns only plan, or do the work, from now on, in a new container; what the person trusts ends with this.

        Raises OdekError: UsageError when nothing has changed, otherwise there is no container until `restart`.
        """
        if planning == self.planning:
            return
        if self.workspace.facts is None:
            raise UsageError(
                "commands run on this host, and only a sandbox is read-only", hint="/exit, then `odek repl --plan`"
            )
        self._profile = replace(self._profile, planning=planning)
        self._config = planned(self.unplanned) if planning else self.unplanned
        self._trusted.clear()
        self.restart()

    def end_workspace(self) -> None:
        """End the container, and what the person trusts in it; the next `work` makes another."""
        self.lost = True
        self._trusted.clear()
        if hasattr(self, "workspace"):
            self.workspace.close()

    def require_saved(self) -> None:
        """Raise StateFileError when something could not be stored."""
        self._writer.require_saved()

    def _take_up(self, resumed: ResumedSession | None) -> None:
        if resumed is not None:
            self._keep(resumed.recorder)
            self._cwd = resumed.cwd or self._cwd
            self._attachments = (*resumed.files, *self._attachments)
            self._gone = resumed.gone
            self._history = resumed.messages
            self._compactions = resumed.compactions
        require_permitted(decide_sandbox(self._profile, self.settings), self.settings)

    def _reopen(self) -> None:
        self._trusted.clear()  # it ends with the container
        if hasattr(self, "workspace"):
            self.workspace.close()
        self._open_workspace(self.history)

    def _leave_unanswered(self, whole: str) -> None:
        """Close the turn of a task that the agent did not get: it is stored, and the next one must not follow it."""
        from odek.agent.loop import NO_REPLY

        unanswered = (Message(role="user", content=whole), Message(role="assistant", content=NO_REPLY))
        self._history = (*self.history, *unanswered)
        if hasattr(self, "agent"):
            self.agent = self._new_agent(self._history)
        self._save()

    def _begin_turn(self, files: Sequence[Attachment]) -> None:
        self._writer.begin_turn(self.settings.model, self._cwd, files)
        if self._start is not None:  # for the containers to come as well
            self._attachments = with_newer(self._attachments, external(files))

    def _shown_turn(self, text: str, files: Sequence[Attachment], *, is_stored: bool) -> AbstractContextManager[None]:
        self._turn = self.turns + (not is_stored) if self._recorder else self._turn + 1
        started = turn_started(self._turn, text, files, at_s=self._runtime.clock())
        return shown_turn(started, self._sink, self._usages, clock=self._runtime.clock)

    def _usages(self) -> tuple[Usage, Usage]:
        """Return what the turn has used, and all turns."""
        used = self.agent.usage if hasattr(self, "agent") else Usage()
        return used, self._recorder.stored.usage if self._recorder else used

    def _run(self, whole: str) -> str:
        try:
            return self.agent.run(whole, images=self._images)
        except SandboxLost as error:
            self.lost = True
            raise self.workspace.explain_loss(error) from error
        finally:
            self._save()

    def _open_workspace(self, history: Sequence[Message], first: str | None = None) -> None:
        self._price = pricing(self._config, self._runtime.emit)
        self._model = self._runtime.new_model(self.settings)
        with look_ahead(self._profile, self._config, self._runtime, self._start):
            self._servers = self._servers or servers_for(self._config)
            parts = read_parts(self._config, self._runtime, self._profile, planning=self.planning)
            self._instructions = parts.instructions
            if self._start is not None:  # what it waits for was approved before
                self._model.connect()
            self.workspace = open_workspace(
                self._profile, self._config, self._runtime, attachments=self._attachments, trusted=self._trusted,
                start=self._start, delegate=self._delegate, servers=self._servers,
                on_planned=partial(self._ask_ahead, first, parts),
            )  # fmt: skip
        self._system = parts.render_in(self.workspace)
        self.agent = self._new_agent(history)
        self.lost = False
        self._keep_receipts()

    def _ask_ahead(self, task: str | None, parts: PromptParts, facts: ContainerFacts | None) -> None:
        """Have the model asked while Docker makes a container, its task stored before; else only connect to it."""
        if task and facts and not self._attachments and is_place_enough(self.settings):
            with suppress(OdekError):  # said when the turn begins
                self.accept(task)
                self._is_ahead = True
                said = (*self._history, Message(role="user", content=self._accepted[0]))
                ahead = ask_ahead(self._model, said, parts, self._delegate, facts, last_compaction(self._compactions))
                self._session.enter_context(ahead)
        else:
            self._model.connect()

    def _new_agent(self, history: Sequence[Message]) -> Agent:
        from odek.agent.loop import Agent, as_it_is

        return Agent(
            model=self._model, tools=self.workspace.tools, sink=self._take, system=self._system, history=history,
            max_iterations=self.settings.model.max_iterations, parallel_calls=self.settings.max_tool_parallel,
            budget=budget_of(self.settings), refused=self.workspace.refused, price=self._price,
            take_answer=self._profile.answer.take if self._profile.answer else as_it_is,
            compaction=last_compaction(self._compactions),
        )  # fmt: skip

    def cancel_task(self, task: str) -> bool:
        """End one sub-agent, by the id in its events, from any thread; False when it does not work."""
        return self._delegation is not None and self._delegation.cancel(task)

    def _delegate(self, at: ToolWorkspace, arguments: Mapping[str, Any]) -> ToolResult:
        from odek.app.delegation import Delegation, Parent  # few conversations come to it

        self._delegation = self._delegation or Delegation(self._recorder)
        parent = Parent(
            self.workspace, self.agent, self._sink, self._attachments, self._trusted, self._instructions, self._recorder
        )
        return self._delegation.run(parent, at.call_id, arguments)

    def _render(self, text: str, given: Sequence[Attachment], *, sandboxed: bool) -> str:
        """Return `text` as the model gets it; its images are in `_images`."""
        self._images = images_of(given, self.settings)
        gone, self._gone = self._gone, ()
        return with_files(text, given, gone, self._config, self._runtime, sandboxed=sandboxed)

    def _take(self, event: Event) -> None:
        """Save what was done so far, then pass the event on."""
        if isinstance(event, (RequestStarted, ToolStarted, ToolFinished)):
            self._save()
        self._sink(event)
        if isinstance(event, ToolFinished):
            for notice in self.workspace.masked.take():
                self._sink(notice)

    def _keep(self, recorder: Recorder) -> None:
        self._writer.recorder = recorder
        self._session.callback(lambda: self._writer.note_saved(self._profile.command, planning=self.planning))
        self._keep_receipts()

    def _keep_receipts(self) -> None:
        """Let what is executed in the workspace be noted with the session, as soon as there are both."""
        if hasattr(self, "workspace"):
            self.workspace.receipts.keep = self._writer.receipt_keeper

    def _save(self) -> None:
        if hasattr(self, "agent"):
            self._writer.save(self.agent.messages, self.agent.usage)
        else:
            self._writer.save(self._history, Usage())
