"""The place of a conversation: an open session whose container and model can be exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from odek.agent.loop import Agent
from odek.app.attachments import Attachment
from odek.app.bootstrap import CommandProfile, Session, make_model
from odek.cli.session import session
from odek.cli.terminal import Terminal
from odek.config.layers import Layer, Value
from odek.config.options import Source
from odek.config.resolve import resolve
from odek.config.settings import Settings
from odek.errors import UsageError
from odek.events import Sink
from odek.host import Host
from odek.model.types import Message, Model, Reply, ToolSpec
from odek.text import truncate, visible

_NAME_LENGTH = 128


class Box:
    """Holds the session that is open at present, and its agent."""

    def __init__(
        self,
        profile: CommandProfile,
        layers: Sequence[Layer],
        host: Host,
        terminal: Terminal,
        *,
        sink: Sink,
        files: Sequence[Attachment] = (),
    ) -> None:
        """`files` are in every container of this conversation."""
        self._profile = profile
        self._layers = tuple(layers)
        self._host = host
        self._terminal = terminal
        self._sink = sink
        self._files = files
        self._switch = _Switch()
        self._trusted: dict[str, set[str]] = {}
        """what the person said once holds in the next container, too, if its boundary is the same"""
        self._stack = ExitStack()
        self.opened: Session
        self.agent: Agent
        self.lost = False
        """whether the container of `opened` is gone"""

    @contextmanager
    def open(self, history: Sequence[Message]) -> Iterator[None]:
        """Open the session, to go on with `history`; its container ends with the block."""
        try:
            self._open(history)
            yield
        finally:
            self._stack.close()

    def restart(self) -> None:
        """End the container and go on in a new one. Raises OdekError; then there is none until the next try.

        A conversation of the host has nothing to start again, and a sandbox is never followed by the host.
        """
        if self.opened.facts is None:
            raise UsageError(
                "commands run on this host; there is no sandbox to start again", hint="/exit, then `odek repl`"
            )
        self.lost = True
        self._stack.close()
        self._profile = replace(self._profile, pinned=True)
        self._open(self.agent.messages)

    def begin_anew(self, history: Sequence[Message]) -> None:
        """Go on with other messages in the same place."""
        self.agent = self.opened.new_agent(history)

    def use_model(self, name: str) -> None:
        """Ask the model called `name` from now on. Raises OdekError when there cannot be such a client."""
        if len(name) > _NAME_LENGTH or not name.isprintable() or " " in name:
            raise UsageError(f'"{truncate(visible(name), 60)}" is no name of a model')
        value = Value(value=name, origin="/model")
        layers = (*self._layers, Layer(source=Source.FLAG, origin="/model", values={"model": value}))
        settings = resolve(layers)
        self._new_model(settings)
        self._layers = layers
        self.opened = replace(self.opened, settings=settings)

    def _open(self, history: Sequence[Message]) -> None:
        opened = self._stack.enter_context(
            session(
                self._profile,
                self._layers,
                self._host,
                self._terminal,
                sink=self._sink,
                history=history,
                attachments=self._files,
                new_model=self._new_model,
                trusted=self._trusted,
            )
        )
        self.opened, self.agent, self.lost = opened, opened.agent, False

    def _new_model(self, settings: Settings) -> Model:
        self._switch.model = make_model(settings, self._host, notify=self._terminal.aside)
        return self._switch


class _Switch:
    """A model that can be exchanged between two turns."""

    model: Model

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec], on_text: Callable[[str], None]) -> Reply:
        return self.model.complete(messages, tools, on_text)

    def window(self, conversation_tokens: int) -> int | None:
        return self.model.window(conversation_tokens)
