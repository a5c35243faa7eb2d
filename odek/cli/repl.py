"""A conversation, turn by turn: reads entries, answers slash commands, survives all but its own end.

Where commands run is decided once, at the beginning, and cannot change: a sandbox that is lost is
told and can be started again, in the container or not at all (R-42).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from odek.cli import signals
from odek.cli.box import Box
from odek.cli.lines import Lines
from odek.cli.repl_view import render_cost, render_help, render_info, render_place, render_status
from odek.cli.streaming import StreamingNarrator
from odek.cli.task import read_attachments, render
from odek.cli.terminal import Terminal
from odek.errors import EXIT_ERROR, EXIT_OK, EXIT_SIGNAL_BASE, Interrupted, OdekError, UsageError
from odek.host import Host
from odek.sandbox.errors import SandboxLost
from odek.text import clip, visible

if TYPE_CHECKING:
    from odek.cli.kept import Kept

COMMANDS: Mapping[str, str] = {
    "/help": "this list",
    "/info": "the session: its id, model, turns and folder",
    "/model": "the model; /model NAME goes on with another one",
    "/sandbox": "where commands run; /sandbox restart begins with a new container",
    "/cost": "the tokens that were used",
    "/undo": "take the last turn back; files stay as they are",
    "/exit": "leave; the session can be continued (also /quit and Ctrl-D)",
}
_ENDS = ("/exit", "/quit")
_TURN_CANCELLED = "the turn was cancelled; what was done so far stays in the conversation"


class Repl:
    """One conversation at a terminal or from a pipe."""

    def __init__(
        self,
        *,
        box: Box,
        kept: Kept,
        lines: Lines,
        host: Host,
        terminal: Terminal,
        narrator: StreamingNarrator | None,
        remember: Callable[[str], None],
    ) -> None:
        """`narrator` shows text as it arrives; None: answers are printed whole. `remember` keeps what was typed."""
        self._box = box
        self._kept = kept
        self._lines = lines
        self._host = host
        self._terminal = terminal
        self._narrator = narrator
        self._remember = remember
        self._failed = False

    def run(self) -> int:
        """Talk until the end of the input; return the exit code.

        At a terminal that is 0, or 130 after two Ctrl-C; from a pipe 1 when a turn failed. Interrupted
        passes through for SIGTERM and SIGHUP, and for any signal when there is nobody at a terminal.
        """
        leaving = False
        while True:
            signals.rearm()
            try:
                entry = self._read()
            except Interrupted as interruption:
                self._require_ctrl_c(interruption)
                self._terminal.line()
                if leaving:
                    return EXIT_SIGNAL_BASE + signal.SIGINT
                leaving = True
                self._terminal.note("Ctrl-C once more leaves, and so does Ctrl-D")
                continue
            leaving = False
            if entry is None or entry.strip() in _ENDS:
                break
            if entry.strip():
                self._answer(entry)
        if entry is None and self._lines.interactive:
            self._terminal.line()
        return EXIT_ERROR if self._failed and not self._lines.interactive else EXIT_OK

    def _read(self) -> str | None:
        if self._lines.interactive:
            status = render_status(self._box.opened, self._kept.turns, lost=self._box.lost)
            calm = self._box.opened.facts and not self._box.lost
            self._terminal.line(self._terminal.style(status, "dim" if calm else "yellow"))
        try:
            return self._lines.read(f"odek {self._kept.turns + 1}> ")
        except UsageError as error:
            self._tell(error)
            return ""

    def _answer(self, entry: str) -> None:
        """Do what `entry` says; whatever fails in it, the conversation goes on."""
        word, _, rest = entry.strip().partition(" ")
        is_command = word.startswith("/") and "/" not in word[1:]
        try:
            self._lines.remember(entry)
            self._remember(entry)
            if is_command:
                self._command(word, rest.strip())
            else:
                self._turn(entry)
        except Interrupted as interruption:
            self._end_line()
            self._require_ctrl_c(interruption)
            self._terminal.line()
            self._terminal.note(f"{entry.strip()} was cancelled" if is_command else _TURN_CANCELLED)
        except SandboxLost as error:
            self._box.lost = True
            self._tell(error, hint="nothing was moved to this host; /sandbox restart begins with a new container")
        except OdekError as error:
            self._tell(error)

    def _turn(self, entry: str) -> None:
        attachments = read_attachments(entry, (), self._host, self._terminal)
        whole = render(entry, attachments, self._box.opened, self._terminal)
        answer = self._kept.take_turn(self._box, entry, whole)
        self._end_line()
        if self._narrator is None or not self._narrator.was_shown(answer):
            self._terminal.answer(answer)
        self._kept.require_saved()

    def _command(self, word: str, rest: str) -> None:
        opened = self._box.opened
        match word, rest:
            case "/help", "":
                self._terminal.line(render_help(COMMANDS))
            case "/info", "":
                self._terminal.line(render_info(opened, self._kept.summary, self._host.cwd, lost=self._box.lost))
            case "/cost", "":
                self._terminal.line(render_cost(opened, self._kept.summary))
            case "/model", "":
                self._terminal.line(visible(opened.settings.model.model))
            case "/model", name:
                self._box.use_model(name)
                self._terminal.note(f"the model is {visible(name)} from now on")
            case "/sandbox", "":
                self._terminal.line(render_place(opened, lost=self._box.lost))
            case "/sandbox", "restart":
                self._box.restart()
                self._kept.follow(self._box)
            case "/undo", "":
                self._kept.undo(self._box)
                self._terminal.note("the last turn is taken back; the files are as it left them")
            case _:
                raise UsageError(
                    f'"{clip(visible(f"{word} {rest}".strip()), 60)}" is no command', hint="/help lists them"
                )

    def _require_ctrl_c(self, interruption: Interrupted) -> None:
        """Raise `interruption` again unless it is a person's Ctrl-C."""
        if interruption.signal_number != signal.SIGINT or not self._lines.interactive:
            raise interruption

    def _tell(self, error: OdekError, *, hint: str = "") -> None:
        self._end_line()
        self._failed = True
        if hint:
            error.hint = hint
        self._terminal.error(error)

    def _end_line(self) -> None:
        if self._narrator is not None:
            self._narrator.end_line()
