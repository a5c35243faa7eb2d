"""What remembered approvals stand for: ~/.odek/project_sandbox_approvals.notes.json.

The approvals themselves are bare digests. This file says in words what each was given for, by the
same keys; it is written beside them and approves nothing. So it is never an obstacle: what cannot
be read is replaced at the next approval, and a key without a note still counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from odek.approval.request import ApprovalRequest, ApprovedNetwork
from odek.text import clip

FILE = "project_sandbox_approvals.notes.json"
LIMIT_BYTES = 8 << 20
MAX_PARTS = 100  # of one request; what is beyond is counted
MAX_CHARACTERS = 300  # of one part


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What one approval was given for."""

    folder: str
    """the project's; absolute, links resolved"""
    date: str
    """when, in UTC: 2025-01-31T12:00:00Z"""
    asks: tuple[tuple[str, str], ...]
    """(what, value), in the order of the prompt; foreign text as it is, clipped"""


def take_note(request: ApprovalRequest, *, date: str) -> Note:
    """Return the note on `request`. Of variables it keeps the names, never a value."""
    parts = _parts(request)
    if len(parts) > MAX_PARTS:
        parts = [*parts[:MAX_PARTS], ("more", f"{len(parts) - MAX_PARTS} further entries")]
    asks = tuple((clip(what, MAX_CHARACTERS), clip(value, MAX_CHARACTERS)) for what, value in parts)
    return Note(folder=request.project_dir, date=date, asks=asks)


def changes(note: Note, request: ApprovalRequest) -> tuple[str, ...]:
    """Return what of `request` is not as `note` has it ("image"), in the order of the prompt.

    Empty where the difference is one that notes do not keep: the value of a variable.
    """
    now = take_note(request, date=note.date).asks
    return tuple(
        dict.fromkeys(
            what for what, value in (*now, *note.asks) if ((what, value) in now) != ((what, value) in note.asks)
        )
    )


def note_to_json(note: Note) -> dict[str, object]:
    """Return `note` fit for JSON; `parse_notes` reads it back."""
    return {
        "folder": note.folder,
        "date": note.date,
        "asks": [{"what": what, "value": value} for what, value in note.asks],
    }


def parse_notes(content: object) -> dict[str, Note]:
    """Return the notes of a file's JSON value by key. Whatever is no note is left out."""
    if not isinstance(content, dict):
        return {}
    found = ((key, _parse_note(value)) for key, value in content.items())
    return {key: note for key, note in found if note is not None}


def _parse_note(value: object) -> Note | None:
    if not isinstance(value, dict):
        return None
    folder, date, asks = value.get("folder"), value.get("date"), value.get("asks")
    if not (isinstance(folder, str) and isinstance(date, str) and isinstance(asks, list)):
        return None
    pairs = [(ask.get("what"), ask.get("value")) for ask in asks if isinstance(ask, dict)]
    texts = tuple((what, text) for what, text in pairs if isinstance(what, str) and isinstance(text, str))
    return Note(folder=folder, date=date, asks=texts)


def _parts(request: ApprovalRequest) -> list[tuple[str, str]]:
    named = (("image", request.image), ("network", request.network), ("compose", request.compose_project))
    parts = [(what, value) for what, value in named if value]
    parts += [("attach", _network(network)) for network in request.networks]
    parts += [("env", override.key + _reads(override.variables)) for override in request.env]
    parts += [("volume", volume) for volume in request.volumes]
    parts += [("user", request.user)] if request.user else []
    parts += list(request.other)
    parts += [("build", f"Dockerfile.odek sha256:{request.dockerfile_sha256}")] if request.dockerfile_sha256 else []
    parts += [("without", f".dockerignore sha256:{request.ignore_sha256}")] if request.ignore_sha256 else []
    return parts


def _network(network: ApprovedNetwork) -> str:
    internal = ", internal" if network.internal else ""
    project = f", Compose project {network.compose_project}" if network.compose_project else ""
    return f"{network.name} ({network.id}{internal}{project})"


def _reads(variables: tuple[str, ...]) -> str:
    return f" (reads {', '.join(variables)})" if variables else ""
