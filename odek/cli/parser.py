"""Command lines: one parser per command, its settings' flags made from the options table (R-12).

Flags may stand before or after the arguments; `--` ends them. Unknown and abbreviated flags are
errors: a misspelt flag must neither become part of the task nor change it (F-25).
"""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from odek.cli.streams import write_stdout
from odek.config.options import Option
from odek.config.settings import flag_options
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
            epilog="\n".join(("Examples:", *(f"  {example}" for example in examples))) if examples else None,
            # one is made for each argument; to ask for the width of the terminal would load what archives need
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=80),
            allow_abbrev=False,
        )
        self.command = command
        self.examples = examples
        self.actions = actions
        self.keys: tuple[str, ...] = ()

    def error(self, message: str) -> NoReturn:
        names = [flag[2:] for flag in self._option_string_actions if flag.startswith("--")]
        unknown = message.removeprefix("unrecognized arguments: ").split("=")[0].split(" ")[0]
        import difflib  # needed only here

        near = difflib.get_close_matches(unknown.lstrip("-"), names, n=1) if unknown != message else []
        hint = f"did you mean --{near[0]}?" if near else f"`odek {self.command} --help` lists the options"
        raise UsageError(truncate(visible(message), 300), hint=hint)

    def format_help(self) -> str:
        """Return the help, as wide as the terminal."""
        import shutil
        import textwrap

        self.formatter_class = argparse.RawDescriptionHelpFormatter  # which leaves the examples as they are
        self.description = textwrap.fill(self.description or "", shutil.get_terminal_size().columns - 2)
        return super().format_help()

    def print_help(self, file: object = None) -> NoReturn:  # noqa: ARG002 - argparse calls it
        """Print the help and end; argparse itself would leave with 0 when nothing could be printed."""
        raise SystemExit(write_stdout(self.format_help()))

    def add_settings(self, *, of: str = "", without: tuple[str, ...] = ()) -> None:
        """Add the flags of the settings of this command, or of another one, grouped as the table groups them.

        `without`: keys of settings that mean nothing here.
        """
        command = of or self.command
        options = [option for option in flag_options(command) if option.key not in without]
        groups: dict[str, argparse._ArgumentGroup] = {}
        for option in options:
            heading = _HEADINGS[option.group]
            if heading not in groups:
                groups[heading] = self.add_argument_group(heading)
            _add_flag(groups[heading], option, command)
        self.keys = tuple(option.key for option in options)

    def reword(self, flag: str, text: str) -> None:
        """Let the help of `flag`, which means something else here than in the table of settings, say `text`."""
        self._option_string_actions[flag].help = text

    def refuse(self, flag: str, why: str, *, hint: str) -> None:
        """Let `flag`, which could be expected here, end in an explanation."""
        self.add_argument(flag, action=_Refusal, nargs=0, const=(f"{flag} {why}", hint), help=argparse.SUPPRESS)

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


class _Refusal(argparse.Action):
    def __call__(self, *_: object, **__: object) -> NoReturn:
        message, hint = self.const
        raise UsageError(message, hint=hint)


def _add_flag(group: argparse._ArgumentGroup, option: Option[Any], command: str) -> None:
    names = [name for name in (option.short, option.flag) if name]
    text = option.help.replace("%", "%%")
    if option.is_switch:
        group.add_argument(*names, dest=option.key, action="store_true", default=argparse.SUPPRESS, help=text)
        off = option.off_flag_for(command)
        if off:
            help_off = (option.off_help or text).replace("%", "%%")
            group.add_argument(off, dest=option.key, action="store_false", default=argparse.SUPPRESS, help=help_off)
        return
    if option.kind.choices and not all(choice in text for choice in option.kind.choices):
        text += f" ({', '.join(option.kind.choices)})"
    action = "append" if option.kind.is_list else "store"
    group.add_argument(
        *names, dest=option.key, action=action, metavar=option.metavar, default=argparse.SUPPRESS, help=text
    )
