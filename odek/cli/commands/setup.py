"""odek setup: from nothing to a first answer. Shows what it would write, and writes after a yes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from odek.app.config import Config, load
from odek.app.doctor import Check
from odek.app.model import list_models, look_for_models, make_model
from odek.app.model_checks import try_model
from odek.app.setup import (
    LOCAL_SERVERS,
    Choice,
    Found,
    checked_key,
    find_servers,
    for_chat_first,
    known_server,
    new_config,
    new_secrets,
    own_server,
    shown_key,
    with_choice,
)
from odek.cli.checks import check_spans
from odek.cli.commands.sandbox_doctor import sandbox_checks
from odek.cli.help import fold
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.runtime import terminal_runtime
from odek.cli.terminal import Terminal
from odek.cli.tty_prompt import find_tty_prompt
from odek.config.provider import KNOWN
from odek.config.sources import SECRETS_NAME
from odek.errors import ConfigError, OdekError, UsageError
from odek.host import Host, moved
from odek.model.http_errors import KEY_HINT
from odek.state import StateFolder
from odek.text import plural, truncate, visible

CONFIG_NAME = "config.json"
_BACKUP = ".before-setup"
_LISTED = 20
_YES = ("y", "yes")
_LIMIT_BYTES = 5 << 20


class Asking(Protocol):
    """The person at the terminal."""

    def ask_text(self, prompt: str, *, hidden: bool = False) -> str | None: ...


class Stopped(OdekError):
    """The person has ended the dialogue."""


def parser() -> CommandParser:
    """Return the parser of `odek setup`."""
    made = CommandParser(
        "setup", COMMANDS["setup"][1], usage="[--check]", examples=("odek setup", "odek setup --check")
    )
    made.add_argument("--check", action="store_true", help="write nothing and ask nothing: `odek doctor`")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Ask, try, show, write, and look at the sandbox."""
    parsed = parser().read_flags(arguments)
    if parsed.check:
        from odek.cli.commands import doctor

        return doctor.main([], host, terminal)
    person = find_tty_prompt(alone=terminal.suspended)
    if person is None or not host.stdin_is_terminal:
        raise UsageError(
            "odek setup asks questions, and there is no terminal",
            hint="`odek doctor` checks without asking; docs/CONFIG.md has the settings to write by hand",
        )
    folder = tempfile.mkdtemp(prefix="odek-setup-")
    try:
        there = moved(host, folder)  # no project: neither its settings nor its files are looked at
        Setup(there, terminal, person, look=lambda base_url: look_for_models(base_url, there)).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def offer_setup(error: OdekError, host: Host, terminal: Terminal) -> bool:
    """Ask, at a terminal, whether to set up what is missing; return whether that was done."""
    if not (host.stdin_is_terminal and host.stderr_is_terminal):
        return False
    person = find_tty_prompt(alone=terminal.suspended)
    if person is None:
        return False
    terminal.note(error.message)
    if (person.ask_text("Set a model up now? [y/N]") or "").lower() not in _YES:
        return False
    main([], host, terminal)
    terminal.line()
    return True


class Setup:
    """The dialogue."""

    def __init__(
        self,
        host: Host,
        terminal: Terminal,
        person: Asking,
        *,
        look: Callable[[str], tuple[str, ...] | None],
        places: Sequence[tuple[str, str]] = LOCAL_SERVERS,
        check_sandbox: bool = True,
    ) -> None:
        """`look` and `places` as for `find_servers`."""
        self._host = host
        self._terminal = terminal
        self._person = person
        self._look = look
        self._places = places
        self._check_sandbox = check_sandbox
        self._folder = StateFolder(host.operator_home)

    def run(self) -> None:
        """Raises OdekError where it cannot go on, Stopped when the person ends it; then nothing was written."""
        if self._host.operator_home.config_file:
            raise ConfigError(
                "ODEK_CONFIG names the file of settings, and odek setup writes ~/.odek/config.json",
                hint="unset ODEK_CONFIG, or write the settings there by hand",
            )
        config = load(self._host, {}, self._terminal, with_project=False)
        self._env = config.environment.env
        choice = self._choose(config)
        if not self._write(choice, config):
            raise Stopped("nothing was written", hint="`odek setup` begins again")
        self._warn_of_stronger(choice)
        self._show_sandbox()
        self._say("")
        self._say('Try it in a project: odek run "explain this project"')

    def _choose(self, config: Config) -> Choice:
        """Return a server and a model that have answered."""
        self._say("Looking for model servers on this machine, and for keys in the environment …")
        found = find_servers(self._env, self._look, places=self._places)
        while True:
            server = self._ask_server(found)
            try:
                key = self._ask_key(server)
                model = self._ask_model(server, key, config)
                choice = Choice(server=server, model=model, key=key)
                if self._answers(choice, config):
                    return choice
            except Stopped:
                raise
            except OdekError as error:
                self._terminal.error(error)

    def _ask_server(self, found: tuple[Found, ...]) -> Found:
        rows = [f"{server.name:<12} {server.why}" for server in found]
        rows += ["another provider, with its key", "a server at another address"]
        for number, row in enumerate(rows, start=1):
            self._say(f"  {number:>2}  {visible(row)}")
        while True:
            number = self._number(f"Which one, 1 to {len(rows)}?{' [1]' if found else ''}", len(rows), bool(found))
            if number <= len(found):
                return found[number - 1]
            server = self._ask_provider() if number == len(found) + 1 else self._ask_address()
            if server is not None:
                return server

    def _ask_provider(self) -> Found | None:
        names = [name for name, known in KNOWN.items() if known.variable]
        self._say(f"  {', '.join(names)}")
        name = self._ask("Which provider?").lower()
        if name in names:
            return known_server(name, self._env)
        self._say(f'"{visible(truncate(name, 40))}" is not one of them')
        return None

    def _ask_address(self) -> Found | None:
        address = self._ask("Its address (such as http://127.0.0.1:8080/v1)?")
        try:
            return own_server(address, self._env)
        except OdekError as error:
            self._terminal.error(error)
            return None

    def _ask_key(self, server: Found) -> str:
        """Return a key that was typed, "" where the environment has one or none is wanted."""
        if not server.variable or server.has_key:
            return ""
        whose, none = (f"The key for {server.name}", "") if server.name in KNOWN else ("Its key", ", or Enter for none")
        while True:
            key = checked_key(self._ask(f"{whose} (it is not shown{none}):", hidden=True))
            if key or none:
                return key

    def _ask_model(self, server: Found, key: str, config: Config) -> str:
        names = server.models
        if not names:
            settings = with_choice(config, Choice(server=server, model="any", key=key), self._env).settings
            try:
                names = list_models(settings, self._host, notify=self._terminal.aside).names
            except OdekError as error:
                self._terminal.warn(f"the list of models cannot be had: {error.message}")
        ordered = shown = for_chat_first(names)
        while True:
            for number, name in enumerate(shown[:_LISTED], start=1):
                self._say(f"  {number:>2}  {visible(truncate(name, 100))}")
            more = (
                f" ({len(shown) - _LISTED} more; a part of the name shows those that have it)"
                if shown[_LISTED:]
                else ""
            )
            text = self._ask(f"Which model?{more}{' [1]' if shown else ' Its name:'}")
            text = text or ("1" if shown else "")
            if text.isdecimal() and 1 <= int(text) <= len(shown[:_LISTED]):
                return shown[int(text) - 1]
            matching = tuple(name for name in ordered if text.lower() in name.lower())
            if text and (text in names or not names):
                return text
            shown = matching or ordered
            if not matching:
                self._say(f'the server lists none that holds "{visible(truncate(text, 40))}"')

    def _answers(self, choice: Choice, config: Config) -> bool:
        """Ask the model for an answer and show what came; return whether the choice stands."""
        settings = with_choice(config, choice, self._env).settings
        self._say(f"Asking {visible(choice.model)} for an answer …")
        check = try_model(make_model(settings, self._host, notify=self._terminal.aside))
        if choice.key and check.fix == KEY_HINT:
            check = replace(check, fix="the server refuses the key that you gave: copy it again, whole")
        self._show((check,))
        if check.verdict == "ok":
            return True
        return self._is_yes("Use it all the same? [y/N]")

    def _write(self, choice: Choice, config: Config) -> bool:
        """Show both files, and write them after a yes."""
        data = self._folder.read(CONFIG_NAME, limit_bytes=_LIMIT_BYTES)
        text, removed = new_config(data, choice)
        key = choice.key or self._key_to_keep(choice, config)
        self._say(f"\n{visible(self._folder.path(CONFIG_NAME))} would be{' (the old one is kept)' if data else ''}:")
        for line in text.decode().splitlines():
            self._say(f"    {visible(line)}")
        for name in removed:
            self._say(f"  {name}, which is for another server, is taken out")
        if key:
            place = visible(self._folder.path(SECRETS_NAME))
            self._say(f"{place} (mode 0600) would hold:\n    {choice.server.variable}={shown_key(key)}")
        if not self._is_yes("Write this? [y/N]"):
            return False
        if key:
            old = self._folder.read(SECRETS_NAME, limit_bytes=_LIMIT_BYTES)
            self._folder.write(SECRETS_NAME, new_secrets(old, choice.server.variable, key))
        if data is not None and data != text:
            self._folder.write(CONFIG_NAME + _BACKUP, data)
        self._folder.write(CONFIG_NAME, text)
        self._say("written")
        return True

    def _key_to_keep(self, choice: Choice, config: Config) -> str:
        """Return the key of the environment if it is to be kept in the file as well."""
        variable = choice.server.variable
        if not choice.server.has_key or variable in config.environment.secrets.values:
            return ""
        question = f"{variable} is set in this environment. Keep it in ~/.odek/{SECRETS_NAME} as well? [y/N]"
        return self._env[variable] if self._is_yes(question) else ""

    def _warn_of_stronger(self, choice: Choice) -> None:
        """Tell when something is stronger than the file that was written."""
        settings = load(self._host, {}, self._terminal, with_project=False).settings
        for key, wanted in (("model", choice.model), ("base_url", choice.server.base_url)):
            if settings.resolved[key].value != wanted:
                self._terminal.warn(
                    f"{settings.origin_of(key)} is stronger than the file: {key} stays what it says there"
                )

    def _show_sandbox(self) -> None:
        if not self._check_sandbox:
            return
        self._say("\nThe sandbox:")
        runtime = replace(terminal_runtime(self._host, self._terminal), operator=None)
        checks = tuple(sandbox_checks(load(self._host, {}, self._terminal, with_project=False), runtime))
        self._show(checks)
        failed = sum(check.verdict == "fail" for check in checks)
        if failed:
            self._say(f"{plural(failed, 'finding')} to fix before commands run in a container; then look: odek doctor")

    def _show(self, checks: tuple[Check, ...]) -> None:
        spans = check_spans(checks, columns=self._terminal.columns - 2)
        text = "".join(self._terminal.style(visible_part, *styles) for visible_part, styles in spans)
        for line in text.splitlines():
            self._terminal.line(f"  {line}")  # it is folded, and its escapes would count as columns

    def _say(self, text: str) -> None:
        columns = self._terminal.columns if self._host.stderr_is_terminal else 0
        for line in fold(text, columns).split("\n"):
            self._terminal.line(line)

    def _number(self, question: str, most: int, has_default: bool) -> int:
        while True:
            text = self._ask(question) or ("1" if has_default else "")
            if text.isdecimal() and 1 <= int(text) <= most:
                return int(text)
            self._say(f"a number from 1 to {most}; Ctrl-C leaves")

    def _is_yes(self, question: str) -> bool:
        return self._ask(question).lower() in _YES

    def _ask(self, question: str, *, hidden: bool = False) -> str:
        answer = self._person.ask_text(question, hidden=hidden)
        if answer is None:
            raise Stopped("setup was ended; nothing was written", hint="`odek setup` begins again")
        return answer
