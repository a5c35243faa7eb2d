"""Commands of one's own: a text in a file NAME.md that is sent as a task when `/NAME` is typed (R-283).

The operator's are in ~/.odek/commands. A project's, in .odek/commands, speak in the user's voice to a model that obeys
it, so they count only as the operator has approved them, text by text. No file is a reason to stop: one that cannot
be used is named and left out.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from odek import safefile
from odek.app.runtime import Runtime
from odek.approval.command_store import CommandApprovals
from odek.approval.commands import CommandsRequest, OfferedCommand
from odek.errors import ApprovalDenied, OdekError, StateFileError
from odek.events import Notice, Sink, WarningIssued
from odek.host import Host
from odek.operator_home import ROOT, enter_folder, open_home
from odek.state import StateFolder
from odek.text import plural, truncate, visible

FOLDER = "commands"
PROJECT_FOLDER = f"{ROOT}/{FOLDER}"
LIMIT_BYTES = 64 << 10
MOST_COMMANDS = 64
_ENDING = ".md"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_FRONT = re.compile(r"---[ \t]*\n(.*?)(?:^|\n)---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z][A-Za-z-]*)[ \t]*:[ \t]*(.*?)[ \t]*")
_PLACEHOLDER = re.compile(r"\$(ARGUMENTS|[1-9])(?![A-Za-z0-9_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LINE_LENGTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCommand:
    """One command."""

    name: str
    """without the slash"""
    description: str
    """one line, "" for none"""
    hint: str
    """how its arguments are written, "" for nothing said"""
    text: str
    by_project: bool = False

    @property
    def place(self) -> str:
        """the file, for people"""
        return (
            f"{PROJECT_FOLDER}/{self.name}{_ENDING}" if self.by_project else f"~/{PROJECT_FOLDER}/{self.name}{_ENDING}"
        )


def is_name(text: str) -> bool:
    """Return whether a command may be called like that."""
    return _NAME.fullmatch(text) is not None


def parse_command(name: str, data: bytes, *, by_project: bool) -> OwnCommand:
    """Return the command in the bytes of a file. Pure. Raises ValueError, its text fit for the user."""
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    control = _CONTROL.search(text)
    if control:
        raise ValueError(f'it holds the control character "{visible(control[0])}"')
    said: dict[str, str] = {}
    front = _FRONT.match(text)
    if front:
        said, text = dict(_front_matter(front[1])), text[front.end() :]
    if not text.strip():
        raise ValueError("it holds no text for the model")
    description, hint = (said.get(key, "") for key in ("description", "argument-hint"))
    return OwnCommand(name=name, description=description, hint=hint, text=text.strip(), by_project=by_project)


def _front_matter(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _KEY.fullmatch(line)
        if found is None or found[1] not in ("description", "argument-hint"):
            shown = truncate(visible(found[1] if found else line), 40)
            raise ValueError(f'its front matter holds "{shown}"; it knows description and argument-hint')
        value = found[2]
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        yield found[1], truncate(value, _LINE_LENGTH)


def expand(command: OwnCommand, argument: str) -> str:
    """Return the task that `command` stands for. Pure.

    $ARGUMENTS becomes `argument`, $1 to $9 its words as a shell divides it, nothing where there are fewer. A text
    without any of them is followed by `argument`.
    """
    if not _PLACEHOLDER.search(command.text):
        return f"{command.text}\n\n{argument}" if argument else command.text
    try:
        words = shlex.split(argument)
    except ValueError:  # a quote that is not closed, an apostrophe
        words = argument.split()
    values = {"ARGUMENTS": argument, **{str(number): word for number, word in enumerate(words[:9], start=1)}}
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], ""), command.text)


def operators_commands(host: Host, emit: Sink, wanted: Callable[[str], bool] = is_name) -> tuple[OwnCommand, ...]:
    """Return the operator's commands whose name is `wanted`, sorted; what cannot be used is warned of."""
    with ExitStack() as stack:
        try:
            home = open_home(host.operator_home, make=False)
            if home is None:
                return ()
            stack.callback(os.close, home)
            path = host.operator_home.path(FOLDER)
            folder = enter_folder(home, FOLDER, path, host.operator_home.uid, make=False)
        except StateFileError as error:
            emit(WarningIssued(f"commands of your own are left out: {error.message}", hint=error.hint))
            return ()
        if folder is None:
            return ()
        stack.callback(os.close, folder)

        def read(name: str) -> bytes:
            descriptor = safefile.open_regular(name, dir_fd=folder)
            try:
                status = os.fstat(descriptor)
                if status.st_uid != host.operator_home.uid or stat.S_IMODE(status.st_mode) & 0o022:
                    raise ValueError("another user can write it")
                return safefile.read_limited(descriptor, LIMIT_BYTES)
            finally:
                os.close(descriptor)

        return _commands(os.listdir(folder), read, wanted, emit, by_project=False)


def projects_commands(host: Host, emit: Sink, wanted: Callable[[str], bool] = is_name) -> tuple[OwnCommand, ...]:
    """Return what the folder odek runs in has, approved or not; as `operators_commands`."""
    if os.path.join(host.cwd, ROOT) == host.operator_home.folder:
        return ()
    try:
        with safefile.Inside(host.cwd) as inside:
            folder = inside.open_folder(PROJECT_FOLDER)
            try:
                names = os.listdir(folder)
            finally:
                os.close(folder)

            def read(name: str) -> bytes:
                return inside.read(f"{PROJECT_FOLDER}/{name}", limit_bytes=LIMIT_BYTES)

            return _commands(names, read, wanted, emit, by_project=True)
    except FileNotFoundError:
        return ()
    except OSError as error:
        emit(WarningIssued(f"{PROJECT_FOLDER} is left out: {str(error.strerror).lower()}"))
        return ()


def _commands(
    names: Sequence[str], read: Callable[[str], bytes], wanted: Callable[[str], bool], emit: Sink, *, by_project: bool
) -> tuple[OwnCommand, ...]:
    files = sorted(name for name in names if name.endswith(_ENDING) and not name.startswith("."))
    chosen = [name for name in files if wanted(name.removesuffix(_ENDING)) or not is_name(name.removesuffix(_ENDING))]
    where = PROJECT_FOLDER if by_project else f"~/{PROJECT_FOLDER}"
    found: list[OwnCommand] = []
    for file in chosen[:MOST_COMMANDS]:
        name = file.removesuffix(_ENDING)
        try:
            if not is_name(name):
                raise ValueError("a name has small letters, digits and dashes, 32 at most")
            found.append(parse_command(name, read(file), by_project=by_project))
        except (OSError, ValueError) as error:
            why = str(error.strerror).lower() if isinstance(error, OSError) else str(error)
            emit(WarningIssued(f"{where}/{truncate(visible(file), 80)} is left out: {why}"))
    if len(chosen) > MOST_COMMANDS:
        emit(WarningIssued(f"{where} holds {len(chosen)} commands; {len(chosen) - MOST_COMMANDS} are left out"))
    return tuple(found)


def own_commands(runtime: Runtime, *, taken: Collection[str], may_ask: bool) -> tuple[OwnCommand, ...]:
    """Return all that may be called, sorted; none is called as one of `taken`, names with their slash.

    `may_ask`: the operator is asked about a project's that are not approved. What is left out is said once.
    """
    host, emit = runtime.host, runtime.emit
    found: dict[str, OwnCommand] = {}
    for command in operators_commands(host, emit):
        if f"/{command.name}" in taken:
            emit(WarningIssued(f"{command.place} is left out: /{command.name} is a command of odek's own"))
        else:
            found[command.name] = command
    theirs = [each for each in projects_commands(host, emit) if each.name not in found and f"/{each.name}" not in taken]
    approved = _approved(theirs, runtime, may_ask=may_ask)
    if len(approved) < len(theirs):
        why = "without an approval" if may_ask and runtime.operator else "without an approval, and there is no terminal"
        hint = "odek repl at a terminal asks for it" if not may_ask else ""
        left = ", ".join(f"/{each.name}" for each in theirs if each not in approved)
        count = plural(len(theirs) - len(approved), "command")
        emit(WarningIssued(f"{count} of this project {why}, not offered: {left}", hint=hint))
    return tuple(sorted((*found.values(), *approved), key=lambda each: each.name))


def called_command(task: str, runtime: Runtime) -> str:
    """Return the task that a command of one's own at the beginning of `task` stands for; other tasks as they are.

    Raises ApprovalDenied when it is the project's and not approved.
    """
    word, _, argument = task.partition(" ")
    name = word.removeprefix("/")
    if not word.startswith("/") or not is_name(name):
        return task
    found = operators_commands(runtime.host, runtime.emit, lambda each: each == name)
    theirs = projects_commands(runtime.host, runtime.emit, lambda each: each == name) if not found else ()
    if theirs and not _approved(theirs, runtime, may_ask=True):
        raise ApprovalDenied(
            f"the command /{name} of this project needs an approval",
            hint=f"read {PROJECT_FOLDER}/{name}{_ENDING}, then approve it at a terminal",
        )
    for command in (*found, *theirs):
        runtime.emit(Notice(f"/{name} is {command.place}"))
        return expand(command, argument.strip())
    return task


def _approved(commands: Sequence[OwnCommand], runtime: Runtime, *, may_ask: bool) -> list[OwnCommand]:
    """Return those of a project's `commands` that the operator has approved, now or before."""
    if not commands:
        return []
    offers = {each: OfferedCommand(name=each.name, hint=each.hint, text=each.text) for each in commands}
    store = CommandApprovals(StateFolder(runtime.host.operator_home), clock=runtime.clock)
    try:
        known = store.keys()
        fresh = [each for each in commands if offers[each].key(runtime.host.cwd) not in known]
        request = CommandsRequest(
            folder=runtime.host.cwd, commands=tuple(offers[each] for each in fresh), known=len(commands) - len(fresh)
        )
        answer = "no"
        if fresh and may_ask and runtime.operator is not None:
            answer = runtime.operator.approve_commands(request)
        if answer == "trust":
            store.remember(request)
            runtime.emit(Notice(f"remembered in {visible(store.path)}; odek asks again when a text changes"))
    except OdekError as error:
        runtime.emit(WarningIssued(f"commands of this project are left out: {error.message}", hint=error.hint))
        return []
    return [each for each in commands if each not in fresh or answer != "no"]
