"""Image layouts of the OCI: which image is taken, what is refused, and what Docker gets instead (R-324)."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.docker import FakeDocker
from support.image_layouts import MANIFEST, ImageLayout, digest_of, dump

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.offline.archive import ArchivedImage, read_archive
from odek.sandbox.offline.layout import read_any_image
from odek.sandbox.offline.transfer import load_image

ONE, TWO, OTHER = b"layer one" * 100, b"layer two" * 100, b"of another processor" * 10
MISSING = "Error response from daemon: No such image\n"


def arm() -> str:
    return "arm64"


def never() -> str:
    raise AssertionError("the processor was asked for")


def read(
    layout: ImageLayout | bytes, machine: Callable[[], str] = never, expected: tuple[str, ...] = ()
) -> ArchivedImage:
    data = layout if isinstance(layout, bytes) else layout.tar()
    return read_any_image(io.BytesIO(data), shown="x.tar", machine=machine, expected=expected)


def parts(descriptor: dict[str, Any], layout: ImageLayout) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(layout.files[f"blobs/sha256/{descriptor['digest'][7:]}"])
    return document


@pytest.mark.parametrize("packed", [True, False])
def test_only_image_is_taken_whatever_its_processor(packed: bool) -> None:
    """R-324: configuration, manifest and the indexes above it are proven, and the name is read."""
    layout = ImageLayout()
    image = layout.image(ONE, TWO, ONE, packed=packed)
    index = layout.index(image)
    layout.name(index, "team/tools:1")
    config = parts(image, layout)["config"]["digest"]
    found = read(layout)
    assert (found.ids, found.tags) == ({config, image["digest"], index["digest"]}, ("team/tools:1",))
    assert found.layout is not None
    assert len(found.layout.names) == 4  # the layer that is there twice is one blob


@pytest.mark.parametrize(
    ("key", "name", "tags"),
    [
        ("io.containerd.image.name", "docker.io/library/a:1", ("docker.io/library/a:1",)),
        ("org.opencontainers.image.ref.name", "localhost/a:1", ("localhost/a:1",)),
        ("org.opencontainers.image.ref.name", "latest", ()),
        ("org.opencontainers.image.ref.name", "a:1; touch made", ()),
        ("org.opencontainers.image.ref.name", f"a@sha256:{'0' * 64}", ()),
        ("something", "a:1", ()),
    ],
)
def test_name_is_one_that_docker_takes(key: str, name: str, tags: tuple[str, ...]) -> None:
    """R-324: a tag alone is not a name."""
    layout = ImageLayout()
    layout.name(layout.image(ONE), name, key)
    assert read(layout).tags == tags


def test_image_for_the_engines_processor_is_chosen() -> None:
    """R-324: the other blobs need not be there; how it was built is not an image."""
    layout = ImageLayout()
    amd, mine = layout.image(ONE), layout.image(OTHER, architecture="arm64")
    absent = {"digest": f"sha256:{'0' * 64}", "platform": {"architecture": "s390x"}}
    built = layout.image(TWO, architecture="arm64") | {
        "annotations": {"vnd.docker.reference.type": "attestation-manifest"}
    }
    layout.name(layout.index(amd, absent, mine, built), "a:1")
    found = read(layout, arm)
    assert mine["digest"] in found.ids
    assert amd["digest"] not in found.ids
    with pytest.raises(SandboxConfigError, match="images for amd64, arm64, and none for riscv64"):
        read(layout, lambda: "riscv64")
    # an ID decides without the processor
    assert amd["digest"] in read(layout, expected=(amd["digest"],)).ids


def test_several_images_for_one_processor_need_an_id() -> None:
    """R-324"""
    layout = ImageLayout()
    first, second = layout.image(ONE, architecture="arm64"), layout.image(TWO, architecture="arm64")
    layout.name(first, "a:1")
    layout.name(second, "b:1")
    with pytest.raises(SandboxConfigError, match="more than one image for arm64"):
        read(layout, arm)
    assert read(layout, expected=(parts(second, layout)["config"]["digest"],)).tags == ("b:1",)


def without(layout: ImageLayout, name: str) -> None:
    del layout.files[name]


def hostile() -> dict[str, tuple[ImageLayout | bytes, str]]:
    """Return, by name, a layout and the words that refuse it."""
    found: dict[str, tuple[ImageLayout | bytes, str]] = {}

    def fresh(**options: Any) -> tuple[ImageLayout, dict[str, Any]]:
        layout = ImageLayout()
        image = layout.image(ONE, TWO, **options)
        layout.name(image, "a:1")
        return layout, image

    layout, image = fresh()
    without(layout, f"blobs/sha256/{parts(image, layout)['layers'][1]['digest'][7:]}")
    found["a layer is missing"] = layout, "is missing"
    layout, image = fresh()
    without(layout, f"blobs/sha256/{parts(image, layout)['config']['digest'][7:]}")
    found["the configuration is missing"] = layout, "no image that is whole"
    layout, image = fresh()
    layout.files[f"blobs/sha256/{parts(image, layout)['layers'][0]['digest'][7:]}"] = b"something else"
    found["a blob is another one"] = layout, "does not have the digest in its name"
    layout, image = fresh()
    manifest = parts(image, layout)
    manifest["layers"][0] = layout.blob(gzip.compress(OTHER))
    layout.top = [layout.blob(dump(manifest), MANIFEST)]
    found["a layer of another image"] = layout, "a layer does not have the digest"
    layout, image = fresh()
    manifest = parts(image, layout)
    manifest["layers"][0]["mediaType"] = "application/vnd.oci.image.layer.v1.tar+zstd"
    layout.top = [layout.blob(dump(manifest), MANIFEST)]
    found["zstd"] = layout, "compressed by zstd"
    layout = ImageLayout(top=[{"digest": f"sha256:{number:064x}"} for number in range(10_000)])
    found["10,000 entries"] = layout, "too many images"
    layout, image = fresh()
    for _ in range(6):
        image = layout.index(image)
    layout.top = [image]
    found["nested"] = layout, "nested too deeply"
    layout = ImageLayout()
    layout.top = [layout.index(*[layout.index(*[layout.index()] * 60)] * 60)]
    found["wide"] = layout, "too many images"
    for name, value in (
        ("list", []),
        ("text", "x"),
        ("number", 3),
        ("no manifests", {}),
        ("null", {"manifests": None}),
    ):
        layout, _ = fresh()
        layout.files["index.json"] = dump(value)
        found[f"index: {name}"] = (
            tar_of({**layout.files, "index.json": dump(value)}),
            "make no sense|not a JSON object|no JSON",
        )
    layout, _ = fresh()
    found["index: too large"] = tar_of({**layout.files, "index.json": b"{" + b" " * (5 << 20)}), "too large, or no JSON"
    found["index: deep"] = tar_of({**layout.files, "index.json": b"[" * 100_000}), "is not JSON|not a JSON"
    layout, _ = fresh()
    layout.top = [{"digest": "sha256:../../../etc/passwd"}]
    found["a digest that leads out"] = layout, "is not a digest"
    layout, _ = fresh()
    layout.top = [{"digest": "md5:" + "0" * 32}]
    found["another hash"] = layout, "is not a digest"
    layout, _ = fresh()
    layout.files["../outside"] = b"x"
    found["a name that leads out"] = layout, "leads out of it"
    layout, _ = fresh()
    without(layout, "oci-layout")
    found["no layout"] = layout, "is missing"
    layout, _ = fresh()
    found["cut off"] = layout.tar()[:-11_000], "ends too early|is missing"
    layout, _ = fresh()
    found["a sparse file"] = _with_entry(layout, tarfile.GNUTYPE_SPARSE), "an entry of the kind"
    found["a device"] = _with_entry(layout, tarfile.BLKTYPE), "an entry of the kind"
    found["a hard link"] = _with_entry(layout, tarfile.LNKTYPE), "an entry of the kind"
    return found


def tar_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _with_entry(layout: ImageLayout, kind: bytes) -> bytes:
    entry = tarfile.TarInfo("entry")
    entry.type, entry.linkname = kind, "index.json"
    return entry.tobuf() + layout.tar()


HOSTILE = hostile()


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_layout_is_one_clear_error(name: str, tmp_path: Path) -> None:
    """R-324: as a tar file and, where it can be one, as a folder; Docker gets nothing of it."""
    layout, words = HOSTILE[name]
    with pytest.raises(SandboxConfigError, match=words):
        read(layout, arm)
    path = tmp_path / "x"
    path.write_bytes(layout if isinstance(layout, bytes) else layout.tar())
    docker = FakeDocker().on("version", stdout="arm64\n")
    with pytest.raises(SandboxConfigError):
        load_image(str(path), (f"sha256:{'1' * 64}",), docker, name="", emit=lambda _: None)
    assert {call.args[0] for call in docker.calls} <= {"version"}
    if isinstance(layout, ImageLayout) and "../outside" not in layout.files:
        with pytest.raises(SandboxConfigError, match=words):
            read_any_image(str(layout.folder(tmp_path / "folder")), shown="x", machine=arm, expected=())


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_blob_of_a_folder_that_is_not_a_file_is_refused(kind: str, tmp_path: Path) -> None:
    """R-324: nothing is waited for, no link leads elsewhere."""
    layout = ImageLayout()
    layout.name(layout.image(ONE), "a:1")
    folder = layout.folder(tmp_path / "x")
    blob = folder / "blobs" / "sha256" / digest_of(gzip.compress(ONE, mtime=0))[7:]
    blob.unlink()
    if kind == "link":
        (tmp_path / "elsewhere").write_bytes(gzip.compress(ONE, mtime=0))
        blob.symlink_to(tmp_path / "elsewhere")
    elif kind == "fifo":
        os.mkfifo(blob)
    else:
        blob.mkdir()
    with pytest.raises(SandboxConfigError):
        load_image(str(folder), (f"sha256:{'1' * 64}",), FakeDocker(), name="", emit=lambda _: None)


@pytest.mark.parametrize("form", ["tar", "tar.gz", "folder"])
@pytest.mark.parametrize("shown_by", ["config", "manifest"])
def test_docker_gets_an_archive_of_the_chosen_image_alone(form: str, shown_by: str, tmp_path: Path) -> None:
    """R-324: which `docker save` of newer engines could have written; it is read back here by the reader of those."""
    layout = ImageLayout()
    image, other = layout.image(ONE, TWO), layout.image(OTHER, architecture="arm64")
    index = layout.index(image, other)
    layout.name(index, "a:1")
    path = tmp_path / "x"
    if form == "folder":
        layout.folder(path)
    else:
        path.write_bytes(layout.tar() if form == "tar" else gzip.compress(layout.tar()))
    config = parts(image, layout)["config"]["digest"]
    shown = config if shown_by == "config" else image["digest"]
    docker = FakeDocker()
    docker.on("image", "inspect", has="a:1", code=1, stderr=MISSING)
    docker.on("image", "inspect", has=shown, stdout=shown)
    docker.on("image", "inspect", code=1, stderr=MISSING)
    docker.on("version", stdout="amd64\n").on("load")
    loaded, _ = load_image(str(path), (index["digest"],), docker, name="", emit=lambda _: None)
    assert loaded == shown
    (sent,) = (call.stdin for call in docker.calls if call.args == ("load",))
    assert sent is not None
    found = read_archive(io.BytesIO(sent), shown="x")
    assert (found.ids, found.tags, found.layout) == ({config, image["digest"]}, ("a:1",), None)
    with tarfile.open(fileobj=io.BytesIO(sent)) as archive:
        names = archive.getnames()
    assert names[-1] == "manifest.json"  # without it Docker finds nothing in what was cut off
    assert not any(parts(other, layout)["config"]["digest"][7:] in name for name in names)


OLD_STORE = '[["Backing Filesystem","extfs"]]'
NEW_STORE = '[["driver-type","io.containerd.snapshotter.v1"]]'


@pytest.mark.parametrize(("store", "again"), [(OLD_STORE, False), (NEW_STORE, False), (NEW_STORE, True)])
@pytest.mark.parametrize("packed", [True, False])
def test_old_archive_has_an_id_that_is_known_before_in_a_store_of_manifests(
    packed: bool, store: str, again: bool, tmp_path: Path
) -> None:
    """R-324: what engine 20.10 saved, where engine 29 loads it; another image cannot come in by that digest."""
    layers = [gzip.compress(layer, mtime=0) if packed else layer for layer in (ONE, TWO, ONE)]
    config = dump({"architecture": "amd64", "rootfs": {"diff_ids": [digest_of(layer) for layer in (ONE, TWO, ONE)]}})
    listed = [{"Config": "c.json", "RepoTags": ["a:1"], "Layers": ["1/layer.tar", "2/layer.tar", "3/layer.tar"]}]
    files = {f"{number}/layer.tar": layer for number, layer in enumerate(layers, start=1)}
    path = tmp_path / "x.tar"
    path.write_bytes(tar_of({**files, "c.json": config, "manifest.json": dump(listed)}))
    image_id = digest_of(config)
    with path.open("rb") as file:
        layout = read_any_image(file, shown="x", expected=(), machine=never).layout
    assert layout is not None
    shown = layout.manifest if store == NEW_STORE else image_id
    docker = FakeDocker().on("info", stdout=store).on("load")
    if again:
        docker.on("image", "inspect", has="a:1", stdout=shown)
    docker.on("image", "inspect", has=shown, stdout=shown).on("image", "inspect", code=1, stderr=MISSING)
    assert load_image(str(path), (image_id,), docker, name="", emit=lambda _: None)[0] == shown
    (call,) = (call for call in docker.calls if call.args[0] == "load")
    if store == OLD_STORE:
        assert (call.args, call.stdin) == (("load",), path.read_bytes())
    else:
        assert call.stdin is not None
        found = read_archive(io.BytesIO(call.stdin), shown="x")
        assert (found.ids, found.tags) == ({image_id, layout.manifest}, ("a:1",))
    with pytest.raises(SandboxConfigError, match="holds another image"):
        load_image(str(path), (layout.manifest,), docker, name="", emit=lambda _: None)


def test_layout_that_changes_meanwhile_is_not_loaded(tmp_path: Path) -> None:
    """R-324: each blob is hashed again on its way; the end, by which Docker finds anything, is not sent."""
    layout = ImageLayout()
    image = layout.image(ONE, TWO, packed=False)
    layout.name(image, "a:1")
    path = layout.folder(tmp_path / "x")
    blob = path / "blobs" / "sha256" / digest_of(TWO)[7:]

    def exchange(_: object) -> None:
        blob.write_bytes(TWO[:-1] + b"!")

    docker = FakeDocker().on("image", "inspect", has="a:1", code=1, stderr=MISSING, react=exchange)
    with pytest.raises(SandboxConfigError, match="could not be read to its end a second time"):
        load_image(str(path), (image["digest"],), docker.on("load"), name="", emit=lambda _: None)
