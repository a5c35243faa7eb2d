"""odek approvals: what was trusted with "t", and taking it back (R-61)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from odek.approval.listing import choose_entry, entries_in, entries_to_json, handle, render_entries
from odek.approval.store import ApprovalStore, Remembered
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.errors import UsageError
from odek.host import Host
from odek.state import StateFolder
from odek.text import plural, visible


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Carry out `odek approvals list` and `odek approvals revoke`."""
    parser = CommandParser(
        "approvals",
        COMMANDS["approvals"][1],
        usage="list [--json] | revoke KEY… | revoke --here | revoke --all",
        examples=(
            "odek approvals list",
            "odek approvals revoke 61df288e2037",
            "cd ~/src/app && odek approvals revoke --here",
        ),
        actions=("list", "revoke"),
    )
    parser.add_argument("words", nargs="*", metavar="list | revoke KEY…", help="KEY: the beginning of a listed key")
    parser.add_argument("--json", action="store_true", help="the list, or what was revoked, as JSON")
    parser.add_argument("--here", action="store_true", help="revoke what was approved for the working directory")
    parser.add_argument("--all", action="store_true", help="revoke every approval")
    parsed, rest = parser.read(arguments)
    words = [*parsed.words, *rest]
    store = ApprovalStore(StateFolder(host.operator_home))
    if words == ["list"] and not (parsed.here or parsed.all):
        entries = store.entries()
        terminal.answer(_as_json(entries) if parsed.json else render_entries(entries, here=host.cwd))
        return 0
    if words[:1] != ["revoke"] or (bool(words[1:]) + parsed.here + parsed.all) != 1:
        raise UsageError(
            "say what to do: odek approvals list, or odek approvals revoke with a KEY, --here or --all",
            hint="`odek approvals --help` explains it",
        )
    chosen = _choose(store.entries(), words[1:], here=host.cwd if parsed.here else "")
    if chosen:
        store.forget([entry.key for entry in chosen])
    if parsed.json:
        terminal.answer(_as_json(chosen))
    else:
        terminal.answer(_said(chosen))
    if parsed.here:
        _tell_of_unknown(store.entries(), terminal)
    return 0


def _choose(entries: tuple[Remembered, ...], keys: Sequence[str], *, here: str) -> tuple[Remembered, ...]:
    """Return the entries that `keys` name, those of the folder `here`, or else all."""
    if keys:
        return tuple(dict.fromkeys(choose_entry(entries, key) for key in keys))
    return entries_in(entries, here) if here else entries


def _tell_of_unknown(left: Sequence[Remembered], terminal: Terminal) -> None:
    unknown = sum(entry.note is None for entry in left)
    if unknown:
        terminal.note(f"{plural(unknown, 'approval')} without a description may be for this folder, too")


def _said(revoked: Sequence[Remembered]) -> str:
    if not revoked:
        return "nothing to revoke"
    return "\n".join(
        f"revoked {handle(entry.key)}" + (f"  {visible(entry.note.folder)}" if entry.note else "") for entry in revoked
    )


def _as_json(entries: Sequence[Remembered]) -> str:
    return json.dumps(entries_to_json(entries), indent=2)
