"""Sessions as JSON values: one as a whole, as a line of the list, and its state alone (R-131, R-136)."""

from __future__ import annotations

from odek.events import usage_fields
from odek.session.groups import history
from odek.session.transcript import Summary, Transcript
from odek.text import visible
from odek.web.entries import entries_of, numbered
from odek.web.place import Place, Serving, why_not_ours
from odek.web.session import LiveSession

NEWEST = 100
"""entries in a snapshot"""
_TITLE = 200


def of_live(session: LiveSession) -> dict[str, object] | None:
    """Return a session that is live here; None when it has just ended."""
    place, conversation = session.place, session.conversation
    with place.log.lock:
        summary = conversation.summary if conversation and place.live else None
        if summary is None:
            return None
        place.log.flush()
        view = place.view
        first = max(len(view.entries) - NEWEST, 0)
        return {
            **_summary(summary),
            "writable": {"ok": True},
            "live": True,
            "state": place.state,
            "turn": view.turn and {**view.turn, "partial": view.partial, "running": list(view.running)},
            "tasks": list(view.tasks.values()),
            "approvals": place.cards.open,
            "container": view.container,
            "usage": view.usage,
            "context": view.context,
            "entries": numbered(view.entries[first:], first + 1),
            "first": first + 1,
            "last_event": place.log.last,
        }


def of_stored(transcript: Transcript, place: Place, serving: Serving) -> dict[str, object]:
    """Return a session that is not live here, as it is on the disk."""
    entries = entries_of(history(transcript), {}, serving.redact)
    first = max(len(entries) - NEWEST, 0)
    return {
        **_summary(Summary(header=transcript.header, state=transcript.state)),
        "writable": _writable(transcript, serving),
        "live": False,
        "state": "idle",
        "turn": None,
        "tasks": [],
        "approvals": [],
        "container": None,
        "usage": usage_fields(transcript.state.usage),
        "context": {"tokens": 0, "window": None},
        "entries": numbered(entries[first:], first + 1),
        "first": first + 1,
        "last_event": place.log.last,
    }


def listed(summary: Summary, session: LiveSession | None, serving: Serving) -> dict[str, object]:
    """Return a line of the list; `session`: it is live here."""
    live, cwd = session is not None and session.place.live, summary.state.cwd
    return {
        **_summary(summary),
        "live": live,
        "state": session.place.state if session and live else None,
        "elsewhere": bool(cwd) and cwd != serving.runtime.host.cwd,
    }


def state_of(session: LiveSession) -> dict[str, object]:
    """Return what a page asks of a live session again and again."""
    place = session.place
    with place.log.lock:
        turn = place.view.turn
        summary = session.conversation.summary if session.conversation else None
        return {
            "id": session.id,
            "title": summary.header.task[:_TITLE] if summary else "",
            "state": place.state,
            "turn": turn["turn"] if turn else None,
            "approvals": len(place.cards.open),
        }


def _summary(summary: Summary) -> dict[str, object]:
    header, state = summary.header, summary.state
    return {
        "id": header.id,
        "title": header.task[:_TITLE],
        "created_at": header.created_at,
        "updated_at": state.updated_at,
        "turns": state.turns,
        "model": state.model,
        "sandbox": header.sandbox,
        "cwd": visible(state.cwd),
    }


def _writable(transcript: Transcript, serving: Serving) -> dict[str, object]:
    """Return whether a message could go on with a session that is not live here, and why not."""
    header, state = transcript.header, transcript.state
    refusal = why_not_ours(state.cwd, header.sandbox, serving)
    if refusal is not None:
        return {"ok": False, "code": refusal.code, "message": refusal.message, "hint": refusal.hint}
    holder = serving.store.holder(header.id)
    if holder is None:
        return {"ok": True}
    by = f"process {visible(holder)}" if holder else "another process"
    return {"ok": False, "code": "in_use", "message": f"it is in use by {by}", "hint": "wait for it to end"}
