"""odek man: the manual page, in the system's viewer or as text."""

from __future__ import annotations

import tempfile

from odek.cli.command_docs import CommandDoc, read_command_docs
from odek.cli.help import DEFAULT_COLUMNS, help_columns
from odek.cli.main import COMMANDS
from odek.cli.manual import render_man, render_plain
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.errors import ExecutableMissing, UsageError
from odek.host import Host, trusted_path, which
from odek.process import run_attached
from odek.secret_names import is_secret_name
from odek.text import truncate, visible


def parser() -> CommandParser:
    """Return the parser of `odek man`."""
    made = CommandParser(
        "man",
        COMMANDS["man"][1],
        usage="[--roff] [COMMAND [ACTION]]",
        examples=("odek man", "odek man session", "odek man --roff >~/.local/share/man/man1/odek.1"),
    )
    made.add_argument("command", nargs="*", metavar="COMMAND", help="the part about one command; unset: all of it")
    made.add_argument("--roff", action="store_true", help="the source of the page, for `man` itself")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Show the manual page: at a terminal by `man` or a pager, else as text."""
    parsed, rest = parser().read(arguments)
    pages = choose_pages(read_command_docs(), (*parsed.command, *rest))
    if parsed.roff:
        terminal.answer(render_man(pages))
        return 0
    if host.stdout_is_terminal:
        if _is_shown_by("man", ("-l",), render_man(pages), host):
            return 0
        text = render_plain(pages, help_columns())
        if _is_shown_by("less", ("-F",), text, host):
            return 0
    else:
        text = render_plain(pages, DEFAULT_COLUMNS)
    terminal.answer(text)
    return 0


def choose_pages(pages: tuple[CommandDoc, ...], words: tuple[str, ...]) -> tuple[CommandDoc, ...]:
    """Return the pages of a command and its actions. Raises UsageError when there is none."""
    chosen = tuple(page for page in pages if page.words[: len(words)] == words)
    if not chosen:
        given = truncate(visible(" ".join(words)), 60)
        raise UsageError(f'there is no command "{given}"', hint="`odek --help` lists the commands")
    return chosen


def _is_shown_by(name: str, options: tuple[str, ...], text: str, host: Host) -> bool:
    """Show `text` at the terminal with a program of the system; return whether it could."""
    program = which(name, host) if host.env.get("TERM", "dumb") != "dumb" else None
    if program is None:
        return False
    env = {name: text for name, text in host.env.items() if not is_secret_name(name)}
    try:
        with tempfile.NamedTemporaryFile("w", prefix="odek-", suffix=".1", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            return run_attached((program, *options, file.name), env={**env, "PATH": trusted_path(host)}) == 0
    except (ExecutableMissing, OSError):
        return False
