"""Fields of messages and calls that odek does not know, kept so that they go back to the server as they came.

Signatures of thoughts, details of reasoning, whatever a provider adds next: some refuse a conversation in
which it is missing. In a stream such fields come in pieces, by rules that no document states. Text that
grows is joined, by the names below; lists of numbered parts are joined part by part; of anything else the last
value counts. Pure; what is kept is JSON text, so that messages stay values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from odek.model.unicode_repair import valid_text

_GROWING = frozenset({"text", "summary", "thinking", "reasoning", "reasoning_content", "reasoning_text", "content"})
_SEALED = frozenset({"data", "signature", "thought_signature"})  # in pieces with some, repeated whole by others
_PLACES = ("index", "id")


class Extras:
    """The unknown fields of one message or call, collected from its pieces."""

    __slots__ = ("_fields",)

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}

    def feed(self, fields: Mapping[str, Any], known: frozenset[str]) -> None:
        """Add those of `fields` that are not `known`."""
        for name, value in fields.items():
            if name not in known and value is not None:
                self._fields[name] = _joined(name, self._fields.get(name), value)

    def to_json(self) -> str:
        """Return the fields as JSON text, "" without any."""
        return to_json(self._fields)


def to_json(fields: Mapping[str, Any]) -> str:
    """Return `fields` as JSON text, without empty ones; "" without any."""
    said = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    return valid_text(json.dumps(said, ensure_ascii=False)) if said else ""


def from_json(extra: str) -> dict[str, Any]:
    """Return the fields in `extra` again."""
    fields: dict[str, Any] = json.loads(extra) if extra else {}
    return fields


def _joined(name: str, known: object, piece: object) -> object:
    if isinstance(known, str) and isinstance(piece, str):
        repeats = name in _SEALED and piece == known
        return known + piece if name in _GROWING or (name in _SEALED and not repeats) else piece
    if isinstance(known, dict) and isinstance(piece, dict):
        return {
            **known,
            **{key: _joined(key, known.get(key), value) for key, value in piece.items() if value is not None},
        }
    if isinstance(known, list) and isinstance(piece, list):
        return _joined_parts(known, piece)
    return piece if known is None or piece not in ("", [], {}) else known


def _joined_parts(known: list[Any], pieces: list[Any]) -> list[Any]:
    """Return the parts of a list and further ones; a piece with the place of the last part belongs to it."""
    parts = list(known)
    for piece in pieces:
        if parts and _same_part(parts[-1], piece):
            parts[-1] = _joined("", parts[-1], piece)
        else:
            parts.append(piece)
    return parts


def _same_part(part: object, piece: object) -> bool:
    if not isinstance(part, dict) or not isinstance(piece, dict) or part.get("type") != piece.get("type"):
        return False
    places = [key for key in _PLACES if part.get(key) is not None and piece.get(key) is not None]
    return bool(places) and all(part[key] == piece[key] for key in places)
