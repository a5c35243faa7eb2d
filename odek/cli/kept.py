"""The session file of a conversation that is made with its first turn, or goes on (R-85)."""

from __future__ import annotations

from contextlib import ExitStack

from odek.cli import signals
from odek.cli.box import Box
from odek.cli.conversation import tell_where_it_is
from odek.cli.keeper import Keeper
from odek.cli.terminal import Terminal
from odek.errors import StateFileError
from odek.session.recorder import Recorder
from odek.session.store import SessionStore
from odek.session.transcript import Summary


class Kept:
    """Stores the turns of one conversation; whoever leaves without a word leaves no session behind."""

    def __init__(self, store: SessionStore, keeper: Keeper, stack: ExitStack, terminal: Terminal, *, cwd: str) -> None:
        """The session stays locked until `stack` ends."""
        self._store = store
        self._keeper = keeper
        self._stack = stack
        self._terminal = terminal
        self._cwd = cwd
        self._recorder: Recorder | None = None

    def go_on(self, recorder: Recorder) -> None:
        """Go on with a session that is open already."""
        self._recorder = recorder
        tell_where_it_is(self._stack, recorder, self._keeper, self._terminal, command="repl --id {}")

    @property
    def turns(self) -> int:
        """how many turns are stored"""
        return self._recorder.stored.turns if self._recorder else 0

    @property
    def summary(self) -> Summary | None:
        """the session as it is on the disk; None before the first turn"""
        recorder = self._recorder
        return Summary(header=recorder.transcript.header, state=recorder.stored) if recorder else None

    def follow(self, box: Box) -> None:
        """Save from now on what the agent of `box` says."""
        self._keeper.keep(box.agent, self._recorder)

    def take_turn(self, box: Box, task: str, whole: str) -> str:
        """Let the agent work on `whole`, which is `task` with its files, and return the answer."""
        model = box.opened.settings.model.model
        if self._recorder is None:
            self.go_on(
                self._stack.enter_context(
                    self._store.create(task=task, model=model, sandbox=box.opened.sandbox_wanted, cwd=self._cwd)
                )
            )
        self.follow(box)
        with signals.turn() as cancel:
            return self._keeper.take_turn(whole, cancel=cancel, model=model, cwd=self._cwd)

    def undo(self, box: Box) -> None:
        """Take the last turn back. Raises StateFileError when there is none."""
        if self._recorder is None:
            raise StateFileError("there is no turn to take back", hint="see /info")
        left = self._recorder.undo_turn()
        box.begin_anew(box.agent.messages[1 : 1 + left])
        self.follow(box)

    def require_saved(self) -> None:
        """Raise StateFileError when something could not be stored."""
        self._keeper.require_saved()
