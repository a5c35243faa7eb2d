"""Files that a browser sends: kept until the message that they belong to, then as long as its session (R-143).

They lie below ~/.odek/uploads: one that waits in the folder of the login that sent it, under a name of odek's own, one
that was sent in its session's, under the name that it has in /ctx. `odek continue` finds it there.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from odek.app.attachments import FILE_LIMIT_BYTES, Attachment
from odek.errors import StateFileError
from odek.operator_home import OperatorHome
from odek.text import visible
from odek.web.errors import Refused
from odek.web.private_folder import PrivateFolder

FOLDER = "uploads"
WAITING_LIMIT_BYTES = 64 << 20
KEPT_S = 3600.0
_NAME_LIMIT_BYTES = 200
_EXTENSION_LIMIT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Upload:
    folder: str
    """where it lies: a login's id, or a session's"""
    stored: str
    """its name there"""
    name: str
    size: int
    sha256: str
    since: float
    waits: bool = True
    """whether no message has taken it"""


class Uploads:
    """The files of one server; safe in any thread."""

    def __init__(self, where: OperatorHome, *, random_hex: Callable[[int], str], clock: Callable[[], float]) -> None:
        """`clock` is in seconds since the epoch."""
        self._where = where
        self._random_hex = random_hex
        self._clock = clock
        self._lock = threading.Lock()
        self._uploads: dict[str, _Upload] = {}
        self._reserved = 0

    def reserve(self, size: int) -> None:
        """Set room aside before a file is read. Raises Refused when too much waits."""
        self.expire()
        with self._lock:
            waiting = sum(upload.size for upload in self._uploads.values() if upload.waits)
            if waiting + self._reserved + size > WAITING_LIMIT_BYTES:
                raise Refused(
                    507, "full", f"{WAITING_LIMIT_BYTES >> 20} MiB of uploads are waiting for their messages",
                    "send or remove some",
                )  # fmt: skip
            self._reserved += size

    def release(self, size: int) -> None:
        """Give back what `reserve` set aside."""
        with self._lock:
            self._reserved -= size

    def keep(self, name: str, data: bytes, browser: str) -> dict[str, object]:
        """Store a file and return its id, its name in /ctx and its size. Raises Refused."""
        upload_id, cleaned = self._random_hex(16), clean_name(name)
        try:
            self._folder(browser).write(upload_id, data)
        except StateFileError as error:
            raise Refused.because(error, status=507, code="storage") from error
        with self._lock:
            self._uploads[upload_id] = _Upload(
                folder=browser,
                stored=upload_id,
                name=cleaned,
                size=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
                since=self._clock(),
            )
        return {"id": upload_id, "name": cleaned, "size": len(data)}

    def drop(self, upload_id: str) -> None:
        """Remove a file that no message has taken. Raises Refused when there is none."""
        with self._lock:
            upload = self._uploads.get(upload_id)
            if upload is None or not upload.waits:
                raise Refused(404, "not_found", "there is no such upload")
            del self._uploads[upload_id]
        self._remove(upload)

    def take(self, ids: Sequence[str], session_id: str) -> tuple[Attachment, ...]:
        """Return the files `ids` of a message, which are the session's from now on; again the same for a retry.

        Raises Refused: 422 when one is not known, 507 when it cannot be stored.
        """
        wanted = tuple(dict.fromkeys(ids))
        with self._lock:
            known = [self._uploads.get(upload_id) for upload_id in wanted]
            if None in known:
                raise Refused(422, "upload", "a file is not here any more", "upload it again")
            try:
                return tuple(self._give(upload_id, session_id) for upload_id in wanted)
            except StateFileError as error:
                raise Refused.because(error, status=507, code="storage") from error

    def forget(self, session_id: str) -> None:
        """Remove the files of a session that is deleted, as far as that goes."""
        with self._lock:
            for upload_id in [key for key, upload in self._uploads.items() if upload.folder == session_id]:
                del self._uploads[upload_id]
        forget_uploads(self._where, session_id)

    def expire(self) -> None:
        """Remove what has waited for an hour."""
        now = self._clock()
        with self._lock:
            old = {key: upload for key, upload in self._uploads.items() if now - upload.since >= KEPT_S}
            for upload_id in old:
                del self._uploads[upload_id]
        for upload in old.values():
            if upload.waits:
                self._remove(upload)

    def close(self) -> None:
        """Remove what still waits: no later server knows of it."""
        with self._lock:
            waiting = [upload for upload in self._uploads.values() if upload.waits]
            self._uploads.clear()
        for upload in waiting:
            self._remove(upload)

    def sweep(self, is_session: Callable[[str], bool]) -> None:
        """Remove what servers and sessions that are gone have left behind for an hour."""
        with suppress(StateFileError, OSError):
            for name in self._folder().names():
                if not is_session(name):
                    _empty(self._where, name, is_due=self._is_old)

    def _is_old(self, name: str, within: PrivateFolder) -> bool:
        return within.age_s(name, self._clock()) >= KEPT_S

    def _give(self, upload_id: str, session_id: str) -> Attachment:
        upload = self._uploads[upload_id]
        source = self._folder(upload.folder)
        data = source.read(upload.stored, limit_bytes=FILE_LIMIT_BYTES)
        if data is None or hashlib.sha256(data).hexdigest() != upload.sha256:
            raise Refused(422, "upload", "a file is not what it was", "upload it again")
        target = self._folder(session_id)
        if upload.folder != session_id:
            stored = unused_name(upload.name, target.names())
            target.write(stored, data)
            if upload.waits:
                self._remove(upload)
            upload = replace(upload, folder=session_id, stored=stored, waits=False)
            self._uploads[upload_id] = upload
        path = os.path.realpath(target.path(upload.stored))
        return Attachment(name=upload.stored, source=f"upload:{upload.stored}", path=path, relative="", data=data)

    def _remove(self, upload: _Upload) -> None:
        with suppress(StateFileError, OSError):
            self._folder(upload.folder).remove(upload.stored)
            self._folder().remove_folder(upload.folder)

    def _folder(self, *names: str) -> PrivateFolder:
        return PrivateFolder(self._where, parts=(FOLDER, *names))


def forget_uploads(where: OperatorHome, session_id: str) -> None:
    """Remove the files of a session that is deleted, as far as that goes."""
    _empty(where, session_id, is_due=lambda _name, _within: True)


def _empty(where: OperatorHome, folder: str, *, is_due: Callable[[str, PrivateFolder], bool]) -> None:
    with suppress(StateFileError, OSError):
        within = PrivateFolder(where, parts=(FOLDER, folder))
        for name in within.names():
            if is_due(name, within):
                within.remove(name)
        PrivateFolder(where, parts=(FOLDER,)).remove_folder(folder)


def clean_name(name: str) -> str:
    """Return `name` without folders, controls, invisible characters and leading dots; short enough for any disk."""
    last = name.replace("\\", "/").rpartition("/")[2]
    plain = "".join(character for character in last if visible(character) == character).strip().lstrip(". ")
    stem, dot, extension = plain.rpartition(".")
    if not dot or len(extension) > _EXTENSION_LIMIT:
        stem, extension = plain, ""
    tail = f".{extension}" if extension else ""
    kept = stem.encode()[: _NAME_LIMIT_BYTES - len(tail.encode())].decode(errors="ignore").rstrip()
    return f"{kept}{tail}" if kept else f"upload{tail}"


def unused_name(name: str, taken: Sequence[str]) -> str:
    """Return `name`, with a number before its extension when it is `taken`."""
    stem, dot, extension = name.rpartition(".")
    if not stem:
        stem, dot, extension = name, "", ""
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        candidate = f"{stem}-{number}{dot}{extension}"
    return candidate
