"""What a project's own commands ask the operator for: to speak to the model in the user's voice (R-283).

An approval is for exactly what was shown: a text that differs in anything is another one, and is asked about.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from odek.approval.display import command_rows, field, value

CONSEQUENCE = (
    "\nWhat you call of these is sent to the model as if you had typed it.\n\n"
    "Approve? [y = once / t = trust these texts / N]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedCommand:
    """One command as it would be offered."""

    name: str
    hint: str
    text: str

    def key(self, folder: str) -> str:
        """Return the 64 hex digits that an approval of it has in the project `folder`."""
        parts = json.dumps(["command", folder, self.name, self.hint, self.text], ensure_ascii=True)
        return hashlib.sha256(parts.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandsRequest:
    """Commands of a project that were not approved as they are."""

    folder: str
    """the project's; absolute, links resolved"""
    commands: tuple[OfferedCommand, ...]
    known: int
    """how many others of it were approved before"""


def heading_of_commands(request: CommandsRequest) -> str:
    """Return the line that says who asks for what."""
    count = "a command" if len(request.commands) == 1 else f"{len(request.commands)} commands"
    changed = ", new or changed since it was trusted" if request.known else ""
    return f"WARNING: this project (.odek/commands) offers {count} of its own{changed}:"


def describe_commands(request: CommandsRequest) -> tuple[str, ...]:
    """Return the rows of the question: all that would be sent, every foreign text made visible."""
    return tuple(
        row
        for command in request.commands
        for row in (
            *field("command", f"/{value(command.name)} {value(command.hint) if command.hint else ''}".strip()),
            *command_rows(command.text),
        )
    )
