"""Files that `docker save` wrote, read by our own reader: what it proves, and what it refuses."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import tarfile
from typing import Any

import pytest

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.offline.archive import ArchivedImage, read_archive

LAYER = b"layer one" * 100
OTHER = b"layer two" * 100


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def dump(value: object) -> bytes:
    return json.dumps(value).encode()


def tar(files: dict[str, Any], kind: int = tarfile.USTAR_FORMAT) -> bytes:
    """Return a tar; a value is the content, ("link", target), or a type of tarfile."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            if isinstance(content, tuple):
                entry.type, entry.linkname = tarfile.SYMTYPE, content[1]
                archive.addfile(entry)
            elif len(content) == 1 and not name.endswith("json"):
                entry.type = content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def config(*layers: bytes) -> bytes:
    return dump(
        {"architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha(x)}" for x in layers]}}
    )


def old_files(tags: object = None) -> dict[str, Any]:
    """Return the layout of engines before 25: a folder for each layer."""
    text = config(LAYER, OTHER)
    listed = [{"Config": f"{sha(text)}.json", "RepoTags": tags, "Layers": ["1/layer.tar", "2/layer.tar"]}]
    return {
        "1/": tarfile.DIRTYPE,
        "1/layer.tar": LAYER,
        "2/layer.tar": OTHER,
        f"{sha(text)}.json": text,
        "manifest.json": dump(listed),
    }


def new_files() -> tuple[dict[str, Any], str, str, str]:
    """Return the layout of the OCI with an index of two processors, one of them absent, and the IDs of
    configuration, manifest and index."""
    text, packed = config(LAYER), gzip.compress(LAYER, mtime=0)
    manifest = dump({"config": {"digest": f"sha256:{sha(text)}"}, "layers": [{"digest": f"sha256:{sha(packed)}"}]})
    absent = {"digest": f"sha256:{'0' * 64}"}
    index = dump({"manifests": [absent, {"digest": f"sha256:{sha(manifest)}"}]})
    blobs = {f"blobs/sha256/{sha(data)}": data for data in (text, packed, manifest, index)}
    top = {"manifests": [{"digest": f"sha256:{sha(index)}"}]}
    listed = [{"Config": f"blobs/sha256/{sha(text)}", "RepoTags": ["a:1"], "Layers": [f"blobs/sha256/{sha(packed)}"]}]
    files = {**blobs, "index.json": dump(top), "oci-layout": dump({}), "manifest.json": dump(listed)}
    return files, f"sha256:{sha(text)}", f"sha256:{sha(manifest)}", f"sha256:{sha(index)}"


def read(files: dict[str, Any] | bytes) -> ArchivedImage:
    data = files if isinstance(files, bytes) else tar(files)
    return read_archive(io.BytesIO(data), shown="x.tar")


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_old_layout_proves_the_digest_of_the_configuration(kind: int) -> None:
    """D-12: the ID of a graph driver commits to every layer."""
    files = old_files(["a:1", "b:2"])
    image = read(tar(files, kind))
    size = sum(len(content) for content in files.values() if len(content) > 1)
    expected = f"sha256:{sha(config(LAYER, OTHER))}"
    assert image == ArchivedImage(ids=frozenset([expected]), tags=("a:1", "b:2"), size_bytes=size)


def test_new_layout_proves_manifest_and_index_as_well() -> None:
    """D-12: packed layers are unpacked to compare them; an index counts when one of its images is whole."""
    files, *ids = new_files()
    image = read(files)
    assert (image.ids, image.tags) == (frozenset(ids), ("a:1",))


def test_layer_that_is_a_link_to_another_counts() -> None:
    text = config(LAYER, LAYER)
    files = {
        "1/layer.tar": LAYER,
        "2/layer.tar": ("link", "../1/layer.tar"),
        "c.json": text,
        "manifest.json": dump([{"Config": "c.json", "RepoTags": None, "Layers": ["1/layer.tar", "2/layer.tar"]}]),
    }
    assert read(files).ids == frozenset([f"sha256:{sha(text)}"])


def test_long_names_are_read_in_every_format() -> None:
    name = "d/" * 80 + "layer.tar"
    text = config(LAYER)
    listed = [{"Config": "c.json", "RepoTags": None, "Layers": [name]}]
    files = {name: LAYER, "c.json": text, "manifest.json": dump(listed)}
    for kind in (tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        assert read(tar(files, kind)).ids == frozenset([f"sha256:{sha(text)}"])


def test_manifest_with_a_missing_part_proves_nothing_of_itself() -> None:
    """D-12: an ID counts only when everything that hangs on it is there."""
    files, config_id, _, _ = new_files()
    top = {"manifests": [{"digest": f"sha256:{'0' * 64}"}]}
    assert read({**files, "index.json": dump(top)}).ids == frozenset([config_id])


def flipped(name: str) -> dict[str, Any]:
    files, *_ = new_files()
    key = next(key for key in files if key.startswith("blobs/") and (files[key][:1] != b"{") == (name == "layer"))
    files[key] = files[key][:-1] + bytes([files[key][-1] ^ 1])
    return files


def without(name: str) -> dict[str, Any]:
    return {key: content for key, content in old_files().items() if key != name}


TWICE = old_files()["manifest.json"]
BAD = {
    "empty": b"",
    "no tar": b"x" * 2000,
    "compressed and cut short": gzip.compress(tar(old_files()))[:-200],
    "compressed and damaged": gzip.compress(tar(old_files()))[:40] + bytes([0xFF] * 60),
    "compressed twice": gzip.compress(gzip.compress(tar(old_files()))),
    "compressed, with a changed layer": gzip.compress(tar({**old_files(), "1/layer.tar": LAYER + b"!"})),
    "compressed, another thing": gzip.compress(b"x" * 2000),
    "the start of gzip alone": b"\x1f\x8b",
    "cut short": tar(old_files())[:3000],
    "a changed layer": {**old_files(), "1/layer.tar": LAYER + b"!"},
    "a changed blob": flipped("layer"),
    "a changed description": flipped("description"),
    "swapped layers": {**old_files(), "1/layer.tar": OTHER, "2/layer.tar": LAYER},
    "no manifest": without("manifest.json"),
    "a missing layer": without("2/layer.tar"),
    "two images": {**old_files(), "manifest.json": dump(json.loads(TWICE) * 2)},
    "no image": {**old_files(), "manifest.json": b"[]"},
    "manifest of another kind": {**old_files(), "manifest.json": dump([["x"]])},
    "manifest that is no JSON": {**old_files(), "manifest.json": b"[{"},
    "manifest without keys": {**old_files(), "manifest.json": b"[{}]"},
    "configuration of another kind": {**without("x"), "manifest.json": dump([{"Config": "1/layer.tar", "Layers": []}])},
    "a name that leads out": {**old_files(), "../x": b"xx"},
    "an absolute name": {**old_files(), "/x": b"xx"},
    "a link that leads out": {**old_files(), "l": ("link", "../x")},
    "a hard link": {**old_files(), "h": tarfile.LNKTYPE},
    "a device": {**old_files(), "d": tarfile.CHRTYPE},
    "a FIFO": {**old_files(), "f": tarfile.FIFOTYPE},
}


@pytest.mark.parametrize("files", BAD.values(), ids=BAD.keys())
def test_file_that_proves_nothing_is_refused(files: dict[str, Any] | bytes) -> None:
    """D-12: damaged, tampered with, or not what it says it is."""
    with pytest.raises(SandboxConfigError, match=r'"x\.tar" is not an image that can be trusted'):
        read(files)


@pytest.mark.parametrize("files", [old_files(["a:1"]), new_files()[0]], ids=["old", "new"])
def test_compressed_file_proves_what_the_plain_one_does(files: dict[str, Any]) -> None:
    """D8: a .tar.gz, in one part or, as pigz and bgzip write it, in several."""
    plain = tar(files)
    for data in (gzip.compress(plain), gzip.compress(plain[:700]) + gzip.compress(plain[700:])):
        assert read(data) == read(plain)


@pytest.mark.parametrize(
    ("data", "program"), [(bz2.compress(b"x"), "bzip2"), (lzma.compress(b"x"), "xz"), (b"\x28\xb5\x2f\xfdxx", "zstd")]
)
def test_other_compressions_are_named(data: bytes, program: str) -> None:
    """D8: with the command that takes them off."""
    with pytest.raises(SandboxConfigError, match=f'"x.tar" is compressed by {program}') as refused:
        read(data)
    assert f"`{program} -d FILE`" in refused.value.hint


def test_name_that_stands_twice_is_refused() -> None:
    """D-12: which of the two Docker takes is not ours to guess."""
    first, second = tar({"manifest.json": b"[{}]", **without("manifest.json")}), tar(old_files())
    with pytest.raises(SandboxConfigError, match="is in it twice"):
        read(_join(first, second))


def _join(first: bytes, second: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        last = archive.getmembers()[-1]
    end = last.offset_data + -(-last.size // 512) * 512
    return first[:end] + second


def test_extended_header_of_any_size_is_refused_before_it_is_read() -> None:
    """D-12: memory stays bounded whatever the file claims."""
    header = bytearray(512)
    header[:1], header[156:157], header[257:263] = b"x", b"x", b"ustar\0"
    header[124:136] = b"77777777777\0"
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(SandboxConfigError, match="an extended header is too large"):
        read(bytes(header))


class Unread(io.BytesIO):
    """A file that fails the test when somebody reads all of it at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert size >= 0
        return super().read(size)


def header(size: bytes, kind: bytes) -> bytes:
    """Return a tar header with that text in its size field."""
    entry = tarfile.TarInfo("a")
    entry.type = kind
    raw = bytearray(entry.tobuf(tarfile.USTAR_FORMAT))
    raw[124:136] = size.ljust(12, b"\0")
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw)
    return bytes(raw)


@pytest.mark.parametrize("kind", [b"0", b"x", b"g", b"L", b"K"])
@pytest.mark.parametrize("size", [b"-1", b"-0000000777", b"+1", b"1_0", b"0o17", b"8"])
def test_size_that_is_no_octal_number_is_refused(size: bytes, kind: bytes) -> None:
    """D-12: of a negative number of bytes, Python reads all there are."""
    with pytest.raises(SandboxConfigError, match="a header is damaged"):
        read_archive(Unread(header(size, kind) + bytes(4096)), shown="f")


def test_size_of_thousands_of_digits_is_refused() -> None:
    """D-12: Python does not convert it; that is no bug of odek."""
    record = b"5013 size=%s\n" % (b"9" * 5002)
    head = header(b"%011o" % len(record), b"x") + record + bytes(-len(record) % 512)
    with pytest.raises(SandboxConfigError, match="the size of an entry is not a number"):
        read_archive(Unread(head + header(b"1", b"0") + bytes(4096)), shown="f")


def test_zip_bomb_of_a_layer_is_hashed_in_pieces() -> None:
    """D-12: 64 MiB of zeros in 64 KiB go through without being held."""
    zeros = bytes(64 << 20)
    packed = gzip.compress(zeros, mtime=0)
    text = config(zeros)
    files = {
        "l": packed,
        "c.json": text,
        "manifest.json": dump([{"Config": "c.json", "RepoTags": [], "Layers": ["l"]}]),
    }
    assert read(files).ids == frozenset([f"sha256:{sha(text)}"])


def test_gzip_in_several_parts_is_one_layer() -> None:
    packed = gzip.compress(LAYER[:100], mtime=0) + gzip.compress(LAYER[100:], mtime=0)
    text = config(LAYER)
    files = {"l": packed, "c.json": text, "manifest.json": dump([{"Config": "c.json", "Layers": ["l"]}])}
    assert read(files).ids == frozenset([f"sha256:{sha(text)}"])
