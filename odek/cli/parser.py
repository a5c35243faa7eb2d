"""Command lines: one parser per command, its settings' flags made from the options table (R-12).

Flags may stand before or after the arguments; `--` ends them. Unknown and abbreviated flags are
errors: a misspelt flag must neither become part of the task nor change it (F-25).
"""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from odek.cli.streams import write_stdout
from odek.config.options import Option
from odek.config.settings import OPTIONS, flag_options
from odek.errors import UsageError
from odek.text import truncate, visible

argparse._ = str  # type: ignore[attr-defined]
"""English, as all of odek's words are; to look for a translation takes a millisecond"""
_HEADINGS = {
    "model": "model",
    "limits": "limits of a task",
    "agent": "agent",
    "tools": "tools",
    "sandbox": "sandbox",
    "serve": "server",
}


HIDDEN = argparse.SUPPRESS
"""the help of what is taken and not shown"""
ParserAction = argparse.Action


class CommandParser(argparse.ArgumentParser):
    """argparse with odek's own errors: a message and a hint, exit code 2."""

    def __init__(
        self,
        command: str,
        summary: str,
        *,
        usage: str,
        examples: tuple[str, ...] = (),
        actions: tuple[str, ...] = (),
    ) -> None:
        """`actions` are the words that may follow the command, for completion."""
        super().__init__(
            prog=f"odek {command}",
            usage=f"odek {command} {usage}".rstrip(),
            description=summary[:1].upper() + summary[1:] + ".",
            # one is made for each argument; to ask for the width of the terminal would load what archives need
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=80),
            allow_abbrev=False,
        )
        self.color = False
        """Python 3.14 would colour the help, in a way that no setting of odek switches off"""
        self.command = command
        self.examples = examples
        self.actions = actions
        self.keys: tuple[str, ...] = ()

    def error(self, message: str) -> NoReturn:
        names = [flag for flag in self._option_string_actions if flag.startswith("--")]
        before, of_words, words = message.partition("unrecognized arguments: ")
        if of_words:  # the word after an unknown option is listed, too, up to Python 3.13
            options = [word for word in words.split(" ") if word.startswith("-")]
            message = before + of_words + (" ".join(options) or words)
        unknown = message.removeprefix("unrecognized arguments: ").split("=")[0].split(" ")[0]
        hint = _hint_for_option(unknown, names, self.command) if unknown != message else ""
        raise UsageError(
            truncate(visible(message), 300), hint=hint or f"`odek {self.command} --help` lists the options"
        )

    def format_help(self) -> str:
        """Return the help, as wide as the terminal; 80 columns where there is none."""
        from odek.cli.help import help_columns

        return self.render_help(help_columns())

    def render_help(self, columns: int) -> str:
        """Return the help in lines of at most `columns`, as far as examples allow."""
        from odek.cli.help import wrap, wrap_example

        self.formatter_class = lambda prog: _HelpFormatter(prog, width=columns, max_help_position=min(26, columns // 3))
        usage, summary, notes = self.usage, self.description, self.epilog
        examples = (wrap_example(f"  {example}", columns) for example in self.examples)
        self.usage = wrap(usage or "", columns - len("usage: "), indent=" " * 8)
        self.description = wrap(summary or "", columns)
        self.epilog = "\n".join((*(("Examples:", *examples) if self.examples else ()), *((notes,) if notes else ())))
        text = super().format_help()
        self.usage, self.description, self.epilog = usage, summary, notes
        return text

    def print_help(self, file: object = None) -> NoReturn:  # noqa: ARG002 - argparse calls it
        """Print the help and end; argparse itself would leave with 0 when nothing could be printed."""
        raise SystemExit(write_stdout(self.format_help()))

    def add_settings(self, *, of: str = "", without: tuple[str, ...] = (), used: tuple[str, ...] = ()) -> None:
        """Add the flags of the settings of this command, or of another one, grouped as the table groups them.

        `without`: keys of settings that mean nothing here. `used`: keys of those that count here, or a group and a
        star; the others are taken, so that a command line of the other command fits, and not shown.
        """
        command = of or self.command
        options = [option for option in flag_options(command) if option.key not in without]
        groups: dict[str, argparse._ArgumentGroup] = {}
        for option in options:
            heading = _HEADINGS[option.group]
            if heading not in groups:
                groups[heading] = self.add_argument_group(heading)
            _add_flag(
                groups[heading], option, command, shown=not used or f"{option.group}*" in used or option.key in used
            )
        self.keys = tuple(option.key for option in options)

    def reword(self, flag: str, text: str) -> None:
        """Let the help of `flag`, which means something else here than in the table of settings, say `text`."""
        self._option_string_actions[flag].help = text

    def refuse(self, flag: str, why: str, *, hint: str) -> None:
        """Let `flag`, which could be expected here, end in an explanation."""
        self.add_argument(flag, action=_Refusal, nargs="?", const=(f"{flag} {why}", hint), help=argparse.SUPPRESS)

    def read(self, arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
        """Return the parsed flags and everything after `--`."""
        rest: list[str] = []
        if "--" in arguments:
            cut = arguments.index("--")
            arguments, rest = arguments[:cut], arguments[cut + 1 :]
        return self.parse_intermixed_args(arguments), rest

    def read_flags(self, arguments: list[str]) -> argparse.Namespace:
        """Return the parsed flags of a command that takes no words, after `--` neither."""
        parsed, rest = self.read(arguments)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return parsed

    def flags(self, parsed: argparse.Namespace) -> dict[str, object]:
        """Return, by option key, what the command line said of the settings and nothing else."""
        return {key: value for key, value in vars(parsed).items() if key in self.keys}


def _hint_for_option(unknown: str, names: list[str], command: str) -> str:
    """Return what to do instead of giving `unknown`, which `command` does not take; "" for nothing."""
    key = unknown.lstrip("-").replace("-", "_")
    for option in OPTIONS if unknown.startswith("--") else ():
        if key == option.key.replace(".", "_"):
            where = f"set {'it in ' if option.in_file else ''}{option.places}"
            return f"did you mean {option.flag}?" if option.flag else f'"{option.key}" has no flag; {where}'
        if unknown in (option.flag, option.off_flag):
            takes = [each for each in ("run", "repl", "serve") if each in option.commands]
            return f"`odek {takes[0]}` takes {unknown}, `odek {command}` does not" if takes else ""
    import difflib  # needed only here

    near = difflib.get_close_matches(unknown.lstrip("-"), [name[2:] for name in names], n=1)
    return f"did you mean --{near[0]}?" if near else ""


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Breaks lines at blanks alone: an option with hyphens stays whole."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        from odek.cli.help import wrap

        return wrap(text, width).split("\n")


class _Refusal(argparse.Action):
    def __call__(self, *_: object, **__: object) -> NoReturn:
        message, hint = self.const
        raise UsageError(message, hint=hint)


def _add_flag(group: argparse._ArgumentGroup, option: Option[Any], command: str, *, shown: bool) -> None:
    names = [name for name in (option.short, option.flag) if name]
    text = option.help.replace("%", "%%") if shown else HIDDEN
    if option.is_switch:
        group.add_argument(*names, dest=option.key, action="store_true", default=argparse.SUPPRESS, help=text)
        off = option.off_flag_for(command)
        if off:
            help_off = (option.off_help or text).replace("%", "%%") if shown else HIDDEN
            group.add_argument(off, dest=option.key, action="store_false", default=argparse.SUPPRESS, help=help_off)
        return
    if shown and option.kind.choices and not all(choice in text for choice in option.kind.choices):
        text += f" ({', '.join(option.kind.choices)})"
    action = "append" if option.kind.is_list else "store"
    group.add_argument(
        *names, dest=option.key, action=action, metavar=option.metavar, default=argparse.SUPPRESS, help=text
    )
