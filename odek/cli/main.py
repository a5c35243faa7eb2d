"""Entry: finds the command, runs it, turns every ending into a message and an exit code.

`odek version` and `odek --help` are answered from here and import next to nothing; a command's
module is imported only when that command runs.
"""

from __future__ import annotations

import gc
import sys

from odek.cli.streams import BROKEN_PIPE_CODE, leave, reopen_closed_streams, write_stdout

TYPE_CHECKING = False  # typing alone takes longer to import than the answer to `odek version`
if TYPE_CHECKING:
    from typing import NoReturn

    from odek.cli.terminal import Terminal
    from odek.errors import Interrupted
    from odek.host import Host

COMMANDS = {
    "run": ("odek.cli.commands.run", "do one task and print the answer"),
    "continue": ("odek.cli.commands.continue_", "go on with a session"),
    "repl": ("odek.cli.commands.repl", "talk with the agent, turn by turn"),
    "mcp": ("odek.cli.commands.mcp", "give MCP clients a shell in the sandbox, on stdin and stdout"),
    "serve": ("odek.cli.commands.serve", "serve the agent to a browser, one sandbox a session"),
    "subagent": ("odek.cli.commands.subagent", "do one task that comes as JSON on stdin, and ask nothing"),
    "diff": ("odek.cli.commands.diff", "show what a turn changed in the working directory"),
    "undo": ("odek.cli.commands.undo", "take back what a turn changed in the working directory"),
    "session": ("odek.cli.commands.sessions", "list, show, export, shorten and delete sessions"),
    "demo": ("odek.cli.commands.demo", "see the agent fix a failing test in a real sandbox; needs no key"),
    "config": ("odek.cli.commands.config", "show the settings in force, or their schema"),
    "models": ("odek.cli.commands.models", "list the models that the server has"),
    "setup": ("odek.cli.commands.setup", "choose a model and write its settings; asks before each step"),
    "doctor": ("odek.cli.commands.doctor", "check settings, model, network and sandbox, and say what to fix"),
    "init": ("odek.cli.commands.init", "write a settings file to start from"),
    "sandbox": ("odek.cli.commands.sandbox", "manage the containers and images of the sandbox"),
    "bundle": ("odek.cli.commands.bundle", "make one file that installs odek and its image without a network"),
    "approvals": ("odek.cli.commands.approvals", "list and revoke what was approved with t"),
    "danger": ("odek.cli.commands.danger", "explain the risk class of a command, and what would happen to it"),
    "completion": ("odek.cli.commands.completion", "print a completion script for a shell"),
    "man": ("odek.cli.commands.man", "show the manual page"),
    "selftest": ("odek.cli.commands.selftest", "check that this copy of odek is whole and works here"),
    "update": (
        "odek.cli.commands.update",
        "replace this odek by a newer release, or look for one",
    ),
    "version": ("odek.cli.commands.version", "print the version"),
}
"""name → module, one line for the list of commands"""
_HIDDEN = {"__complete": "odek.cli.commands.complete"}
"""name → module, of what scripts call"""

_EXAMPLES = (
    "odek demo",
    'odek run "find out why the tests fail and fix it"',
    'odek run --sandbox-image node:22 --sandbox-network bridge "run npm update"',
)
_ERROR_CODE = 1
_USAGE_CODE = 2
_BUG_CODE = 3


def start(arguments: list[str]) -> NoReturn:
    """Run odek with `arguments` and end the process: the way in of the checkout, the one file and the binary."""
    leave(main(arguments))


def main(arguments: list[str]) -> int:
    """Run odek with `arguments` (without the program's name) and return the exit code."""
    if not reopen_closed_streams():
        return _ERROR_CODE
    name = arguments[0] if arguments else ""
    if name == "help" and arguments[1:]:
        return main([*arguments[1:], "--help"])
    if name in ("", "help", "--help", "-h"):
        from odek.cli.help import help_columns

        return write_stdout(render_overview(help_columns()), code=0 if name else _USAGE_CODE)
    if name in ("version", "--version", "-V") and len(arguments) == 1:
        from odek import __version__

        return write_stdout(f"odek {__version__}\n")
    if is_task(name):
        return main(["run", *arguments])
    known = COMMANDS[name][0] if name in COMMANDS else _HIDDEN.get(name)
    try:
        return _guarded(known, arguments[1:]) if known else _guarded("odek.cli.other_commands", arguments)
    except ModuleNotFoundError as error:
        if not _is_of_python(error):
            raise
        return _incomplete_python(error)


def _guarded(module: str, arguments: list[str]) -> int:
    """Run the command of `module`; the one place where its errors end."""
    # what is imported stays until the end: to look through it for garbage again and again, and once
    # more at exit, would take a tenth of a short run (scripts/bench)
    gc.disable()
    from odek.cli import signals
    from odek.cli.terminal import Terminal
    from odek.errors import Interrupted, OdekError
    from odek.host import Host

    signals.install()
    terminal = Terminal(sys.stdout, sys.stderr)
    if _wants_events(arguments):
        from odek.cli.last_event import LastEvent

        terminal.last_event = LastEvent(terminal)
    try:
        host = Host.capture()
        terminal.configure(
            env=host.env, is_terminal=host.stderr_is_terminal, wishes=lambda: _display_wishes(host, arguments)
        )
        __import__(module)  # importlib would import what it needs for other purposes
        command = sys.modules[module]
        gc.freeze()
        gc.enable()
        code: int = command.main(arguments, host, terminal)
        if terminal.last_event is not None:
            terminal.last_event.succeed()
        return code
    except SystemExit as end:  # --help of a command
        return int(end.code or 0)
    except OdekError as error:
        terminal.error(error)
        return terminal.last_event.fail(error) if terminal.last_event is not None else error.exit_code
    except Interrupted as interruption:
        return _interrupted(interruption, terminal)
    except BrokenPipeError:
        terminal.abandon_output()
        return BROKEN_PIPE_CODE
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and _is_of_python(error):
            raise
        if isinstance(error, RuntimeError) and isinstance(error.__cause__, Interrupted):
            # where a signal finds a class being made, Python up to 3.11 wraps what is raised (__set_name__)
            return _interrupted(error.__cause__, terminal)
        terminal.bug(error, debug="ODEK_DEBUG" in terminal.env, code=_BUG_CODE)
        return terminal.last_event.crash(error, _BUG_CODE) if terminal.last_event is not None else _BUG_CODE


def _wants_events(arguments: list[str]) -> bool:
    """Return whether --json is among the flags of a command line, which may have other faults."""
    return "--json" in (arguments[: arguments.index("--")] if "--" in arguments else arguments)


def _interrupted(interruption: Interrupted, terminal: Terminal) -> int:
    terminal.interrupted(interruption)
    return terminal.last_event.interrupt(interruption) if terminal.last_event is not None else interruption.exit_code


def _display_wishes(host: Host, arguments: list[str]) -> tuple[bool, bool]:
    from odek.app.config import wants  # only where a colour would be printed

    return wants("no_color", host, arguments), wants("plain", host, arguments)


def _is_of_python(error: ModuleNotFoundError) -> bool:
    return (error.name or "").partition(".")[0] in sys.stdlib_module_names


def _incomplete_python(error: ModuleNotFoundError) -> int:
    """Some systems have a Python with a part of its standard library only, such as Debian's python3-minimal."""
    version = ".".join(map(str, sys.version_info[:3]))
    sys.stderr.write(
        f"odek: error: this Python ({version}, {sys.executable}) has no module {error.name}\n"
        "odek: hint: install all of it (Debian: apt-get install python3), or use odek's binary, which needs none\n"
    )
    return _ERROR_CODE


def render_overview(columns: int) -> str:
    """Return what `odek --help` prints."""
    from odek.cli.help import list_of_terms, wrap, wrap_example

    lines = (
        wrap("odek: an agent for the terminal whose shell commands run in a hardened container", columns),
        "",
        wrap("Usage: odek COMMAND [OPTION…] [ARGUMENT…]", columns),
        "",
        *list_of_terms([(name, summary) for name, (_, summary) in COMMANDS.items()], columns),
        "",
        wrap("`odek COMMAND --help` explains a command and its options.", columns),
        "",
        "Examples:",
        *(wrap_example(f"  {example}", columns) for example in _EXAMPLES),
        "",
    )
    return "\n".join(lines)


def is_task(word: str) -> bool:
    """Return whether `word`, where a command is expected, is a task in quotes: no command has a blank in it."""
    return len(word.split()) > 1 and not word.startswith("-")
