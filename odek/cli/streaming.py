"""Narrates a turn at a terminal and shows the model's text while it is being written."""

from __future__ import annotations

from odek.agent.events import Event, ModelAsked, ModelReplied, TextArrived, TextVoided
from odek.cli.narrator import Narrator
from odek.cli.terminal import Terminal


class StreamingNarrator(Narrator):
    """A Narrator that also streams, where stdout is a terminal."""

    def __init__(self, terminal: Terminal, *, verbose: bool, streams: bool) -> None:
        super().__init__(terminal, verbose=verbose)
        self._streams = streams
        self._open = False
        """whether a line has begun and not ended"""
        self._held = ""
        """a carriage return whose line feed may be still to come"""
        self._shown = ""
        """the text of the last reply, as far as it was shown"""

    def __call__(self, event: Event) -> None:
        if isinstance(event, TextArrived) and self._streams:
            self._stream(event.text)
        else:
            self.end_line()
            if isinstance(event, ModelAsked | TextVoided):
                self._shown = ""
            if isinstance(event, ModelAsked) and event.iteration == 1:
                self._started = self._now()  # a turn, not the conversation, is what is timed
            super().__call__(event)

    def end_line(self) -> None:
        """End a line that is open, because the turn was."""
        if self._held:
            self._terminal.stream(self._held)
        if self._open:
            self._terminal.stream("\n")
        self._open, self._held = False, ""

    def was_shown(self, answer: str) -> bool:
        """Return whether `answer` stands on the terminal already."""
        return self._shown.strip() == answer.strip()

    def _replied(self, event: ModelReplied) -> None:
        if not self.was_shown(event.reply.message.content):  # a model that does not stream
            super()._replied(event)

    def _stream(self, text: str) -> None:
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r")
        if not self._shown:
            text = text.lstrip("\n")
        if text:
            self._terminal.stream(text)
            self._shown += text
            self._open = not text.endswith("\n")
