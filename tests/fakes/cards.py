"""Questions as a gatekeeper makes them."""

from __future__ import annotations

from odek.approval.card import Card, PendingOperation
from odek.approval.operation import Operation


def command_card(command: str, *, id: str = "a-1") -> Card:  # noqa: A002 - the name of the field
    """Return the question about one command."""
    item = PendingOperation(
        operation=Operation(kind="command", subject=command), classes=("unknown",), risk="r", rule="u", setting="s"
    )
    return Card(id=id, items=(item,), place="sandbox odek-1-1, network=none", answers=("once", "deny"))
