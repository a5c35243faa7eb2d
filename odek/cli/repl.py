"""The conversation at a prompt: reads entries, carries out slash commands, and survives failed turns.

Where commands run is decided once, at the beginning, and cannot change: when a sandbox is lost, the next one is
started on request, in a container or not at all (R-42).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping

from odek.app.conversation import Conversation
from odek.cli import signals
from odek.cli.console import StreamingRenderer
from odek.cli.prompt_input import LineReader
from odek.cli.task import read_attachments
from odek.cli.terminal import Terminal
from odek.config.values import shown_url
from odek.errors import EXIT_ERROR, EXIT_OK, EXIT_SIGNAL_BASE, Interrupted, OdekError, UsageError
from odek.host import Host
from odek.model.types import Usage
from odek.sandbox.errors import SandboxLost
from odek.text import plural, render_usd, truncate, visible

_HOST = "commands run ON THIS HOST, without a sandbox"
_LOST = "the sandbox is gone: /sandbox restart begins a new one"


COMMANDS: Mapping[str, str] = {
    "/help": "this list",
    "/info": "the session: its id, model, turns and folder",
    "/model": "the model; /model NAME or PROVIDER/NAME continues with another one",
    "/sandbox": "where commands run; /sandbox restart begins with a new container",
    "/cost": "the tokens that were used, and what they cost",
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
        conversation: Conversation,
        lines: LineReader,
        host: Host,
        terminal: Terminal,
        renderer: StreamingRenderer | None,
        remember: Callable[[str], None],
    ) -> None:
        """`renderer` shows text as it arrives; None: answers are printed whole. `remember` keeps what was typed."""
        self._conversation = conversation
        self._lines = lines
        self._host = host
        self._terminal = terminal
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
            calm = self._conversation.workspace.facts and not self._conversation.lost
            status = render_status(self._conversation)
            self._terminal.line(self._terminal.style(status, "dim" if calm else "yellow"))
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
            with signals.turn():
                self._lines.add_history(entry)
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
            self._show_error(error, hint="nothing was moved to this host; /sandbox restart begins with a new container")
        except OdekError as error:
            self._show_error(error)

    def _turn(self, entry: str) -> None:
        attachments = read_attachments(entry, (), self._host, self._terminal)
        answer = self._conversation.send(entry, files=attachments)
        self._end_line()
        if self._renderer is None or not self._renderer.was_shown(answer):
            self._terminal.answer(answer)
        self._conversation.require_saved()

    def _command(self, word: str, rest: str) -> None:
        conversation = self._conversation
        match word, rest:
            case "/help", "":
                self._terminal.line(render_help(COMMANDS))
            case "/info", "":
                self._terminal.line(render_info(conversation, self._host.cwd))
            case "/cost", "":
                self._terminal.line(render_cost(conversation))
            case "/model", "":
                self._terminal.line(visible(conversation.settings.model.full_name))
            case "/model", name:
                conversation.set_model(name)
                model = conversation.settings.model
                place = f" ({shown_url(model.base_url)})" if model.chosen_server else ""
                self._terminal.note(f"the model is {visible(model.full_name)}{place} from now on")
            case "/sandbox", "":
                self._terminal.line(render_place(conversation))
            case "/sandbox", "restart":
                conversation.restart()
            case "/undo", "":
                conversation.undo()
                self._terminal.note("the last turn is taken back; the files are as it left them")
            case _:
                raise UsageError(
                    f'"{truncate(visible(f"{word} {rest}".strip()), 60)}" is not a command', hint="/help lists them"
                )

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
        if self._renderer is not None:
            self._renderer.end_line()


def render_status(conversation: Conversation) -> str:
    """Return the line before a prompt: where commands run, which model answers, how far it has come."""
    facts = conversation.workspace.facts
    place = _LOST if conversation.lost else f"sandbox {facts.name} · network {facts.network}" if facts else _HOST
    return f"── {place} · {visible(conversation.settings.model.full_name)} · {plural(conversation.turns, 'turn')}"


def render_place(conversation: Conversation) -> str:
    """Return all that is known of the place."""
    facts = conversation.workspace.facts
    if conversation.lost:
        return _LOST
    if facts is None:
        return f"{_HOST}: {visible(conversation.workspace.executor.workspace)}"
    rows = (
        ("container", facts.name),
        ("image", f"{facts.image} ({facts.image_id[:19]})"),
        ("user", facts.user),
        ("network", facts.network + (" (internet reachable)" if facts.internet else " (no internet)")),
        ("attached", ", ".join(network.name for network in facts.networks)),
        ("workspace", "read-only" if facts.readonly else "writable" if facts.workspace_writable else "only readable"),
        ("processes", f"at most {facts.pids_limit}"),
    )
    return _table(rows)


def render_info(conversation: Conversation, cwd: str) -> str:
    """Return what the conversation is."""
    model, summary, facts = conversation.settings.model, conversation.summary, conversation.workspace.facts
    rows = [("session", summary.header.id if summary else "none yet: it is made with the first turn")]
    rows += [("model", model.full_name), ("server", shown_url(model.base_url))]
    if summary:
        rows += [
            ("turns", str(summary.state.turns)),
            ("task", summary.header.task),
            ("created", summary.header.created_at),
        ]
    place = _LOST if conversation.lost else f"sandbox {facts.name}" if facts else _HOST
    rows += [("folder", cwd), ("place", place)]
    return _table(rows)


def render_cost(conversation: Conversation) -> str:
    """Return the tokens of the whole session, as the provider counted them, and what those of known price cost."""
    summary = conversation.summary
    if summary is None:
        return "nothing was sent yet"
    usage = summary.state.usage
    rows = (
        ("model", conversation.settings.model.full_name),
        ("turns", str(summary.state.turns)),
        ("tokens in", f"{usage.input_tokens} ({usage.cached_tokens} of them cached)"),
        ("tokens out", str(usage.output_tokens)),
        ("cost", _cost(usage)),
    )
    return _table(rows)


def _cost(usage: Usage) -> str:
    if usage.known_cost_usd is None:
        return "not known: providers in ~/.odek/config.json can hold the model's prices"
    unknown = usage.input_tokens + usage.output_tokens - usage.priced_tokens
    return render_usd(usage.cost_usd) + (f", and {unknown} tokens whose price is not known" if unknown else "")


def render_help(commands: Mapping[str, str]) -> str:
    """Return the list of commands, and what else can be typed."""
    return "\n".join(
        (
            _table(tuple(commands.items())),
            "",
            "Anything else is a task. @FILE in it attaches a file, the tab key completes its",
            "name; a backslash at the end of a line continues it in the next. Ctrl-C cancels",
            "a turn, twice leaves.",
        )
    )


def _table(rows: tuple[tuple[str, str], ...] | list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name.ljust(width)}  {visible(value)}" for name, value in rows if value)
