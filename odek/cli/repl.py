"""The conversation at a prompt: reads entries, carries out slash commands, and survives failed turns.

Where commands run is decided once, at the beginning, and cannot change: when a sandbox is lost, the next one is
started on request, in a container or not at all (R-42).
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from odek.app.conversation import Conversation
from odek.cli import signals
from odek.cli.console import QuietSink, StreamingRenderer, show_answer, shown_output
from odek.cli.plan import ask_to_go_on
from odek.cli.prompt_input import LineReader
from odek.cli.quiet_input import silent_typing
from odek.cli.rows import marks_of
from odek.cli.slash import ENDS, PLACE_LOST, PLACE_ON_HOST, SlashContext, find_command
from odek.cli.task import read_attachments
from odek.errors import EXIT_ERROR, EXIT_OK, EXIT_SIGNAL_BASE, Interrupted, OdekError, UsageError
from odek.sandbox.errors import SandboxLost
from odek.text import plural, visible

_TURN_CANCELLED = "the turn was cancelled; what was done so far stays in the conversation"


class Repl:
    """One conversation at a terminal or from a pipe."""

    def __init__(
        self,
        *,
        slash: SlashContext,
        lines: LineReader,
        renderer: StreamingRenderer | QuietSink,
        remember: Callable[[str], None],
    ) -> None:
        """`renderer` shows what happens, and answers. `remember` keeps what was typed."""
        self._slash = slash
        self._conversation = slash.conversation
        self._lines = lines
        self._host = slash.host
        self._terminal = slash.terminal
        self._renderer = renderer
        self._remember = remember
        self._failed = False

    def run(self) -> int:
        """Talk until the end of the input; return the exit code.

        At a terminal that is 0, or 130 after two Ctrl-C; from a pipe 1 when a turn failed. Interrupted
        passes through for SIGTERM and SIGHUP, and for any signal when the input is a pipe.
        """
        leaving = False
        while True:
            signals.rearm()
            try:
                entry = self._read()
            except Interrupted as interruption:
                self._require_ctrl_c(interruption)
                self._terminal.line()
                if leaving and not self._lines.unfinished:  # who has typed meanwhile did not want to leave
                    return EXIT_SIGNAL_BASE + signal.SIGINT
                leaving = True
                self._terminal.note("Ctrl-C once more leaves, and so does Ctrl-D")
                continue
            leaving = False
            if entry is None or entry.strip() in ENDS:
                break
            if entry.strip():
                self._answer(entry)
        if entry is None and self._lines.interactive:
            self._terminal.line()
        return EXIT_ERROR if self._failed and not self._lines.interactive else EXIT_OK

    def _read(self) -> str | None:
        if self._lines.interactive:
            calm = self._conversation.workspace.facts and not self._conversation.lost
            status = marks_of(self._terminal.look).summary + render_status(self._conversation)
            self._terminal.sentence(status, "dim" if calm else "yellow")
        try:
            return self._lines.read(f"odek {self._conversation.turns + 1}> ")
        except UsageError as error:
            self._show_error(error)
            return ""

    def _answer(self, entry: str) -> None:
        """Carry out `entry`; the conversation goes on whatever fails."""
        word, _, rest = entry.strip().partition(" ")
        is_command = word.startswith("/") and "/" not in word[1:]
        try:
            with silent_typing(), signals.turn():
                self._lines.add_history(entry)
                self._remember(entry)
                if is_command:
                    self._command(word, rest.strip())
                else:
                    self._turn(entry)
        except Interrupted as interruption:
            self._end_line()
            self._require_ctrl_c(interruption)
            self._terminal.note(f"{entry.strip()} was cancelled" if is_command else _TURN_CANCELLED)
        except SandboxLost as error:
            self._show_error(error, hint="nothing was moved to this host; /sandbox restart begins with a new container")
        except OdekError as error:
            self._show_error(error)

    def _turn(self, entry: str) -> None:
        self._send(entry)
        task = ask_to_go_on(self._conversation, self._terminal) if self._lines.interactive else ""
        if task:
            self._send(task)

    def _send(self, entry: str) -> None:
        attachments = read_attachments(entry, (), self._host, self._terminal)
        with shown_output(self._renderer, self._conversation, self._host):
            answer = self._conversation.send(entry, files=attachments)
        show_answer(self._renderer, self._terminal, answer)
        self._conversation.require_saved()

    def _command(self, word: str, argument: str) -> None:
        task = find_command(self._slash.commands, word, argument).handle(self._slash, argument)
        if task:
            self._turn(task)

    def _require_ctrl_c(self, interruption: Interrupted) -> None:
        """Raise `interruption` again unless it is a person's Ctrl-C."""
        if interruption.signal_number != signal.SIGINT or not self._lines.interactive:
            raise interruption

    def _show_error(self, error: OdekError, *, hint: str = "") -> None:
        self._end_line()
        self._failed = True
        if hint:
            error.hint = hint
        self._terminal.error(error)

    def _end_line(self) -> None:
        if isinstance(self._renderer, StreamingRenderer):
            self._renderer.end_line()


def render_status(conversation: Conversation) -> str:
    """Return the line before a prompt: where commands run, which model answers, how far it has come."""
    facts = conversation.workspace.facts
    place = f"sandbox {facts.name} · network {facts.network}" if facts else PLACE_ON_HOST
    place = PLACE_LOST if conversation.lost else place
    place = f"plan only · {place}" if conversation.planning else place
    return f"{place} · {visible(conversation.settings.model.full_name)} · {plural(conversation.turns, 'turn')}"
