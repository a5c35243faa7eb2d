"""odek approvals: list and revoke what was approved with "t" (R-61)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from odek.approval.command_store import ApprovedCommand, CommandApprovals
from odek.approval.display import WIDTH, field, readable, value
from odek.approval.server_store import ApprovedServer, ServerApprovals
from odek.approval.store import ApprovalRecord, ApprovalStore, StoredApproval, record_to_json, short_id
from odek.cli.help import fold
from odek.cli.parser import CommandParser
from odek.cli.subcommands import Subcommand, run_subcommand
from odek.cli.terminal import Terminal
from odek.errors import OdekError, UsageError
from odek.host import Host
from odek.state import StateFolder
from odek.text import plural, truncate, visible

MIN_DIGITS = 4
_UNDESCRIBED = "(no description: written by another tool)"


def list_approvals_parser() -> CommandParser:
    """Return the parser of `odek approvals list`."""
    made = CommandParser(
        "approvals list", "list what was approved with t", usage="[--json]", examples=("odek approvals list",)
    )
    made.add_argument("--json", action="store_true", help="the list as JSON")
    return made


def list_approvals(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the remembered approvals."""
    parsed = list_approvals_parser().read_flags(arguments)
    entries = _stores(host).entries()
    terminal.answer(
        _as_json(entries) if parsed.json else render_entries(entries, here=host.cwd, columns=terminal.answer_columns)
    )
    return 0


def revoke_parser() -> CommandParser:
    """Return the parser of `odek approvals revoke`."""
    made = CommandParser(
        "approvals revoke",
        "take back what was approved with t: it is asked about again",
        usage="KEY… | --here | --all [--json]",
        examples=("odek approvals revoke 61df288e2037", "cd ~/src/app && odek approvals revoke --here"),
    )
    made.add_argument("keys", nargs="*", metavar="KEY", help="the beginning of a listed key")
    made.add_argument("--here", action="store_true", help="revoke what was approved for the working directory")
    made.add_argument("--all", action="store_true", help="revoke every approval")
    made.add_argument("--json", action="store_true", help="what was revoked as JSON")
    return made


def revoke(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Forget approvals and print which."""
    parsed, rest = revoke_parser().read(arguments)
    keys, store = [*parsed.keys, *rest], _stores(host)
    if (bool(keys) + parsed.here + parsed.all) != 1:
        raise UsageError("say what to revoke: a KEY, --here or --all", hint="`odek approvals list` shows the keys")
    chosen = _choose(store.entries(), keys, here=host.cwd if parsed.here else "")
    if chosen:
        store.forget([entry.key for entry in chosen])
    terminal.answer(_as_json(chosen) if parsed.json else _render_revoked(chosen))
    if parsed.here:
        _warn_of_undescribed(store.entries(), terminal)
    return 0


class _Stores:
    """The approvals of projects, of their MCP servers and of their commands, as one."""

    def __init__(self, folder: StateFolder) -> None:
        self._projects = ApprovalStore(folder)
        self._servers = ServerApprovals(folder)
        self._commands = CommandApprovals(folder)

    def entries(self) -> tuple[StoredApproval, ...]:
        """Return all of them, sorted by key. Raises StateFileError."""
        others = (*map(_server_entry, self._servers.entries()), *map(_command_entry, self._commands.entries()))
        found = (*self._projects.entries(), *others)
        return tuple(sorted(found, key=lambda entry: entry.key))

    def forget(self, keys: Sequence[str]) -> None:
        """Remove those with `keys`. Raises StateFileError."""
        of_servers, of_commands = {entry.key for entry in self._servers.entries()}, self._commands.keys()
        if of_servers.intersection(keys):
            self._servers.forget(keys)
        if of_commands.intersection(keys):
            self._commands.forget(keys)
        if not (of_servers | of_commands).issuperset(keys):
            self._projects.forget(keys)


def _stores(host: Host) -> _Stores:
    return _Stores(StateFolder(host.operator_home))


def _server_entry(server: ApprovedServer) -> StoredApproval:
    asks = (("mcp", server.name), ("command", server.command), ("tools", str(len(server.tools))))
    return StoredApproval(key=server.key, record=ApprovalRecord(folder=server.folder, date=server.date, asks=asks))


def _command_entry(command: ApprovedCommand) -> StoredApproval:
    record = ApprovalRecord(folder=command.folder, date=command.date, asks=(("command", f"/{command.name}"),))
    return StoredApproval(key=command.key, record=record)


def find_entry(entries: Sequence[StoredApproval], text: str) -> StoredApproval:
    """Return the one entry that `text` names: a key, its short form, or the beginning of either. Raises OdekError."""
    parts = text.lower().split(":")
    if len(parts[0]) < MIN_DIGITS:
        raise OdekError(
            f'"{visible(truncate(text, 140))}" is too short to name an approval',
            hint=f"give at least {MIN_DIGITS} digits of what `odek approvals list` shows",
        )
    found = [entry for entry in entries if _matches(entry.key.split(":"), parts)]
    if not found:
        raise OdekError(
            f'no remembered approval begins with "{visible(truncate(text, 140))}"',
            hint="`odek approvals list` shows them",
        )
    if len(found) > 1:
        listed = ", ".join(short_id(entry.key) for entry in found)
        raise OdekError(
            f'{len(found)} approvals begin with "{visible(truncate(text, 140))}": {listed}', hint="give more digits"
        )
    return found[0]


def entries_in(entries: Sequence[StoredApproval], folder: str) -> tuple[StoredApproval, ...]:
    """Return the entries that were given for the project in `folder`."""
    return tuple(entry for entry in entries if entry.record is not None and entry.record.folder == folder)


def render_entries(entries: Sequence[StoredApproval], *, here: str, columns: int = 0) -> str:
    """Return a list for people; `here` is the working directory, `columns` the width of the terminal, 0 for none."""
    if not entries:
        return "no approval is remembered\n"
    blocks = [_block(entry, here, columns) for entry in entries]
    return f"{plural(len(entries), 'remembered approval')}\n\n" + "\n\n".join(blocks) + "\n"


def entries_to_json(entries: Sequence[StoredApproval]) -> list[dict[str, object]]:
    """Return the list as JSON values; `folder`, `date` and `asks` are missing where there is no description."""
    return [{"key": entry.key, **(record_to_json(entry.record) if entry.record else {})} for entry in entries]


def _block(entry: StoredApproval, here: str, columns: int) -> str:
    record, name = entry.record, short_id(entry.key)
    if record is None:
        return fold(f"{name}  {_UNDESCRIBED}", columns)
    where = value(record.folder) + (" (this folder)" if record.folder == here else "")
    lines = [f"{name}  {where}"]
    if columns and len(lines[0]) > columns:
        lines = [name, *_field("folder", where, columns)]
    lines += _field("since", readable(record.date), columns)
    for what, text in record.asks:
        lines += _field(readable(what), value(text), columns)
    return "\n".join(lines)


def _field(label: str, text: str, columns: int) -> tuple[str, ...]:
    room = columns - max(len(label) + 1, 8) - 3
    return field(label, text, width=max(min(WIDTH, room), 10) if columns else WIDTH)


def _matches(key: Sequence[str], parts: Sequence[str]) -> bool:
    return len(parts) <= len(key) and all(digest.startswith(part) for digest, part in zip(key, parts, strict=False))


def _choose(entries: tuple[StoredApproval, ...], keys: Sequence[str], *, here: str) -> tuple[StoredApproval, ...]:
    """Return the entries that `keys` name, those of the folder `here`, or else all."""
    if keys:
        return tuple(dict.fromkeys(find_entry(entries, key) for key in keys))
    return entries_in(entries, here) if here else entries


def _warn_of_undescribed(left: Sequence[StoredApproval], terminal: Terminal) -> None:
    unknown = sum(entry.record is None for entry in left)
    if unknown:
        terminal.note(f"{plural(unknown, 'approval')} without a description may be for this folder, too")


def _render_revoked(revoked: Sequence[StoredApproval]) -> str:
    if not revoked:
        return "nothing to revoke"
    return "\n".join(
        f"revoked {short_id(entry.key)}" + (f"  {visible(entry.record.folder)}" if entry.record else "")
        for entry in revoked
    )


def _as_json(entries: Sequence[StoredApproval]) -> str:
    return json.dumps(entries_to_json(entries), indent=2)


ACTIONS = {
    "list": Subcommand(__name__, "list what was approved with t", "list_approvals"),
    "revoke": Subcommand(__name__, "take back what was approved with t", "revoke"),
}
main = partial(run_subcommand, "approvals", ACTIONS)
