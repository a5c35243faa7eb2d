"""The slash commands of the conversation at a prompt: one table, of which `/help`, completion and docs/CLI.md are made.

A new command is one row of COMMANDS and its handler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odek.app.conversation import Conversation, compacted_line
from odek.app.runtime import Runtime
from odek.cli.terminal import Terminal
from odek.config.values import shown_url
from odek.errors import StateFileError, UsageError
from odek.host import Host
from odek.model.types import Usage
from odek.text import render_usd, truncate, visible

if TYPE_CHECKING:
    from odek.app.own_commands import OwnCommand
    from odek.snapshot.restore import Plan
    from odek.snapshot.store import Record

ENDS = ("/exit", "/quit")
_HINT_LENGTH = 24
_HELP_LENGTH = 50
PLACE_ON_HOST = "commands run ON THIS HOST, without a sandbox"
PLACE_LOST = "the sandbox is gone: /sandbox restart begins a new one"
_ELSE = (
    "Anything else is a task. @FILE in it attaches a file, the tab key completes its name; a backslash at the end of a "
    "line continues it in the next. Ctrl-C cancels a turn, twice leaves."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashContext:
    """What a slash command works with."""

    conversation: Conversation
    terminal: Terminal
    host: Host
    commands: Sequence[SlashCommand]
    """all that can be called"""
    models: Callable[[str], Sequence[str]]
    """the names of models that begin with a text; may ask servers"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """One row of the table."""

    name: str
    """with its slash"""
    help: str
    """one line, for the list"""
    handle: Callable[[SlashContext, str], str | None]
    """carries it out; gets the argument, without blanks around it, and returns what the model is to do, if anything.
    Raises OdekError"""
    argument: str = ""
    """how the argument is written, in brackets where it may be left out; "": there is none, and one is refused"""
    choices: Callable[[SlashContext, str], Sequence[str]] | None = None
    """arguments that begin with a text, for completion"""


def find_command(commands: Sequence[SlashCommand], word: str, argument: str) -> SlashCommand:
    """Return the row of `word`. Raises UsageError: there is none, or not with this `argument`."""
    found = next((command for command in commands if command.name == word), None)
    if found is None or (argument and not found.argument) or (not argument and found.argument[:1] not in ("", "[")):
        said = truncate(visible(f"{word} {argument}".strip()), 60)
        raise UsageError(f'"{said}" is not a command', hint="/help lists them")
    return found


def complete_command(context: SlashContext, word: str, line: str) -> Sequence[str] | None:
    """Return the completions of `word`, a command or the argument of the one in `line`; None: it is neither."""
    words = line.split()
    if not words:
        return _complete_name(context, word) if word.startswith("/") else None
    found = next((command for command in context.commands if [command.name] == words), None)
    if found is None or found.choices is None:
        return None
    return sorted(choice for choice in found.choices(context, word) if choice.startswith(word))


def _complete_name(context: SlashContext, word: str) -> Sequence[str]:
    arguments = {**{command.name: command.argument for command in context.commands}, **dict.fromkeys(ENDS, "")}
    names = sorted(name for name in arguments if name.startswith(word))
    # behind the only one its argument can be typed at once
    return [f"{name} " for name in names] if len(names) == 1 and arguments[names[0]] else names


def render_place(conversation: Conversation) -> str:
    """Return all that is known of the place."""
    facts = conversation.workspace.facts
    if conversation.lost:
        return PLACE_LOST
    if facts is None:
        return f"{PLACE_ON_HOST}: {visible(conversation.workspace.executor.workspace)}"
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
    none = conversation.unkept or "none yet: it is made with the first turn"
    rows = [("session", summary.header.id if summary else none)]
    rows += [("model", model.full_name), ("server", shown_url(model.base_url))]
    if summary:
        rows += [
            ("turns", str(summary.state.turns)),
            ("task", summary.header.task),
            ("created", summary.header.created_at),
        ]
    place = PLACE_LOST if conversation.lost else f"sandbox {facts.name}" if facts else PLACE_ON_HOST
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


def render_help(commands: Sequence[SlashCommand]) -> str:
    """Return the list of commands."""
    return _table([(f"{command.name} {command.argument}".strip(), command.help) for command in commands])


def _table(rows: tuple[tuple[str, str], ...] | list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name.ljust(width)}  {visible(value)}" for name, value in rows if value)


def _show(context: SlashContext, text: str) -> None:
    """Print a table, folded for a terminal."""
    from odek.cli.help import fold

    context.terminal.line(fold(text, context.terminal.columns if context.host.stderr_is_terminal else 0))


def _help(context: SlashContext, _: str) -> None:
    from odek.cli.wrap import wrap_rows

    _show(context, render_help(context.commands))
    context.terminal.line()
    context.terminal.line("\n".join(wrap_rows(_ELSE, context.terminal.columns)))


def _info(context: SlashContext, _: str) -> None:
    _show(context, render_info(context.conversation, context.host.cwd))


def _model(context: SlashContext, name: str) -> None:
    conversation = context.conversation
    if not name:
        context.terminal.line(visible(conversation.settings.model.full_name))
        return
    conversation.set_model(name)
    model = conversation.settings.model
    place = f" ({shown_url(model.base_url)})" if model.chosen_server else ""
    context.terminal.note(f"the model is {visible(model.full_name)}{place} from now on")


def _sandbox(context: SlashContext, action: str) -> None:
    if action not in ("", "restart"):
        raise UsageError(
            f'"/sandbox {truncate(visible(action), 60)}" is not a command', hint="/sandbox, or /sandbox restart"
        )
    if action:
        context.conversation.restart()
    else:
        _show(context, render_place(context.conversation))


def _plan(context: SlashContext, argument: str) -> str:
    conversation = context.conversation
    conversation.set_planning(argument != "off")
    if argument in ("", "off"):
        words = "turns only plan" if conversation.planning else "turns do the work"
        context.terminal.note(f"{words} from now on{', and /plan off ends that' if conversation.planning else ''}")
        return ""
    return argument


def _show_cost(context: SlashContext, _: str) -> None:
    _show(context, render_cost(context.conversation))


def _diff(context: SlashContext, argument: str) -> None:
    from odek.app.turn_files import project_files
    from odek.cli.turn_changes import Which, parse_number, show_diff

    conversation = context.conversation
    which = Which(session=conversation.kept.key, turn=parse_number(argument) or conversation.turns)
    show_diff(project_files(context.host, conversation.settings), which, context.terminal)


def _undo(context: SlashContext, argument: str) -> None:
    if argument not in ("", "partial", "talk"):
        raise UsageError(
            f'"/undo {truncate(visible(argument), 60)}" is not a command', hint="/undo, /undo partial or /undo talk"
        )
    conversation, undone = context.conversation, False
    if argument != "talk" and conversation.turns:
        if conversation.unkept:
            context.terminal.note("this takes back files alone: the conversation is not kept, see /info")
        undone = _undo_files(context, partial=argument == "partial")
        if undone and conversation.unkept:
            return
    try:
        conversation.undo()
    except StateFileError as error:
        if not undone:
            raise
        raise StateFileError(
            f"the files are taken back, the conversation is not: {error.message}", hint="/undo talk tries that again"
        ) from error
    files = "the files are as it left them" if argument == "talk" else "the model does not know of it any more"
    context.terminal.note(f"the last turn is taken back; {files}")


def _undo_files(context: SlashContext, *, partial: bool) -> bool:
    """Take back what the last turn changed, and return whether it changed anything.

    Raises OdekError; then nothing is taken back.
    """
    from odek.app.turn_files import project_files
    from odek.cli.turn_changes import Which, doubts_of, report_undone, undo_files
    from odek.snapshot.project import NothingKept

    conversation, terminal, name = context.conversation, context.terminal, "the last turn"
    which = Which(session=conversation.kept.key, turn=conversation.turns)

    def warn(record: Record, _: Plan) -> None:
        for doubt in doubts_of(record):
            terminal.warn(doubt)

    try:
        undone = undo_files(
            project_files(context.host, conversation.settings), which, partial=partial,
            partial_hint="/undo partial leaves these as they are, /undo talk leaves all files",
            ask=warn, name=name,
        )  # fmt: skip
    except NothingKept:
        return False
    report_undone(undone, terminal, name=name)
    return True


def _compact(context: SlashContext, words: str) -> None:
    context.terminal.note(compacted_line(*context.conversation.compact(words)))


def own_rows(runtime: Runtime, *, at_terminal: bool) -> tuple[SlashCommand, ...]:
    """Return the commands of the user's own, and of the project's what is approved; `at_terminal`: asks for it."""
    from odek.app.own_commands import own_commands  # a conversation alone has them

    taken = (*(command.name for command in COMMANDS), *ENDS)
    return tuple(map(_own_row, own_commands(runtime, taken=taken, may_ask=at_terminal)))


def _own_row(own: OwnCommand) -> SlashCommand:
    from odek.app.own_commands import expand

    said = truncate(visible(own.description or own.text.split("\n")[0]), _HELP_LENGTH)
    return SlashCommand(
        name=f"/{own.name}",
        argument=f"[{truncate(visible(own.hint).strip('[]'), _HINT_LENGTH) or '…'}]",
        help=f"{said} (this project's)" if own.by_project else said,
        handle=lambda _, argument: expand(own, argument),
    )


def _leave(_: SlashContext, __: str) -> None:
    """Do nothing: the loop ends before it calls this."""


COMMANDS = (
    SlashCommand(name="/help", help="this list", handle=_help),
    SlashCommand(name="/info", help="the session: its id, model, turns and folder", handle=_info),
    SlashCommand(
        name="/model",
        argument="[NAME]",
        help="the model; NAME or PROVIDER/NAME: go on with another",
        handle=_model,
        choices=lambda context, beginning: context.models(beginning),
    ),
    SlashCommand(
        name="/sandbox",
        argument="[restart]",
        help="where commands run; restart begins with a new container",
        handle=_sandbox,
        choices=lambda _, __: ("restart",),
    ),
    SlashCommand(
        name="/plan",
        argument="[TASK]",
        help="only plan, and change nothing; /plan off ends that",
        handle=_plan,
        choices=lambda _, __: ("off",),
    ),
    SlashCommand(name="/cost", help="the tokens that were used, and what they cost", handle=_show_cost),
    SlashCommand(
        name="/compact",
        argument="[WORDS]",
        help="replace what was said by a summary; WORDS: what matters",
        handle=_compact,
    ),
    SlashCommand(name="/diff", argument="[TURN]", help="what the last turn, or TURN, changed in files", handle=_diff),
    SlashCommand(
        name="/undo",
        argument="[talk]",
        help="take back the last turn with its files; talk: without",
        handle=_undo,
        choices=lambda _, __: ("partial", "talk"),
    ),
    SlashCommand(name="/exit", help="leave, as /quit and Ctrl-D do; the session stays", handle=_leave),
)
"""in the order of the list"""
