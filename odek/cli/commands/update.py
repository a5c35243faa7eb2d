"""odek update: is there a newer release, and if it is wanted, that one in the place of this file (R-341 to R-347).

Nothing else of odek asks for releases: without this command no request leaves.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial

from odek import __version__
from odek.cli.approval_prompt import confirm
from odek.cli.artifact import find_artifact
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.errors import EXIT_NEWER, ApprovalDenied, UsageError
from odek.host import Host, trusted_path
from odek.process import Completed, run
from odek.secret_names import is_secret_name
from odek.text import truncate, visible
from odek.update.download import Network
from odek.update.extras import refresh
from odek.update.place import NotReplaceable, Obstacle, find_obstacle, read_place
from odek.update.release import Version, notes_address, parse_version
from odek.update.update import (
    ADDRESS_VARIABLE,
    Built,
    Run,
    Update,
    carry_out,
    choose_base,
    find_newest,
    is_wanted,
    read_built,
)

_RUN_S = 60
_PATIENCE_S = 1.0


def parser() -> CommandParser:
    """Return the parser of `odek update`."""
    made = CommandParser(
        "update",
        COMMANDS["update"][1],
        usage="[--check] [--version V] [--yes] [--force] [--json]",
        examples=("odek update --check", "odek update", "odek update --version 1.2.3 --yes"),
    )
    made.add_argument(
        "--check", action="store_true", help="only say whether there is a newer release: 10 if so, else 0"
    )
    made.add_argument("--version", metavar="V", default="", help="this release, also an older one or a prerelease")
    made.add_argument("--yes", action="store_true", help="do not ask; needed where there is no terminal")
    made.add_argument(
        "--force",
        action="store_true",
        help="the newest release although it is older or the same; in a container as well",
    )
    made.add_argument(
        "--base-url",
        metavar="URL",
        default="",
        help=f"where releases are, for a mirror; {ADDRESS_VARIABLE} says the same",
    )
    made.add_argument("--json", action="store_true", help="what was found, or done, as JSON")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Check, or update after a yes."""
    parsed = parser().read_flags(arguments)
    named = parse_version(parsed.version) if parsed.version else None
    if parsed.version and (named is None or parsed.check):
        problem = "--check looks for the newest release" if named else f'"{visible(parsed.version)}" is not a version'
        raise UsageError(problem, hint="odek update --version 1.2.3")
    artifact, built = find_artifact(), read_built()
    place = read_place(artifact.path, is_file=artifact.is_file, env=host.env, user=host.uid)
    obstacle = find_obstacle(place)
    if obstacle is not None and (obstacle.silent or not parsed.check) and not (obstacle.forced and parsed.force):
        raise obstacle.error()
    base = choose_base(parsed.base_url, host.env.get(ADDRESS_VARIABLE, ""), built)
    network = Network(env=host.env)
    terminal.show_status("asking for the newest release")
    newest = named or find_newest(base, network)
    terminal.clear_status()
    current = parse_version(__version__)
    assert current is not None
    if parsed.check:
        return _report(base, newest, current, obstacle, terminal, as_json=parsed.json)
    if not (parsed.force or named or is_wanted(newest, current)):
        terminal.answer(_result(base, current.text, place.path) if parsed.json else _describe(newest, current))
        return 0
    update = Update(base=base, version=newest.text, name=_name_of(built), target=place.path)
    if not parsed.yes:
        terminal.line(f"odek {__version__} -> {newest.text}, {visible(place.path)}\n  from {visible(update.address)}")
        if not confirm("Replace it? [y / N]"):
            raise ApprovalDenied("nothing is updated", hint="--yes does not ask")
    _carry_out(update, network, host, terminal, as_json=parsed.json)
    return 0


def _name_of(built: Built) -> str:
    if not built.file:
        raise NotReplaceable(
            "this file does not say which of a release it is", hint="install odek again: sh install.sh"
        )
    return built.file


def _carry_out(update: Update, network: Network, host: Host, terminal: Terminal, *, as_json: bool) -> None:
    run_it = partial(_run, _child_env(host))
    terminal.show_status(f"downloading odek {update.version}")
    changed = carry_out(update, network, run_it, _Progress(terminal))
    terminal.clear_status()
    if changed:
        for line in refresh(update.target, host.home, host.env, partial(_output_of, run_it, update.target)):
            terminal.note(line)
    said = f"odek {update.version} is installed as {visible(update.target)}"
    same = f"{visible(update.target)} is already odek {update.version}"
    done = _result(update.base, update.version, update.target, changed=changed)
    terminal.answer(done if as_json else said if changed else same)


def _report(
    base: str, newest: Version, current: Version, obstacle: Obstacle | None, terminal: Terminal, *, as_json: bool
) -> int:
    wanted = is_wanted(newest, current)
    notes = notes_address(base, newest.text)
    if as_json:
        facts = {"current": current.text, "newest": newest.text, "update": wanted, "notes": notes}
        terminal.answer(json.dumps({**facts, "obstacle": obstacle.why if obstacle else ""}))
    else:
        terminal.answer(_describe(newest, current) + (f"\n{visible(notes)}" if newest > current else ""))
        if wanted and obstacle:
            terminal.note(f"{obstacle.why}: {obstacle.hint}")
        elif wanted:
            terminal.note("`odek update` installs it")
    return EXIT_NEWER if wanted else 0


def _describe(newest: Version, current: Version) -> str:
    if newest > current and newest.is_prerelease:
        return f"odek {current.text}; {newest.text} is a prerelease: `odek update --version {newest.text}` installs it"
    if newest > current:
        return f"odek {current.text}; the newest release is {newest.text}"
    same = "the newest release" if newest == current else f"newer than the newest release, {newest.text}"
    return f"odek {current.text} is {same}"


def _result(base: str, version: str, path: str, *, changed: bool = False) -> str:
    facts = {"previous": __version__, "version": version, "changed": changed, "path": path}
    return json.dumps({**facts, "notes": notes_address(base, version)})


def _run(env: Mapping[str, str], argv: tuple[str, ...]) -> Completed:
    return run(argv, env=env, timeout_s=_RUN_S, cwd="/")


def _output_of(run_it: Run, target: str, arguments: tuple[str, ...]) -> bytes | None:
    done = run_it((target, *arguments))
    return done.stdout.data if done.code == 0 and not done.stdout.omitted_bytes else None


def _child_env(host: Host) -> dict[str, str]:
    """Return what the new odek gets: no secret, and nothing of the project on PATH."""
    env = {name: text for name, text in host.env.items() if not is_secret_name(name)}
    return {**env, "PATH": trusted_path(host)}


class _Progress:
    """Says how far a download is once it takes more than a second."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._since = time.monotonic()
        self._shown = False
        self._text = ""

    def __call__(self, count: int, announced: int | None) -> None:
        of = f" of {announced / 1e6:.1f}" if announced else ""
        self._text = f"{count / 1e6:.1f}{of} MB"
        if not self._shown and time.monotonic() - self._since > _PATIENCE_S:
            self._shown = True
            self._terminal.show_rows(lambda columns: (truncate(self._text, columns),))
            if not self._terminal.look.moves:
                self._terminal.note(f"downloading {announced / 1e6:.1f} MB" if announced else "downloading")
