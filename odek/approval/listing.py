"""Remembered approvals as people see and name them: short handles for long keys. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from odek.approval.display import field, readable, value
from odek.approval.notes import note_to_json
from odek.approval.store import Remembered
from odek.errors import OdekError
from odek.text import clip, plural, visible

HANDLE_DIGITS = 12
MIN_DIGITS = 4
_UNDESCRIBED = "(no description: written by another tool)"


def handle(key: str) -> str:
    """Return the beginning of each of the digests that `key` is made of."""
    return ":".join(digest[:HANDLE_DIGITS] for digest in key.split(":"))


def choose_entry(entries: Sequence[Remembered], text: str) -> Remembered:
    """Return the one entry that `text` names: a key, a handle, or the beginning of either. Raises OdekError."""
    parts = text.lower().split(":")
    if len(parts[0]) < MIN_DIGITS:
        raise OdekError(
            f'"{visible(clip(text, 140))}" is too short to name an approval',
            hint=f"give at least {MIN_DIGITS} digits of what `odek approvals list` shows",
        )
    found = [entry for entry in entries if _matches(entry.key.split(":"), parts)]
    if not found:
        raise OdekError(
            f'no remembered approval begins with "{visible(clip(text, 140))}"', hint="`odek approvals list` shows them"
        )
    if len(found) > 1:
        listed = ", ".join(handle(entry.key) for entry in found)
        raise OdekError(
            f'{len(found)} approvals begin with "{visible(clip(text, 140))}": {listed}', hint="give more digits"
        )
    return found[0]


def entries_in(entries: Sequence[Remembered], folder: str) -> tuple[Remembered, ...]:
    """Return the entries that were given for the project in `folder`."""
    return tuple(entry for entry in entries if entry.note is not None and entry.note.folder == folder)


def render_entries(entries: Sequence[Remembered], *, here: str) -> str:
    """Return a list for people; `here` is the working directory."""
    if not entries:
        return "no approval is remembered\n"
    blocks = [_block(entry, here) for entry in entries]
    return f"{plural(len(entries), 'remembered approval')}\n\n" + "\n\n".join(blocks) + "\n"


def entries_to_json(entries: Sequence[Remembered]) -> list[dict[str, object]]:
    """Return a list for machines; `folder`, `date` and `asks` are missing where no description is there."""
    return [{"key": entry.key, **(note_to_json(entry.note) if entry.note else {})} for entry in entries]


def _block(entry: Remembered, here: str) -> str:
    note = entry.note
    if note is None:
        return f"{handle(entry.key)}  {_UNDESCRIBED}"
    where = value(note.folder) + (" (this folder)" if note.folder == here else "")
    lines = [f"{handle(entry.key)}  {where}", *field("since", readable(note.date))]
    for what, text in note.asks:
        lines += field(readable(what), value(text))
    return "\n".join(lines)


def _matches(key: Sequence[str], parts: Sequence[str]) -> bool:
    return len(parts) <= len(key) and all(digest.startswith(part) for digest, part in zip(key, parts, strict=False))
