"""Receipts: what was executed in a session, as a chain of hashes in which a cut or a change shows.

The file `<id>.receipts` is next to the transcript and only grows. Each line is a JSON object in one fixed spelling
(sorted keys, no blanks, ASCII):

    {"at": "2026-11-30T09:00:00Z", …, "hash": SHA-256, "number": 1, "previous": SHA-256}

`hash` is over the line without it; `previous` is the hash of the line before, for the first line that of the
session's id and, where it was forked from another one, of that one's id and last line. So no line can be changed,
removed, added or moved without a break further on. That lines are missing at the end shows in the transcript, which
keeps the number and the hash of the last one (`ReceiptHead`).

It is a record, not a seal: a program that may write both files can make both anew. Commands and outputs are in it as
digests of their redacted text, so that no secret can be guessed from one.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from odek.session.files import AppendOnlyFile, SessionFolder
from odek.session.transcript import Header, Origin, ReceiptHead

SUFFIX = ".receipts"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file that a tool wrote."""

    path: str
    """relative to the workspace"""
    sha256: str
    """of its new content"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One command that ran, one file that was written, or one call of a tool of an MCP server."""

    at: str
    """when it ended, RFC 3339"""
    kind: Literal["command", "write", "call"]
    place: Literal["sandbox", "host"]
    container: str
    """full ID; "" on the host"""
    image: str
    """full ID; "" on the host"""
    network: str
    """ContainerFacts.network; "host" on the host"""
    networks: tuple[str, ...]
    """full IDs of the attached ones"""
    user: str
    """uid:gid"""
    risk: tuple[str, ...]
    """classes of danger, the most severe first"""
    decision: str
    """who allowed it and how, as approval.gatekeeper.Basis has it"""
    command_sha256: str = ""
    """of the redacted command, or of the tool with its arguments; "" for a file"""
    output_sha256: str = ""
    """of the redacted output, stdout before stderr where they were kept separate; "" for a file, and for a call that
    had no answer"""
    exit_status: int | None = None
    """None: it was stopped before it had one, or it is not a command"""
    file: WrittenFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a check of a chain found."""

    receipts: tuple[Receipt, ...]
    """those before the first break"""
    broken_line: int | None
    """the first line that does not belong there, from 1; None: all is as it was written"""
    reason: str = ""
    """what is wrong with it"""


class ReceiptFile:
    """The file of a session's receipts, open for appending; the session's lock is held. May be used in any thread.

    It is not waited for the disk: after a loss of power lines may be missing, and the check says so.
    """

    def __init__(self, folder: SessionFolder, header: Header, head: ReceiptHead | None) -> None:
        """`head` is what the transcript knows of; nothing is opened before the first receipt."""
        self.head = head
        self._folder = folder
        self._id = header.id
        self._first = first_head(header.id, header.origin)
        self._file: AppendOnlyFile | None = None
        self._lock = threading.Lock()

    def add(self, receipt: Receipt) -> None:
        """Append `receipt`. Raises StateFileError."""
        with self._lock:
            if self._file is None:
                self._file = self._open()
            line, head = receipt_line(receipt, self.head or self._first)
            self._file.append(line, wait=False)
            self.head = head

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def _open(self) -> AppendOnlyFile:
        """Open the file behind its last whole line, which may be one more than the transcript knows of."""
        name = self._id + SUFFIX
        data = self._folder.read_all(name)
        if data is None:
            self._folder.write(name, b"")
            return self._folder.open_for_append(name)
        whole = data[: data.rfind(b"\n") + 1]
        known = self.head or self._first
        last = _last_head(whole)
        if last is not None and last.number > known.number:
            self.head = last
        return self._folder.open_for_append(name, size_bytes=len(whole))


def _last_head(data: bytes) -> ReceiptHead | None:
    """Return what the last line of `data` says of itself, None when it is not a receipt."""
    try:
        value = json.loads(data[data.rfind(b"\n", 0, -1) + 1 :])
        return ReceiptHead(number=int(value["number"]), hash=str(value["hash"]))
    except (ValueError, KeyError, TypeError):
        return None


def first_head(session_id: str, origin: Origin | None = None) -> ReceiptHead:
    """Return the head of an empty chain, which belongs to one session; `origin` is what that was forked from."""
    begun = f"odek receipts 1 {session_id}"
    if origin is not None:
        head = origin.receipts or first_head(origin.id)
        begun += f" from {origin.id} {head.number} {head.hash}"
    return ReceiptHead(number=0, hash=_digest(begun.encode()))


def receipt_line(receipt: Receipt, head: ReceiptHead) -> tuple[bytes, ReceiptHead]:
    """Return the line that follows `head`, and the new head."""
    body = {**asdict(receipt), "number": head.number + 1, "previous": head.hash}
    new = ReceiptHead(number=head.number + 1, hash=_digest(_canonical(body)))
    return _canonical({**body, "hash": new.hash}) + b"\n", new


def check_receipts(
    data: bytes, session_id: str, *, expected: ReceiptHead | None, origin: Origin | None = None
) -> Verdict:
    """Return whether `data` is a whole chain of the session; `expected` is the head that its transcript keeps.

    More lines than `expected` knows of are fine: the transcript is written after the receipt.
    """
    head = first_head(session_id, origin)
    receipts: list[Receipt] = []
    reached = expected is None or expected == head
    for number, line in enumerate(filter(None, re.split(rb"(?<=\n)", data)), start=1):
        try:
            receipt, after = _read_line(line, head)
        except ValueError as error:
            return Verdict(receipts=tuple(receipts), broken_line=number, reason=str(error))
        receipts.append(receipt)
        head = after
        if expected is not None and number == expected.number:
            if head != expected:
                return Verdict(
                    receipts=tuple(receipts[:-1]), broken_line=number, reason="the transcript knows another line here"
                )
            reached = True
    if not reached and expected is not None:
        missing = f"the file ends here; the transcript knows of {expected.number} lines"
        return Verdict(receipts=tuple(receipts), broken_line=len(receipts) + 1, reason=missing)
    return Verdict(receipts=tuple(receipts), broken_line=None)


def _read_line(line: bytes, head: ReceiptHead) -> tuple[Receipt, ReceiptHead]:
    """Return what the line after `head` says. Raises ValueError, its text fit for a person."""
    if not line.endswith(b"\n"):
        raise ValueError("the line is cut off")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not JSON") from error
    if not isinstance(value, dict) or _canonical(value) + b"\n" != line:
        raise ValueError("it is not spelled as odek writes it")
    if value.pop("hash", None) != _digest(_canonical(value)):
        raise ValueError("its content does not have its hash")
    if value.pop("number", None) != head.number + 1 or value.pop("previous", None) != head.hash:
        raise ValueError("it does not follow the line before")
    return _receipt(value), ReceiptHead(number=head.number + 1, hash=json.loads(line)["hash"])


def _receipt(value: Mapping[str, Any]) -> Receipt:
    """Return the receipt with the fields of `value`. Raises ValueError."""
    file, status = value.get("file"), value.get("exit_status")
    texts = {key: item for key, item in value.items() if key not in ("file", "exit_status", "networks", "risk")}
    lists = {key: value.get(key) for key in ("networks", "risk")}
    good = (
        value.keys() == {field.name for field in fields(Receipt)}
        and all(isinstance(item, str) for item in texts.values())
        and all(isinstance(item, list) and all(isinstance(each, str) for each in item) for item in lists.values())
        and (status is None or type(status) is int)
        and (file is None or (isinstance(file, dict) and file.keys() == {"path", "sha256"}))
    )
    if not good:
        raise ValueError("its fields are not those of a receipt; it may come from a newer odek")
    written = WrittenFile(path=str(file["path"]), sha256=str(file["sha256"])) if file else None
    tuples: dict[str, Any] = {key: tuple(item or ()) for key, item in lists.items()}
    return Receipt(**texts, **tuples, exit_status=status, file=written)


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
