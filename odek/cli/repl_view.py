"""What a conversation tells about itself: status line, /info, /sandbox, /cost, /help. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from odek.app.bootstrap import Session
from odek.config.view import shown_url
from odek.session.transcript import Summary
from odek.text import plural, visible

_HOST = "commands run ON THIS HOST, without a sandbox"
_LOST = "the sandbox is gone: /sandbox restart begins a new one"


def render_status(opened: Session, turns: int, *, lost: bool) -> str:
    """Return the line before a prompt: where commands run, which model answers, how far it has come."""
    facts = opened.facts
    place = _LOST if lost else f"sandbox {facts.name} · network {facts.network}" if facts else _HOST
    return f"── {place} · {visible(opened.settings.model.model)} · {plural(turns, 'turn')}"


def render_place(opened: Session, *, lost: bool) -> str:
    """Return all that is known of the place."""
    facts = opened.facts
    if lost:
        return _LOST
    if facts is None:
        return f"{_HOST}: {visible(opened.executor.workspace)}"
    rows = (
        ("container", facts.name),
        ("image", f"{facts.image} ({facts.image_id[:19]})"),
        ("user", facts.user),
        ("network", facts.network + (" (internet reachable)" if facts.internet else " (no internet)")),
        ("attached", ", ".join(network.name for network in facts.networks)),
        ("workspace", "read-only" if facts.readonly else "writable" if facts.workspace_writable else "only readable"),
        ("processes", f"at most {facts.pids_limit}"),
    )
    return _table(rows)


def render_info(opened: Session, summary: Summary | None, cwd: str, *, lost: bool) -> str:
    """Return what the conversation is; `summary` is None before its first turn."""
    model = opened.settings.model
    rows = [("session", summary.header.id if summary else "none yet: it is made with the first turn")]
    rows += [("model", model.model), ("server", shown_url(model.base_url))]
    if summary:
        rows += [
            ("turns", str(summary.state.turns)),
            ("task", summary.header.task),
            ("created", summary.header.created_at),
        ]
    place = _LOST if lost else f"sandbox {opened.facts.name}" if opened.facts else _HOST
    rows += [("folder", cwd), ("place", place)]
    return _table(rows)


def render_cost(opened: Session, summary: Summary | None) -> str:
    """Return the tokens of the whole session, as the provider counted them."""
    if summary is None:
        return "nothing was sent yet"
    usage = summary.state.usage
    rows = (
        ("model", opened.settings.model.model),
        ("turns", str(summary.state.turns)),
        ("tokens in", f"{usage.input_tokens} ({usage.cached_tokens} of them cached)"),
        ("tokens out", str(usage.output_tokens)),
    )
    return _table(rows)


def render_help(commands: Mapping[str, str]) -> str:
    """Return the list of commands, and what else can be typed."""
    return "\n".join(
        (
            _table(tuple(commands.items())),
            "",
            "Anything else is a task. @FILE in it attaches a file, the tab key completes its",
            "name; a backslash at the end of a line goes on in the next one. Ctrl-C cancels",
            "a turn, twice leaves.",
        )
    )


def _table(rows: tuple[tuple[str, str], ...] | list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name.ljust(width)}  {visible(value)}" for name, value in rows if value)
