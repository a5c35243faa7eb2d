"""What is kept of a project's turns, below ~/.odek/snapshots: contents by their SHA-256, and a record of each turn.

Contents are appended to a pack, a file for each time that there are new ones: ten thousand small files would take long
to make. A pack counts once it has its list. Lists and records are written under another name and renamed, so that a
process that is killed leaves nothing half done that counts. Nothing waits for the disk: what a crash of the machine
tears is noticed when it is read, a list by its checksum, a content by its name.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from odek import safefile
from odek.errors import StateFileError
from odek.operator_home import OperatorHome
from odek.patterns import pattern
from odek.snapshot.tree import DIGEST_BYTES, TOP, Change, Damaged, Folder, State, Tree, decode, encode
from odek.state import StateFolder

FOLDER = "snapshots"
_LOCK = "store"
_INDEX = "index"
_PACK, _LIST = ".pack", ".list"
_PACK_NAME, _LIST_NAME = pattern(r"[0-9a-f]{8}\.pack"), pattern(r"[0-9a-f]{8}\.list")
_RECORD_NAME = pattern(r"turn-([0-9]{6,12})\.json")
_PLACE = struct.Struct(">32sQL")
_RECORD_BYTES = 256 << 20
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""how a file system refuses a hard link that has none"""
_SLACK = 10  # turns that may be too many before they are looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a turn, or an undo, did to the files of a project."""

    number: int
    """from 1, of all that was done in this folder"""
    session: str
    turn: int
    """of its session; 0 for an undo"""
    task: str
    """its first words"""
    at_s: float
    is_open: bool = False
    """it is under way, or its process was killed"""
    undoes: int = 0
    """the record whose changes it took back; 0: it is a turn"""
    undone_by: int = 0
    cut_off: bool = False
    """its process was killed: what was changed until it was found is in it"""
    shared: bool = False
    """another odek worked in the folder at the same time: what that one did is in it"""
    ignored: int = 0
    """how many names were not looked at because git ignores them"""
    changes: tuple[Change, ...] = ()


def project_key(folder: str) -> str:
    """Return the name under which a project's turns are kept."""
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]


class SnapshotStore(StateFolder):
    """All that is kept of one project. Every method raises StateFileError."""

    def __init__(self, where: OperatorHome, key: str) -> None:
        super().__init__(where, parts=(FOLDER, key))
        self.key = key

    @contextmanager
    def held(self, *, wait_s: float) -> Iterator[HeldStore]:
        """Hold the store against every other process and thread."""
        with self.locked(_LOCK, wait_s=wait_s):
            folder = self._folder()
            held = HeldStore(self, folder)
            try:
                yield held
            except OSError as error:
                raise self._failed("", "used", error) from error
            finally:
                held.close()
                os.close(folder)

    def exists(self) -> bool:
        """Return whether anything was ever kept."""
        folder = self._open_folder(make=False)
        if folder is not None:
            os.close(folder)
        return folder is not None

    def sizes(self) -> dict[str, tuple[float, int]]:
        """Return of each project when it was used last, and how many bytes its contents take up."""
        top = StateFolder(self._where, parts=(FOLDER,))._open_folder(make=False)
        if top is None:
            return {}
        found = {}
        try:
            for key in os.listdir(top):
                with suppress(OSError):
                    folder = os.open(key, safefile.FOLDER_FLAGS, dir_fd=top)
                    try:
                        found[key] = os.stat(_INDEX, dir_fd=folder).st_mtime, _size_of(folder)
                    finally:
                        os.close(folder)
        finally:
            os.close(top)
        return found

    def of_project(self, key: str) -> SnapshotStore:
        """Return the store of another project."""
        return SnapshotStore(self._where, key)


@dataclass(slots=True)
class HeldStore:
    """A store while its lock is held. Its methods raise OSError and StateFileError."""

    store: SnapshotStore
    folder: int
    link: Callable[..., None] = os.link
    _places: dict[bytes, tuple[str, int, int]] | None = None
    """digest → pack, place and length there; None: not read yet"""
    _pack: int = -1
    _name: str = ""
    """of the open pack"""
    _end: int = 0
    _new: list[bytes] = field(default_factory=list)

    def put(self, digest: bytes, data: bytes) -> None:
        """Keep `data`, whose SHA-256 is `digest`; it counts from the next `flush` on."""
        if digest not in self._known():
            self._append(digest, zlib.compress(data, 1))

    def get(self, digest: bytes, size: int) -> bytes:
        """Return the content called `digest`, of `size` bytes. Raises Damaged when it is gone or not whole."""
        place = self._known().get(digest)
        try:
            data = zlib.decompressobj().decompress(self._packed(*place), size + 1) if place else b""
        except (FileNotFoundError, safefile.NotRegular, zlib.error, OverflowError) as error:
            raise Damaged("its content is damaged") from error
        if place is None or hashlib.sha256(data).digest() != digest:
            raise Damaged("its content is damaged" if place else "its content is not kept any more")
        return data

    def flush(self) -> None:
        """Let what was put count."""
        if self._pack >= 0:
            places = self._known()
            listed = b"".join(_PLACE.pack(digest, *places[digest][1:]) for digest in self._new)
            self._write(self._name + _LIST, zlib.crc32(listed).to_bytes(4, "big") + listed)
            self.close()
        self._new = []

    def close(self) -> None:
        """Close the pack, which counts only if it was flushed."""
        if self._pack >= 0:
            os.close(self._pack)
            self._pack = -1

    def _append(self, digest: bytes, packed: bytes) -> None:
        if self._pack < 0:
            numbers = (int(name[:8], 16) for name in os.listdir(self.folder) if _PACK_NAME.fullmatch(name))
            self._name, self._end = f"{max(numbers, default=0) + 1:08x}", 0
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._pack = os.open(self._name + _PACK, flags, 0o600, dir_fd=self.folder)
        _write_all(self._pack, packed)
        self._known()[digest] = (self._name, self._end, len(packed))
        self._new.append(digest)
        self._end += len(packed)

    def _packed(self, pack: str, place: int, length: int) -> bytes:
        descriptor = safefile.open_regular(pack + _PACK, dir_fd=self.folder)
        try:
            return os.pread(descriptor, min(length, os.fstat(descriptor).st_size), place)
        finally:
            os.close(descriptor)

    def _known(self) -> dict[bytes, tuple[str, int, int]]:
        if self._places is None:
            self._places = {}
            for name in os.listdir(self.folder):
                if _LIST_NAME.fullmatch(name):
                    pack = name[: -len(_LIST)]
                    self._places.update({digest: (pack, at, length) for digest, at, length in self._list(pack)})
        return self._places

    def _list(self, pack: str) -> list[tuple[bytes, int, int]]:
        """Return what is in a pack; nothing where its list is damaged."""
        try:
            data = self._read(pack + _LIST)
        except safefile.NotRegular:
            return []
        is_whole = zlib.crc32(data[4:]).to_bytes(4, "big") == data[:4] and (len(data) - 4) % _PLACE.size == 0
        return list(_PLACE.iter_unpack(data[4:])) if is_whole else []

    def load_index(self, name: str = _INDEX) -> dict[str, Folder]:
        """Return the last look at the project; an empty one where there is none, or it is damaged."""
        try:
            return decode(self._read(name))
        except (FileNotFoundError, safefile.NotRegular, Damaged):
            return {}

    def save_index(self, tree: Tree) -> None:
        """Keep `tree` as the last look, and the contents in it."""
        self.flush()
        self._write(_INDEX, encode(tree))

    def keep_base(self, number: int) -> None:
        """Keep the last look as what was before the turn of record `number`."""
        self._remove(_base(number))
        try:
            self.link(_INDEX, _base(number), src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            self._write(_base(number), self._read(_INDEX))

    def load_base(self, number: int) -> dict[str, Folder]:
        """Return what was before that turn, empty where that is lost."""
        return self.load_index(_base(number))

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of all records, the newest first."""
        names = map(_RECORD_NAME.fullmatch, os.listdir(self.folder))
        return tuple(sorted((int(name[1]) for name in names if name), reverse=True))

    def record(self, number: int) -> Record | None:
        """Return a record, None where there is none or it is damaged."""
        try:
            record = _decode_record(json.loads(self._read(_record(number))))
        except (FileNotFoundError, safefile.NotRegular, ValueError, KeyError, TypeError, RecursionError):
            return None
        return record if record.number == number else None

    def records(self) -> Iterator[Record]:
        """Yield the records, the newest first, without those that are damaged."""
        for number in self.numbers():
            record = self.record(number)
            if record is not None:
                yield record

    def write(self, record: Record) -> None:
        """Keep `record` and the contents in it; one that is closed needs no base any more."""
        self.flush()
        self._write(_record(record.number), json.dumps(_encode_record(record)).encode())
        if not record.is_open:
            self._remove(_base(record.number))
            self._remove(f"{lock_of(record.number)}.lock")

    def drop(self, number: int) -> None:
        """Forget a record."""
        for name in (_record(number), _base(number), f"{lock_of(number)}.lock"):
            self._remove(name)

    def next_number(self) -> int:
        """Return the number of a new record."""
        return max(self.numbers(), default=0) + 1

    def used_bytes(self) -> int:
        """Return how much the contents take up."""
        return _size_of(self.folder)

    def sweep(self, *, max_turns: int, max_bytes: int) -> None:
        """Forget the oldest turns above the limits, and the contents that nothing needs."""
        numbers = self.numbers()
        if len(numbers) <= max_turns + _SLACK and self.used_bytes() <= max_bytes:
            return
        kept = numbers[:max_turns]
        while True:
            for number in set(numbers) - set(kept):
                self.drop(number)
            self._collect()
            if not kept or self.used_bytes() <= max_bytes:
                return
            numbers, kept = kept, kept[: len(kept) // 2]

    def clear(self) -> None:
        """Forget everything but the locks, which others may be waiting for."""
        for name in os.listdir(self.folder):
            if not name.endswith(".lock"):
                self._remove(name)

    def _collect(self) -> None:
        """Remove contents that no record and no look needs: packs of which less than half is needed are made anew."""
        needed = set()
        for name in os.listdir(self.folder):
            if name == _INDEX or name.startswith("base-"):
                tree = self.load_index(name)
                needed |= {entry.digest for folder in tree.values() for entry in folder.entries.values()}
        for record in self.records():
            states = (state for change in record.changes for state in (change.before, change.after))
            needed |= {state.digest for state in states if state is not None}
        self.flush()
        old = [name[: -len(_PACK)] for name in os.listdir(self.folder) if _PACK_NAME.fullmatch(name)]
        useless = []
        for pack in old:
            has_list = os.access(pack + _LIST, os.F_OK, dir_fd=self.folder, follow_symlinks=False)
            live = [each for each in self._list(pack) if each[0] in needed] if has_list else []
            size = os.stat(pack + _PACK, dir_fd=self.folder, follow_symlinks=False).st_size
            if sum(length for _, _, length in live) * 2 < size or not live:
                useless.append(pack)
                for digest, place, length in live:
                    self._append(digest, self._packed(pack, place, length))
        self.flush()
        for name in (pack + ending for pack in useless for ending in (_LIST, _PACK)):
            self._remove(name)
        self._places = None

    def _read(self, name: str) -> bytes:
        return safefile.read_regular(name, dir_fd=self.folder, limit_bytes=_RECORD_BYTES)

    def _write(self, name: str, data: bytes) -> None:
        temporary = f"{name}.new"  # the lock is held: there is one writer
        self._remove(temporary)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600, dir_fd=self.folder)
        try:
            _write_all(descriptor, data)
        finally:
            os.close(descriptor)
        os.replace(temporary, name, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.folder)


def lock_of(number: int) -> str:
    """Return the name of the lock that the process of a record holds while it is open."""
    return f"turn-{number:06d}"


def sweep_others(store: SnapshotStore, *, max_bytes: int) -> None:
    """Forget the projects that were not used for longest, as long as all together take more than `max_bytes`."""
    sizes = store.sizes()
    total = sum(size for _, size in sizes.values())
    for key, (_, size) in sorted(sizes.items(), key=lambda each: each[1]):
        if total <= max_bytes:
            return
        if key != store.key:
            with suppress(StateFileError), store.of_project(key).held(wait_s=0) as held:
                held.clear()
                total -= size


def _size_of(folder: int) -> int:
    packs = (name for name in os.listdir(folder) if name.endswith(_PACK))
    return sum(os.stat(name, dir_fd=folder, follow_symlinks=False).st_size for name in packs)


def _record(number: int) -> str:
    return f"turn-{number:06d}.json"


def _base(number: int) -> str:
    return f"base-{number:06d}"


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _encode_record(record: Record) -> dict[str, object]:
    fields = {name: getattr(record, name) for name in record.__slots__ if name != "changes"}
    changes = [
        [os.fsencode(change.path).decode("latin-1"), _encode_state(change.before), _encode_state(change.after)]
        for change in record.changes
    ]
    return {**fields, "changes": changes}


def _encode_state(state: State | None) -> list[object] | None:
    return None if state is None else [state.mode, state.size, state.digest.hex(), list(state.stamp)]


def _decode_record(value: object) -> Record:
    if not isinstance(value, dict) or not isinstance(changes := value.pop("changes"), list):
        raise TypeError
    made = (Change(_decode_path(path), _decode_state(before), _decode_state(after)) for path, before, after in changes)
    record = Record(**{**value, "changes": tuple(made)})
    defaults = Record(number=0, session="", turn=0, task="", at_s=0.0)
    for name in value:
        wanted = type(getattr(defaults, name))
        if type(getattr(record, name)) is not wanted and not (name == "at_s" and type(record.at_s) is int):
            raise TypeError(name)
    return record


def _decode_path(text: object) -> str:
    """Return a path of a record, which leads nowhere but below the project. Raises ValueError and TypeError."""
    if not isinstance(text, str):
        raise TypeError
    path = os.fsdecode(text.encode("latin-1"))
    if (path != TOP and not {"", ".", ".."}.isdisjoint(path.split("/"))) or "\0" in path:
        raise ValueError(path)
    return path


def _decode_state(value: object) -> State | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise TypeError
    mode, size, digest, stamp = value
    if not (type(mode) is type(size) is int and isinstance(digest, str) and isinstance(stamp, list)):
        raise TypeError
    if not (0 <= mode < 1 << 32 and 0 <= size < 1 << 62):
        raise ValueError
    state = State(mode, size, bytes.fromhex(digest), tuple(stamp))
    if state.digest and len(state.digest) != DIGEST_BYTES:
        raise ValueError
    return state
