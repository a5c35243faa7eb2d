"""odek undo: takes back what a turn changed in the working directory (R-271)."""

from __future__ import annotations

import json

from odek.app.config import load
from odek.app.turn_files import project_files
from odek.cli.approval_prompt import confirm
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.cli.turn_changes import Undone, Which, doubts_of, name_of, parse_number, plan_rows, report_undone, undo_files
from odek.errors import ApprovalDenied
from odek.host import Host
from odek.snapshot.restore import Plan
from odek.snapshot.store import Record
from odek.text import visible


def parser() -> CommandParser:
    """Return the parser of `odek undo`."""
    made = CommandParser(
        "undo",
        COMMANDS["undo"][1],
        usage="[TURN] [--partial] [--yes] [--json]",
        examples=("odek undo", "odek undo 7 --partial", "odek diff --list"),
    )
    made.add_argument(
        "turn", metavar="TURN", nargs="?", default="",
        help="its number in `odek diff --list`; the last turn that is not undone if not given, and an undo's number "
        "makes its changes again",
    )  # fmt: skip
    made.add_argument("--partial", action="store_true", help="leave what changed since as it is, and undo the others")
    made.add_argument("--yes", action="store_true", help="do not ask; needed where there is no terminal")
    made.add_argument("--json", action="store_true", help="what was undone and what was left as JSON")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Take a turn back, after a yes; 1 when something is left."""
    parsed = parser().read_flags(arguments)
    project = project_files(host, load(host, {}, terminal).settings)

    def ask(record: Record, plan: Plan) -> None:
        for doubt in doubts_of(record):
            terminal.warn(doubt)
        if parsed.yes:
            return
        terminal.line("\n".join((f"Undo of {name_of(record)} ({visible(record.task)}):", *plan_rows(plan))))
        if not confirm("Undo it? [y / N]"):
            raise ApprovalDenied("nothing is undone", hint="--yes does not ask")

    undone = undo_files(
        project, Which(parse_number(parsed.turn)), partial=parsed.partial, ask=ask,
        partial_hint="--partial leaves these as they are, and undoes the others",
    )  # fmt: skip
    if parsed.json:
        terminal.answer(json.dumps(_as_json(undone), indent=2))
    return report_undone(undone, terminal)


def _as_json(undone: Undone) -> dict[str, object]:
    made = undone.made
    return {
        "undone": undone.record.number,
        "number": made.number if made else None,
        "files": [change.path for change in made.changes] if made else [],
        "left": [{"path": path, "reason": reason} for path, reason in undone.left],
    }
