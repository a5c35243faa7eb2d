"""A sink that saves every step of a conversation (R-85).

What was said is on the disk before the next thing is done: the task before the model gets it, each
call before it runs, each result before the next. So whatever ends odek, nothing that was finished is
lost and nothing is stored that did not happen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odek.agent.loop import Agent
from odek.cancel import CancelToken
from odek.errors import StateFileError
from odek.events import Event, RequestStarted, Sink, ToolFinished, ToolStarted

if TYPE_CHECKING:
    from odek.session.recorder import Recorder
    from odek.session.transcript import GivenFile


class Keeper:
    """A sink that saves the conversation, then passes the event on.

    A disk that is full does not end a turn: it is told once, each step tries again, and
    `require_saved` says in the end whether all is stored.
    """

    def __init__(self, sink: Sink, warn: Callable[[str], None]) -> None:
        self._sink = sink
        self._warn = warn
        self._agent: Agent | None = None
        self._recorder: Recorder | None = None
        self._failure: StateFileError | None = None

    def keep(self, agent: Agent, recorder: Recorder | None) -> None:
        """Save what `agent` does with `recorder` from now on; None: nothing is kept."""
        self._agent, self._recorder = agent, recorder

    def __call__(self, event: Event) -> None:
        if isinstance(event, (RequestStarted, ToolStarted, ToolFinished)):
            self.save()
        self._sink(event)

    def save(self) -> None:
        """Store what is new."""
        if self._agent is None or self._recorder is None:
            return
        try:
            self._recorder.record(self._agent.messages, self._agent.usage)
            self._failure = None
        except StateFileError as error:
            if self._failure is None:
                self._warn(f"this step is not saved: {error.message}")
            self._failure = error

    def take_turn(
        self, task: str, *, cancel: CancelToken, model: str, cwd: str, files: tuple[GivenFile, ...] = ()
    ) -> str:
        """Let the agent work on `task` as a turn of its own and return the answer; saved, however it ends."""
        assert self._agent is not None
        if self._recorder is not None:
            self._recorder.begin_turn(model=model, cwd=cwd, files=files)
        try:
            return self._agent.run(task, cancel=cancel)
        finally:
            self.save()

    @property
    def outcome(self) -> str:
        """what became of the session, for the person who leaves it"""
        return "session saved" if self._failure is None else "session saved in part"

    def require_saved(self) -> None:
        """Raise StateFileError when something could not be stored."""
        if self._failure is not None:
            raise self._failure
