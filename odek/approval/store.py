"""Remembered approvals: ~/.odek/project_sandbox_approvals.json and a file that describes them (R-61, B30).

The approvals are a JSON object that maps keys to `true`. A key is the 64 hex digits of `request.fingerprint`, which
older tools write and read as well, or those, a colon and the 64 of `request.digest`. The short form counts for a
request only when it binds all of it; for any other only the long form does.

project_sandbox_approvals.notes.json describes by the same keys what each was given for. It approves nothing, so it is
never an obstacle: what cannot be read is replaced at the next approval, and a key without a record still counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from odek.approval.file import ApprovalFile
from odek.approval.request import ApprovalRequest, ApprovedNetwork, digest, fingerprint, fingerprint_covers
from odek.errors import StateFileError
from odek.patterns import pattern
from odek.state import StateFolder
from odek.text import truncate

FILE = "project_sandbox_approvals.json"
RECORDS_FILE = "project_sandbox_approvals.notes.json"
RECORDS_LIMIT_BYTES = 8 << 20
MAX_PARTS = 100  # of one request; the rest is counted
MAX_CHARACTERS = 300  # of one part
SHORT_ID_DIGITS = 12
_KEY = pattern(r"[0-9a-f]{64}(:[0-9a-f]{64})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRecord:
    """What one approval was given for."""

    folder: str
    """the project's; absolute, links resolved"""
    date: str
    """when, in UTC: 2025-01-31T12:00:00Z"""
    asks: tuple[tuple[str, str], ...]
    """(what, value), in the order of the prompt; foreign text as it is, truncated"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredApproval:
    """One remembered approval."""

    key: str
    record: ApprovalRecord | None
    """None: another tool wrote it, or its description is lost"""


class ApprovalStore:
    """The approvals that were given with "trust this project"."""

    def __init__(self, folder: StateFolder, *, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since the epoch, for the dates of the records."""
        self._folder = folder
        self._file = ApprovalFile(folder, FILE, keys=_KEY, clock=clock)

    @property
    def path(self) -> str:
        return self._file.path

    def holds(self, request: ApprovalRequest) -> bool:
        """Return whether exactly this request was trusted before.

        Raises StateFileError when the file is linked, open to others, another user's or damaged: a file that another
        user may have written approves nothing.
        """
        return approval_key(request) in self._read()

    def remember(self, request: ApprovalRequest) -> None:
        """Trust `request` from now on, keeping what other processes wrote meanwhile. Raises StateFileError."""
        date = self._file.now()
        key = approval_key(request)
        with self._file.locked():
            self._write(self._read() | {key}, {**self._read_records(), key: make_record(request, date=date)})

    def entries(self) -> tuple[StoredApproval, ...]:
        """Return all remembered approvals, sorted by key. Raises StateFileError as `holds` does."""
        keys, records = self._read(), self._read_records()
        return tuple(StoredApproval(key=key, record=records.get(key)) for key in sorted(keys))

    def earlier(self, folder: str) -> ApprovalRecord | None:
        """Return what was trusted last in `folder`, None when nothing was. Raises StateFileError as `holds` does."""
        records = [entry.record for entry in self.entries() if entry.record and entry.record.folder == folder]
        return max(records, key=lambda record: record.date, default=None)

    def forget(self, keys: Collection[str]) -> None:
        """Remove the approvals with `keys`; unknown keys are ignored. Raises StateFileError."""
        with self._file.locked():
            self._write(self._read() - frozenset(keys), self._read_records())

    def _write(self, keys: frozenset[str], records: dict[str, ApprovalRecord]) -> None:
        self._file.write(dict.fromkeys(keys, True))
        kept = {key: record_to_json(record) for key, record in records.items() if key in keys}
        try:
            self._folder.write_json(RECORDS_FILE, kept)
        except StateFileError:  # the approval counts all the same
            pass

    def _read_records(self) -> dict[str, ApprovalRecord]:
        try:
            return parse_records(self._folder.read_json(RECORDS_FILE, limit_bytes=RECORDS_LIMIT_BYTES))
        except StateFileError:  # they only describe: what cannot be trusted is not shown, and replaced
            return {}

    def _read(self) -> frozenset[str]:
        content = self._file.read()
        for key, approved in content.items():
            if approved is not True:
                raise self._file.damaged(f"the value of {key} is not true")
        return frozenset(content)


def approval_key(request: ApprovalRequest) -> str:
    """Return the key under which an approval of `request` is remembered."""
    short = fingerprint(request)
    return short if fingerprint_covers(request) else f"{short}:{digest(request)}"


def short_id(key: str) -> str:
    """Return the beginning of each of the digests that `key` is made of."""
    return ":".join(part[:SHORT_ID_DIGITS] for part in key.split(":"))


def make_record(request: ApprovalRequest, *, date: str) -> ApprovalRecord:
    """Return the record of `request`. Of variables it keeps the names, never a value."""
    parts = _parts(request)
    if len(parts) > MAX_PARTS:
        parts = [*parts[:MAX_PARTS], ("more", f"{len(parts) - MAX_PARTS} further entries")]
    asks = tuple((truncate(what, MAX_CHARACTERS), truncate(value, MAX_CHARACTERS)) for what, value in parts)
    return ApprovalRecord(folder=request.project_dir, date=date, asks=asks)


def changed_parts(record: ApprovalRecord, request: ApprovalRequest) -> tuple[str, ...]:
    """Return which parts of `request` differ from `record` ("image"), in the order of the prompt.

    Empty where the difference is one that records do not keep: the value of a variable.
    """
    now, before = make_record(request, date=record.date).asks, record.asks
    return tuple(dict.fromkeys(ask[0] for ask in (*now, *before) if (ask in now) != (ask in before)))


def record_to_json(record: ApprovalRecord) -> dict[str, object]:
    """Return `record` as JSON values; `parse_records` reads it back."""
    asks = [{"what": what, "value": value} for what, value in record.asks]
    return {"folder": record.folder, "date": record.date, "asks": asks}


def parse_records(content: object) -> dict[str, ApprovalRecord]:
    """Return the records in a file's JSON value, by key; anything else in it is ignored."""
    if not isinstance(content, dict):
        return {}
    parsed = ((key, _parse_record(value)) for key, value in content.items())
    return {key: record for key, record in parsed if record is not None}


def _parse_record(value: object) -> ApprovalRecord | None:
    if not isinstance(value, dict):
        return None
    folder, date, asks = value.get("folder"), value.get("date"), value.get("asks")
    if not (isinstance(folder, str) and isinstance(date, str) and isinstance(asks, list)):
        return None
    pairs = [(ask.get("what"), ask.get("value")) for ask in asks if isinstance(ask, dict)]
    texts = tuple((what, text) for what, text in pairs if isinstance(what, str) and isinstance(text, str))
    return ApprovalRecord(folder=folder, date=date, asks=texts)


def _parts(request: ApprovalRequest) -> list[tuple[str, str]]:
    build, ignore = request.dockerfile_sha256, request.ignore_sha256
    parts = [
        ("image", request.image),
        ("network", request.network),
        ("compose", request.compose_project),
        *(("attach", _network(network)) for network in request.networks),
        *(("env", override.key + _reads(override.variables)) for override in request.env),
        *(("volume", volume) for volume in request.volumes),
        ("user", request.user),
        ("build", f"Dockerfile.odek sha256:{build}" if build else ""),
        ("without", f".dockerignore sha256:{ignore}" if ignore else ""),
    ]
    return [(what, value) for what, value in parts if value]


def _network(network: ApprovedNetwork) -> str:
    internal = ", internal" if network.internal else ""
    project = f", Compose project {network.compose_project}" if network.compose_project else ""
    return f"{network.name} ({network.id}{internal}{project})"


def _reads(variables: tuple[str, ...]) -> str:
    return f" (reads {', '.join(variables)})" if variables else ""
