"""Image layouts of the OCI, as buildx, skopeo and podman write them: a folder, or its tar file, or .tar.gz (R-324).

Engines before 25 do not load them. So one image is chosen, each digest from the index down to its layers is
computed, and it is handed to Docker as an archive that every engine loads: with manifest.json for those that
keep images by their configuration, with an index for those that keep them by their manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from odek.sandbox.offline.archive import (
    CHUNK,
    ArchivedImage,
    Entry,
    Files,
    Layout,
    MissingError,
    TarError,
    TarStream,
    clean_name,
    open_plain,
    read_files,
    read_image,
    refusals,
)
from odek.sandbox_grammar import GrammarError, parse_reference
from odek.text import visible

_INDEX, _LAYOUT = "index.json", "oci-layout"
_MOST_MANIFESTS = 1000
_DEEPEST = 3
_OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
_OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


class FolderFiles(Files):
    """The files of a layout in a folder, each read when it is asked for."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def get(self, name: str) -> Entry:
        if name not in self.entries:
            try:
                with open_file(self._folder, name) as file:
                    self.add(name, iter(lambda: file.read(CHUNK), b""), os.fstat(file.fileno()).st_size)
            except FileNotFoundError:
                pass
        return super().get(name)


def open_file(folder: str, name: str) -> BinaryIO:
    """Open a regular file of a layout. Raises OSError, and TarError for anything else."""
    descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise TarError(f'"{visible(name)}" is not a regular file')
    return open(descriptor, "rb")


def read_any_image(
    file: BinaryIO | str, *, shown: str, expected: Sequence[str], machine: Callable[[], str]
) -> ArchivedImage:
    """Return the image in a file, or in the folder of that name, be it an archive or a layout.

    Of a layout with several, one with an ID in `expected` counts, or that for the processor that `machine` returns.
    Raises SandboxConfigError, as `read_archive` does.
    """
    with refusals(shown):
        files = FolderFiles(file) if isinstance(file, str) else read_files(open_plain(file, shown=shown))
        if is_layout(files):
            return choose_image(files, expected, machine)
        image = read_image(files)
        return image if _INDEX in files.entries else replace(image, layout=_with_manifest(image.tags, files))


def is_layout(files: Files) -> bool:
    """Return whether it is a layout alone; what `docker save` of newer engines writes is an archive as well."""
    return "manifest.json" not in files.entries and (_LAYOUT in files.entries or isinstance(files, FolderFiles))


def choose_image(files: Files, expected: Sequence[str], machine: Callable[[], str]) -> ArchivedImage:
    """Return the image of a layout: an `expected` one, or the only one for the processor that `machine` returns.

    Raises TarError where there is none or more than one, or a part is missing or not what it should be.
    """
    files.get(_LAYOUT)
    found = list(_images(files.describe(files.get(_INDEX)), files))
    if not found:
        raise TarError("it holds no image that is whole")
    wanted = [image for image in found if set(image.ids).intersection(expected)] or found
    if len({image.manifest for image in wanted}) > 1:
        here = machine()
        known = ", ".join(sorted({visible(image.architecture) for image in found}))
        wanted = [image for image in wanted if image.architecture == here]
        if not wanted:
            raise TarError(f"it holds images for {known}, and none for {here}")
        if len({image.manifest for image in wanted}) > 1:
            raise TarError(f"it holds more than one image for {here}; name one with --id")
    chosen = wanted[0]
    tags = tuple(dict.fromkeys(tag for image in wanted for tag in image.tags))
    return _whole(chosen, tags, files)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Image:
    manifest: str
    config: str
    above: tuple[str, ...]
    """digests of the indexes that lead to it"""
    architecture: str
    tags: tuple[str, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return (self.config, self.manifest, *self.above)


def _images(
    index: Mapping[str, Any],
    files: Files,
    *,
    above: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
    budget: list[int] | None = None,
) -> Iterator[_Image]:
    """Yield the images whose descriptions are there; an index names those of all processors."""
    budget = [_MOST_MANIFESTS] if budget is None else budget
    if len(above) > _DEEPEST:
        raise TarError("its indexes are nested too deeply")
    for descriptor in index["manifests"]:
        budget[0] -= 1
        if budget[0] < 0:
            raise TarError("its indexes name too many images")
        notes = descriptor.get("annotations") or {}
        if "vnd.docker.reference.type" in notes:  # how it was built, and not an image
            continue
        named = tags or _tags(notes)
        digest = descriptor["digest"]
        try:
            content = files.describe(files.blob(digest))
            if "manifests" not in content:
                config = files.describe(files.blob(content["config"]["digest"]))
        except MissingError:
            continue
        if "manifests" in content:
            yield from _images(content, files, above=(*above, digest), tags=named, budget=budget)
        elif config.get("os", "linux") == "linux" and "rootfs" in config:
            yield _Image(
                manifest=digest,
                config=content["config"]["digest"],
                above=above,
                architecture=str(config.get("architecture")),
                tags=named,
            )


def _tags(notes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the name in the annotations of a descriptor, if there is one; a tag alone is none. Pure."""
    for key in _NAMES:
        name = notes.get(key)
        if isinstance(name, str) and ":" in name:
            try:
                return (parse_reference(name, key),) if "@" not in name else ()
            except GrammarError:
                continue
    return ()


def _whole(image: _Image, tags: tuple[str, ...], files: Files) -> ArchivedImage:
    """Return what is to be handed over of an image. Raises TarError unless every part of it is proven."""
    manifest = files.blob(image.manifest)
    content = files.describe(manifest)
    layers = []
    for descriptor in content["layers"]:
        if "zstd" in str(descriptor.get("mediaType")):
            raise TarError("its layers are compressed by zstd, which not every engine reads; make it with gzip")
        layers.append(files.blob(descriptor["digest"]))
    claimed = files.describe(files.blob(image.config))["rootfs"].get("diff_ids") or []
    if claimed != [layer.plain_digest for layer in layers]:
        raise TarError("a layer does not have the digest that the configuration claims")
    layout = _layout(
        {"mediaType": content.get("mediaType") or _OCI_MANIFEST, "digest": image.manifest, "size": manifest.size_bytes},
        image.config,
        [layer.digest for layer in layers],
        tags,
        names={_path(digest): digest for digest in (image.manifest, image.config, *(one.digest for one in layers))},
    )
    return ArchivedImage(ids=frozenset(image.ids), tags=tags, size_bytes=files.size_bytes, layout=layout)


def _with_manifest(tags: tuple[str, ...], files: Files) -> Layout:
    """Return what `docker save` wrote before engine 25 with a manifest, which it lacks.

    An engine that keeps images by their manifest would make one of its own, and know the image by a digest that
    nobody could expect; this one has the digest of all that was proven.
    """
    listed: Any = files.parse(files.get("manifest.json"))
    config = files.get(clean_name(str(listed[0]["Config"])))
    layers = [files.get(clean_name(str(name))) for name in listed[0]["Layers"] or ()]
    names = {name: entry.digest for name, entry in files.entries.items() if entry in (config, *layers)}
    described = {
        "schemaVersion": 2,
        "mediaType": _OCI_MANIFEST,
        "config": {"mediaType": _OCI_CONFIG, "digest": config.digest, "size": config.size_bytes},
        "layers": [
            {
                "mediaType": _OCI_LAYER + ("" if layer.digest == layer.plain_digest else "+gzip"),
                "digest": layer.digest,
                "size": layer.size_bytes,
            }
            for layer in layers
        ],
    }
    data = _dump(described)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return _layout(
        {"mediaType": _OCI_MANIFEST, "digest": digest, "size": len(data)},
        config.digest,
        [layer.digest for layer in layers],
        tags,
        names=names,
        more=((_path(digest), data),),
    )


def _layout(
    manifest: dict[str, Any],
    config: str,
    layers: Sequence[str],
    tags: tuple[str, ...],
    *,
    names: Mapping[str, str],
    more: tuple[tuple[str, bytes], ...] = (),
) -> Layout:
    """Return the image of the `manifest` with this descriptor. Pure. `more`: blobs that are not in the file."""
    listed = [{"Config": _path(config), "RepoTags": list(tags) or None, "Layers": [_path(layer) for layer in layers]}]
    named = [{**manifest, "annotations": {_NAMES[0]: tag, _NAMES[1]: tag.rpartition(":")[2]}} for tag in tags]
    return Layout(
        manifest=manifest["digest"],
        config=config,
        names=tuple(names.items()),
        documents=(
            *more,
            (_LAYOUT, b'{"imageLayoutVersion":"1.0.0"}'),
            (_INDEX, _dump({"schemaVersion": 2, "manifests": named or [manifest]})),
            ("manifest.json", _dump(listed)),
        ),
        is_needed=not more,
    )


def _path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def archive_of(source: BinaryIO | str, layout: Layout) -> Iterator[bytes]:
    """Yield the archive for `docker load` from a file or a folder, each blob hashed once more on its way.

    Raises TarError where one is not what it was when it was read: Docker has then not got the end, by which it
    finds anything. Raises OSError.
    """
    left = {digest for _, digest in layout.names}
    for digest, size, chunks in _blobs(source, layout):
        if digest not in left:
            continue
        left.remove(digest)
        yield _header(_path(digest), size)
        seen = hashlib.sha256()
        for chunk in chunks:
            seen.update(chunk)
            yield chunk
        if f"sha256:{seen.hexdigest()}" != digest:
            raise TarError("it has changed while it was read")
        yield from _padding(size)
    if left:
        raise TarError("it has changed while it was read")
    for name, content in layout.documents:
        yield _header(name, len(content))
        yield content
        yield from _padding(len(content))
    yield bytes(2 * tarfile.BLOCKSIZE)


def _blobs(source: BinaryIO | str, layout: Layout) -> Iterator[tuple[str, int, Iterator[bytes]]]:
    """Yield digest, size and content of the blobs, in the order in which they come."""
    if isinstance(source, str):
        for name, digest in layout.names:
            with open_file(source, name) as file:
                size = os.fstat(file.fileno()).st_size
                yield digest, size, _exactly(file, size)
        return
    names = dict(layout.names)
    source.seek(0)
    stream = TarStream(open_plain(source, shown="it"))
    for member in stream.members():
        digest = names.get(clean_name(member.name), "")
        if member.kind == "file" and digest:
            yield digest, member.size_bytes, stream.chunks()


def _exactly(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        chunk = file.read(min(size, CHUNK))
        if not chunk:
            raise TarError("it has changed while it was read")
        size -= len(chunk)
        yield chunk


def _header(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    return entry.tobuf(format=tarfile.GNU_FORMAT)


def _padding(size: int) -> Iterator[bytes]:
    if size % tarfile.BLOCKSIZE:
        yield bytes(-size % tarfile.BLOCKSIZE)
