"""What is in a file that `docker save` wrote, compressed by gzip or not, every digest computed anew (D-12).

The ID of an image is a digest: of its configuration, which lists the digests of its layers, or with
a containerd store of a manifest or an index, which list all parts. An ID counts here only when
everything that it refers to is in the file and has the digest that is claimed for it.

The tar file is read from front to back in bounded memory and never unpacked. tarfile of the standard
library reads an extended header of any size into memory; the reader here knows what image archives consist
of (POSIX ustar and pax, long names of GNU tar) and refuses the rest.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import posixpath
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Literal, cast

from odek.patterns import pattern
from odek.sandbox.errors import SandboxConfigError
from odek.text import truncate, visible

BLOCK = 512
CHUNK = 1 << 18
MAX_HEADER_BYTES = 1 << 16
_MAX_TOTAL_BYTES = 256 << 30  # ends a file that unpacks without end
_MAX_DIGITS = 20  # of a size; 2**64 has that many
_OCTAL = frozenset(b"01234567")
_KINDS: dict[bytes, Literal["file", "folder", "link"]] = {b"0": "file", b"\0": "file", b"5": "folder", b"2": "link"}


class TarError(ValueError):
    """The file is not a tar file that this reader takes; the text says why."""


class MissingError(TarError):
    """A file that another one names is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One entry of the archive."""

    name: str
    """as written, bytes that are no UTF-8 as surrogates"""
    kind: Literal["file", "folder", "link"]
    size_bytes: int
    target: str
    """of a symbolic link, as written"""


class TarStream:
    """Iterates over the members; `chunks` gives the content of the present one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = 0
        self._padding = 0
        self._total = 0

    def members(self) -> Iterator[Member]:
        """Yield each member. Raises TarError."""
        changes: dict[str, str] = {}
        while True:
            self._skip()
            header = self._read(BLOCK)
            if header == bytes(BLOCK):
                return
            kind, member = _parse_header(header)
            if kind in b"xgLK":
                changes.update(self._extension(kind, member.size_bytes))
                continue
            member = _apply(member, changes)
            changes = {}
            self._left = member.size_bytes if member.kind == "file" else 0
            self._padding = -self._left % BLOCK
            yield member

    def chunks(self) -> Iterator[bytes]:
        """Yield the content of the present member, once."""
        while self._left:
            data = self._read(min(self._left, CHUNK))
            self._left -= len(data)
            yield data

    def _skip(self) -> None:
        for _ in self.chunks():
            pass
        if self._padding:
            self._read(self._padding)
            self._padding = 0

    def _extension(self, kind: bytes, size: int) -> dict[str, str]:
        if size > MAX_HEADER_BYTES:
            raise TarError("an extended header is too large")
        data = self._read(size)
        if size % BLOCK:
            self._read(-size % BLOCK)
        if kind == b"g":
            return {}
        if kind == b"x":
            return _parse_pax(data)
        return {"path" if kind == b"L" else "linkpath": _text(data)}

    def _read(self, size: int) -> bytes:
        self._total += size
        if self._total > _MAX_TOTAL_BYTES:
            raise TarError("it is too large")
        data = self._file.read(size)
        if len(data) != size:
            raise TarError("it ends too early")
        return data


def _parse_header(header: bytes) -> tuple[bytes, Member]:
    counted = sum(header[:148]) + sum(header[156:]) + 8 * ord(" ")
    if _number(header[148:156]) != counted:
        raise TarError("a header is damaged, or it is not a tar file")
    kind = header[156:157]
    name = _text(header[:100])
    if header[257:263] == b"ustar\0" and header[345]:
        name = f"{_text(header[345:500])}/{name}"
    if kind not in _KINDS and kind not in b"xgLK":
        raise TarError(f"it holds an entry of the kind {kind!r}")
    entry = Member(
        name=name,
        kind=_KINDS.get(kind, "file"),
        size_bytes=_number(header[124:136]),
        target=_text(header[157:257]),
    )
    return kind, entry


def _apply(member: Member, changes: dict[str, str]) -> Member:
    if any(key.startswith("GNU.sparse") for key in changes):
        raise TarError("it holds a sparse file")
    size = changes.get("size", str(member.size_bytes))
    if not (size.isascii() and size.isdecimal() and len(size) <= _MAX_DIGITS):
        raise TarError("the size of an entry is not a number")
    name = changes.get("path", member.name)
    return replace(
        member,
        name=name,
        kind="folder" if member.kind == "file" and name.endswith("/") else member.kind,
        target=changes.get("linkpath", member.target),
        size_bytes=int(size),
    )


def _parse_pax(data: bytes) -> dict[str, str]:
    """Return the records of an extended header, each "LENGTH KEY=VALUE" and a line end."""
    found: dict[str, str] = {}
    while data:
        digits, blank, _ = data[:20].partition(b" ")
        if not blank or not digits.isdigit():
            raise TarError("an extended header is damaged")
        length = int(digits)
        record, data = data[:length], data[length:]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if len(record) != length or not record.endswith(b"\n") or not equals:
            raise TarError("an extended header is damaged")
        found[_text(key)] = _text(value)
    return found


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # GNU's and Go's way to write what octal digits cannot hold
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    digits = field.strip(b"\0 ")
    if not digits:
        return 0
    if not _OCTAL.issuperset(digits):  # int() would take a sign; with a negative size all of a file is read at once
        raise TarError("a header is damaged, or it is not a tar file")
    return int(digits, 8)


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


_MAX_MEMBERS = 20_000
_MAX_DOCUMENT_BYTES = 4 << 20
_MAX_KEPT_BYTES = 64 << 20
_MAX_LAYER_BYTES = _MAX_TOTAL_BYTES  # uncompressed, all together
_GZIP = b"\x1f\x8b"
_PIECE_BYTES = 1 << 20
_OTHER_COMPRESSIONS = ((b"BZh", "bzip2"), (b"\xfd7zXZ", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"))
_BLOB = pattern(r"blobs/sha256/([0-9a-f]{64})")
_DIGEST = pattern(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One image as it can be handed to Docker in the form that every engine knows."""

    manifest: str
    """digest"""
    config: str
    """digest"""
    names: tuple[tuple[str, str], ...]
    """name in the file and digest of each blob that comes from there"""
    documents: tuple[tuple[str, bytes], ...]
    """name and content of what stands behind the blobs; the one by which Docker finds them is last"""
    is_needed: bool
    """whether there are engines that do not load the file as it is"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedImage:
    """The one image of a file."""

    ids: frozenset[str]
    """every ID under which a store may know it, all proven"""
    tags: tuple[str, ...]
    """names that loading it gives it"""
    size_bytes: int
    layout: Layout | None = None
    """what to hand to Docker where it does not load the file as it is, or would give it an ID of its own making"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file that was read to its end."""

    digest: str
    plain_digest: str
    """of the content when gzip is taken off; the same as `digest` where there is none"""
    document: bytes | None
    """the content, when it may be JSON"""
    size_bytes: int


@dataclass(slots=True)
class Files:
    """What an archive holds, by cleaned name."""

    entries: dict[str, Entry] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    kept_bytes: int = 0
    plain_bytes: int = 0
    size_bytes: int = 0

    def add(self, name: str, chunks: Iterable[bytes], size_bytes: int) -> Entry:
        """Read a file to its end and keep what is known of it. Raises TarError."""
        entry = _read_entry(chunks, size_bytes, self)
        blob = _BLOB.fullmatch(name)
        if blob and entry.digest != f"sha256:{blob.group(1)}":
            raise TarError(f'"{name}" does not have the digest in its name')
        self.entries[name] = entry
        return entry

    def get(self, name: str) -> Entry:
        """Return the file of that name, through one link (docker writes a layer used twice as one)."""
        name = self.links.get(name, name)
        if name not in self.entries:
            raise MissingError(f'"{visible(truncate(name, 120))}" is missing')
        return self.entries[name]

    def blob(self, digest: object) -> Entry:
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise TarError(f'"{visible(truncate(str(digest), 80))}" is not a digest')
        return self.get(f"blobs/sha256/{digest.removeprefix('sha256:')}")

    def describe(self, entry: Entry) -> dict[str, Any]:
        """Return the JSON object in a file."""
        content = self.parse(entry)
        if not isinstance(content, dict):
            raise TarError("a description is not a JSON object")
        return content

    def parse(self, entry: Entry) -> object:
        if entry.document is None:
            raise TarError("a description is too large, or no JSON")
        try:
            return json.loads(entry.document)
        except (ValueError, RecursionError) as error:
            raise TarError("a description is not JSON") from error


def read_archive(file: BinaryIO, *, shown: str) -> ArchivedImage:
    """Return the image in `file`, read to its end; `shown` names the file in errors.

    Raises SandboxConfigError when it is damaged, holds more than one image, or claims a digest
    that its content does not have. Memory stays bounded whatever the file holds.
    """
    with refusals(shown):
        return read_image(read_files(open_plain(file, shown=shown)))


@contextmanager
def refusals(shown: str) -> Iterator[None]:
    """Turn what is found wrong with a file in the block into SandboxConfigError."""
    try:
        yield
    except (TarError, EOFError, gzip.BadGzipFile, zlib.error, KeyError, TypeError, AttributeError) as error:
        reason = str(error) if isinstance(error, TarError) else "its descriptions make no sense"
        if isinstance(error, (EOFError, gzip.BadGzipFile, zlib.error)):
            reason = "what is compressed in it is damaged, or cut off"
        raise SandboxConfigError(
            f'"{visible(shown)}" is not an image that can be trusted: {reason}',
            hint="make the file with `odek sandbox image save FILE`, and carry it over unchanged or as .gz",
        ) from error


def open_plain(file: BinaryIO, *, shown: str) -> BinaryIO:
    """Return the tar file in `file`, without gzip where it is compressed so. Raises SandboxConfigError."""
    start = file.read(6)
    file.seek(0)
    if start.startswith(_GZIP):
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    for magic, program in _OTHER_COMPRESSIONS:
        if start.startswith(magic):
            raise SandboxConfigError(
                f'"{visible(shown)}" is compressed by {program}, which odek does not read',
                hint=f"decompress it first: `{program} -d FILE`; gzip can stay",
            )
    return file


def plain_pieces(file: BinaryIO, *, shown: str) -> Iterator[bytes]:
    """Yield a file of `docker save` from its beginning, without its gzip. Raises OSError, EOFError and zlib.error."""
    file.seek(0)
    plain = open_plain(file, shown=shown)
    while piece := plain.read(_PIECE_BYTES):
        yield piece


def read_files(file: BinaryIO) -> Files:
    """Return what the tar file holds, every digest in it computed. Raises TarError."""
    files = Files()
    stream = TarStream(file)
    for count, member in enumerate(stream.members()):
        name = clean_name(member.name)
        if count >= _MAX_MEMBERS:
            raise TarError("it holds too many files")
        if name in files.entries or name in files.links:
            raise TarError(f'"{visible(truncate(name, 120))}" is in it twice')
        if member.kind == "link":
            files.links[name] = clean_name(posixpath.join(posixpath.dirname(name), member.target))
        elif member.kind == "file":
            files.add(name, stream.chunks(), member.size_bytes)
    return files


def _read_entry(chunks: Iterable[bytes], size_bytes: int, files: Files) -> Entry:
    raw, plain = hashlib.sha256(), hashlib.sha256()
    kept: bytearray | None = None
    gunzip: _Gunzip | None = None
    for number, chunk in enumerate(chunks):
        if number == 0:
            gunzip = _Gunzip(files) if chunk[:2] == _GZIP else None
            is_document = chunk[:1] in b"{[" and size_bytes <= _MAX_DOCUMENT_BYTES
            kept = bytearray() if is_document else None
        raw.update(chunk)
        if gunzip is not None:
            gunzip.feed(chunk, plain)
        if kept is not None:
            kept += chunk
    files.size_bytes += size_bytes
    files.kept_bytes += len(kept or b"")
    if files.kept_bytes > _MAX_KEPT_BYTES:
        raise TarError("its descriptions are too large")
    return Entry(
        digest=f"sha256:{raw.hexdigest()}",
        plain_digest=f"sha256:{(plain if gunzip else raw).hexdigest()}",
        document=None if kept is None else bytes(kept),
        size_bytes=size_bytes,
    )


class _Gunzip:
    """Takes gzip off a stream, piece by piece; several gzip files one after the other are one."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._decoder = zlib.decompressobj(31)

    def feed(self, data: bytes, digest: hashlib._Hash) -> None:
        while data:
            plain = self._decoder.decompress(data, 1 << 20)
            digest.update(plain)
            self._files.plain_bytes += len(plain)
            if self._files.plain_bytes > _MAX_LAYER_BYTES:
                raise TarError("its layers are too large")
            data = self._decoder.unconsumed_tail
            if self._decoder.eof:
                data = self._decoder.unused_data.lstrip(b"\0")
                self._decoder = zlib.decompressobj(31)


def read_image(files: Files) -> ArchivedImage:
    """Return the one image of what `docker save` wrote. Raises TarError."""
    listed = files.parse(files.get("manifest.json"))
    if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], dict):
        raise TarError("it does not hold exactly one image")
    image = listed[0]
    tags = tuple(map(str, image.get("RepoTags") or ()))
    ids = _config_ids(image, files) | _oci_ids(files)
    if not ids:
        raise TarError("a layer does not have the digest that the configuration claims")
    return ArchivedImage(ids=frozenset(ids), tags=tags, size_bytes=files.size_bytes)


def _config_ids(image: dict[str, Any], files: Files) -> set[str]:
    """Return the digest of the configuration, when all layers are those that it lists."""
    config = files.get(clean_name(str(image["Config"])))
    claimed = files.describe(config)["rootfs"].get("diff_ids") or []
    layers = [files.get(clean_name(str(name))) for name in image["Layers"] or ()]
    return {config.digest} if claimed == [layer.plain_digest for layer in layers] else set()


def _oci_ids(files: Files) -> set[str]:
    """Return the digests of the manifests and indexes whose parts are all there; {} for an older layout."""
    if "index.json" not in files.entries:
        return set()
    found: set[str] = set()
    for descriptor in files.describe(files.get("index.json"))["manifests"]:
        found |= _descriptor_ids(descriptor, files, depth=0)
    return found


def _descriptor_ids(descriptor: dict[str, Any], files: Files, *, depth: int) -> set[str]:
    if depth > 3:
        raise TarError("its indexes are nested too deeply")
    try:
        content = files.describe(files.blob(descriptor["digest"]))
    except TarError:  # an index names the images of all processors; a file holds some of them
        return set()
    if "manifests" in content:
        below: set[str] = set()
        for inner in content["manifests"]:
            below |= _descriptor_ids(inner, files, depth=depth + 1)
        return below | {descriptor["digest"]} if below else set()
    try:
        for part in (content["config"], *content["layers"]):
            files.blob(part["digest"])
    except TarError:
        return set()
    return {descriptor["digest"]}


def clean_name(name: str) -> str:
    """Return the name of an entry in its shortest form. Pure. Raises TarError for one that leads out of the archive."""
    path = posixpath.normpath(name)
    if path.startswith(("/", "../")) or path == ".." or "\0" in path:
        raise TarError(f'"{visible(truncate(name, 120))}" leads out of it')
    return path
