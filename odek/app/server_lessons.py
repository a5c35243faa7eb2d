"""What servers refuse, kept between runs, so that no run begins with requests that are refused (B85, B86).

~/.odek/servers.json holds for each server and model what a client had learned when it was answered, for a week: servers
change. It is a convenience: a file that cannot be used counts as absent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from odek.errors import StateFileError
from odek.state import StateFolder

FILE = "servers.json"
KEPT_S = 7 * 86_400.0
MOST_SERVERS = 64


class ServerLessons:
    """Implements model.http.Memory for one model of one server."""

    def __init__(
        self, folder: StateFolder, *, base_url: str, model: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder = folder
        self._server = f"{base_url.rstrip('/')}\n{model}"
        self._clock = clock

    def recall(self) -> Mapping[str, Any]:
        """Return what was learned, {} for nothing."""
        entries = self._read()
        entry = entries.get(self._name) if entries else None
        lessons = entry.get("learned") if entry is not None else None
        return lessons if isinstance(lessons, dict) else {}

    @property
    def _name(self) -> str:
        import hashlib  # loads OpenSSL, and most servers teach nothing

        return hashlib.sha256(self._server.encode()).hexdigest()[:32]  # an address may hold a key

    def keep(self, lessons: Mapping[str, Any]) -> None:
        """Store what was learned. A file that cannot be written is left alone."""
        try:
            with self._folder.locked(FILE):
                entries = {**self._read(), self._name: {"at": int(self._clock()), "learned": dict(lessons)}}
                newest = sorted(entries.items(), key=lambda item: -item[1]["at"])[:MOST_SERVERS]
                self._folder.write_json(FILE, dict(newest))
        except StateFileError:
            return

    def _read(self) -> dict[str, dict[str, Any]]:
        """Return the entries that are not too old."""
        try:
            found = self._folder.read_json(FILE)
        except StateFileError:
            return {}
        entries = found.items() if isinstance(found, dict) else ()
        return {name: entry for name, entry in entries if isinstance(entry, dict) and self._is_fresh(entry.get("at"))}

    def _is_fresh(self, at: object) -> bool:
        return type(at) is int and 0 <= self._clock() - at <= KEPT_S
