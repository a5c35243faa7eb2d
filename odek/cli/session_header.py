"""The line, or with --json the event, that says which session is kept and where its commands run."""

from __future__ import annotations

import json

from odek.cli.terminal import Terminal
from odek.config.settings import Settings
from odek.text import visible


def print_session_header(
    settings: Settings, terminal: Terminal, session_id: str, *, turn: int = 1, sandboxed: bool | None = None
) -> None:
    """Print which session is kept; `sandboxed`: how a continued one was begun. With --json: `print_session_event`."""
    if settings.json or settings.interaction_mode == "off":
        return
    if sandboxed is None:
        terminal.note(f"session {visible(session_id)} created")
    else:
        place = "pinned to the sandbox" if sandboxed else "pinned to the host"
        terminal.note(f"continuing session {visible(session_id)}, turn {turn}, {place}")


def print_session_event(
    settings: Settings, terminal: Terminal, session_id: str | None, *, turn: int = 1, on_host_because: str
) -> None:
    """Print the first event of --json: the session, if it is kept, and where its commands run."""
    if settings.json:
        place = "host" if on_host_because else "sandbox"
        event = {"event": "session", "id": session_id, "turn": turn, "place": place, "reason": on_host_because or None}
        terminal.answer(json.dumps(event))
