"""Saving and loading images by file, with a scripted docker."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from fakes.docker import FakeDocker, FakePending

from odek.errors import Interrupted
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image.reference import ImageChoice
from odek.sandbox.image.resolve import resolve_image
from odek.sandbox.offline.transfer import load_image, name_of, save_image

MISSING = "Error response from daemon: No such image\n"

LAYER = b"a layer"
CONFIG = json.dumps({"rootfs": {"diff_ids": [f"sha256:{hashlib.sha256(LAYER).hexdigest()}"]}}).encode()
ID = f"sha256:{hashlib.sha256(CONFIG).hexdigest()}"
OTHER = f"sha256:{'2' * 64}"
PINNED = ImageChoice(ref=f"alpine:3.22@sha256:{'1' * 64}", origin="the pinned default", chosen_by_project=False)


def archive(tags: list[str] | None = None) -> bytes:
    listed = [{"Config": "c.json", "RepoTags": tags, "Layers": ["l"]}]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in (("l", LAYER), ("c.json", CONFIG), ("manifest.json", json.dumps(listed).encode())):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def writes(data: bytes) -> object:
    def react(client: FakePending) -> None:
        Path(client.args[client.args.index("--output") + 1]).write_bytes(data)

    return react


def ignore(_: str) -> None:
    pass


@pytest.mark.parametrize(
    ("by_name", "saved"), [(ID, "alpine:3.22"), (OTHER, ID), ("", ID)], ids=["its name", "another's name", "no name"]
)
def test_image_is_saved_under_its_name_when_that_is_this_image(by_name: str, saved: str, tmp_path: Path) -> None:
    """D-12: what is carried over is the image that the pin stands for, whatever its name means here."""
    docker = (
        FakeDocker()
        .on("image", "inspect", has="@sha256", stdout=ID)
        .on("image", "inspect", has="alpine:3.22", stdout=by_name, stderr=MISSING, code=0 if by_name else 1)
        .on("save", react=writes(archive()))  # type: ignore[arg-type]
    )
    path = str(tmp_path / "x.tar")
    image_id, image = save_image(PINNED, path, docker, emit=ignore)
    assert (image_id, image.ids, os.listdir(tmp_path)) == (ID, frozenset([ID]), ["x.tar"])
    assert docker.called("save") == [("save", "--output", f"{path}.part", "--", saved)]


@pytest.mark.parametrize(
    ("data", "code", "message"),
    [
        (b"", 1, "Docker did not save"),
        (b"half", 0, "not an image that can be trusted"),
        (archive().replace(LAYER, b"b layer"), 0, "not an image that can be trusted"),
    ],
)
def test_failed_save_leaves_no_file(data: bytes, code: int, message: str, tmp_path: Path) -> None:
    """D-12: a file is there when it is whole."""
    docker = FakeDocker().on("image", "inspect", stdout=ID).on("save", react=writes(data), code=code)  # type: ignore[arg-type]
    with pytest.raises(SandboxConfigError, match=message):
        save_image(PINNED, str(tmp_path / "x.tar"), docker, emit=ignore)
    assert os.listdir(tmp_path) == []


def test_saved_image_must_be_the_one_asked_for(tmp_path: Path) -> None:
    docker = FakeDocker().on("image", "inspect", stdout=OTHER).on("save", react=writes(archive()))  # type: ignore[arg-type]
    with pytest.raises(SandboxConfigError, match="Docker saved another image"):
        save_image(PINNED, str(tmp_path / "x.tar"), docker, emit=ignore)
    assert os.listdir(tmp_path) == []


def test_interrupted_save_leaves_no_file_and_no_client(tmp_path: Path) -> None:
    docker = FakeDocker().on("image", "inspect", stdout=ID).on(
        "save", react=writes(b"half"), hang=True, raises_in_pump=Interrupted(2)  # type: ignore[arg-type]
    )  # fmt: skip
    with pytest.raises(Interrupted):
        save_image(PINNED, str(tmp_path / "x.tar"), docker, emit=ignore)
    assert os.listdir(tmp_path) == []
    docker.assert_no_client_left()


@pytest.mark.parametrize("name", ["x.tar", "x.tar.part"])
def test_file_that_exists_is_kept(name: str, tmp_path: Path) -> None:
    """Also the one in which it is made: it may be another's."""
    path = tmp_path / name
    path.write_text("precious")
    with pytest.raises(SandboxConfigError, match="exists already"):
        save_image(PINNED, str(tmp_path / "x.tar"), FakeDocker().on("image", "inspect", stdout=ID), emit=ignore)
    assert path.read_text() == "precious"


def test_image_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        SandboxConfigError, match=r'there is no local image "alpine:3\.22@sha256:1+" \(the pinned default\)'
    ):
        save_image(
            PINNED, str(tmp_path / "x"), FakeDocker().on("image", "inspect", code=1, stderr=MISSING), emit=ignore
        )


def load(tmp_path: Path, docker: FakeDocker, *, data: bytes | None = None, expected: tuple[str, ...] = (ID,)) -> str:
    path = tmp_path / "x.tar"
    path.write_bytes(archive() if data is None else data)
    return load_image(str(path), expected, docker, name="alpine:3.22", emit=ignore)[0]


def test_image_without_a_name_gets_one_when_that_is_free(tmp_path: Path) -> None:
    """D-12: a nameless image would go with the next clean-up."""
    docker = (
        FakeDocker()
        .on("info", stdout="[]")
        .on("load")
        .on("image", "inspect", has=ID, stdout=ID)
        .on("image", "inspect", code=1, stderr=MISSING)
        .on("tag")
    )
    assert load(tmp_path, docker) == ID
    assert docker.called("load") == [("load",)]  # on its stdin
    assert docker.called("tag") == [("tag", "--", ID, "alpine:3.22")]


def test_name_that_is_taken_stays_with_the_other_image(tmp_path: Path) -> None:
    docker = (
        FakeDocker()
        .on("info", stdout="[]")
        .on("load")
        .on("image", "inspect", has=ID, stdout=ID)
        .on("image", "inspect", stdout=OTHER)
    )
    assert load(tmp_path, docker) == ID
    assert docker.called("tag") == []


def test_other_image_than_the_expected_one_never_reaches_docker(tmp_path: Path) -> None:
    """D-12: the ID is computed anew before Docker sees the file; nothing is believed by name."""
    with pytest.raises(SandboxConfigError, match="holds another image than the expected one") as refused:
        load(tmp_path, FakeDocker(), data=archive(["alpine:3.22"]), expected=(OTHER,))
    assert refused.value.detail.splitlines() == ["in the file:", ID, "expected:", OTHER]


def test_default_whose_id_nobody_knows_is_not_called_another_image(tmp_path: Path) -> None:
    """D-12: the digests that are shipped may not hold this processor; then only the ID that was carried along tells."""
    path = tmp_path / "x.tar"
    path.write_bytes(archive(["alpine:3.22"]))
    with pytest.raises(SandboxConfigError) as refused:
        load_image(str(path), (OTHER,), FakeDocker(), name="alpine:3.22", emit=ignore, unknown_on="riscv64")
    assert refused.value.message == (
        f'"{path}" cannot be verified to hold the pinned default: its ID on riscv64 is not known'
    )
    assert refused.value.hint == (
        "compare with the ID that `odek sandbox image save` printed, and give that one with --id"
    )


def test_changed_file_never_reaches_docker(tmp_path: Path) -> None:
    """D-12."""
    with pytest.raises(SandboxConfigError, match="not an image that can be trusted"):
        load(tmp_path, FakeDocker(), data=archive().replace(LAYER, b"b layer"))


def test_file_that_would_take_a_name_from_another_image_is_refused(tmp_path: Path) -> None:
    """D-12: loading must not make `python:3.12` another image."""
    docker = FakeDocker().on("image", "inspect", has="python:3.12", stdout=OTHER)
    with pytest.raises(SandboxConfigError, match=r'would take the name "python:3\.12" from another local image'):
        load(tmp_path, docker, data=archive(["python:3.12"]))


@pytest.mark.parametrize("answer", ["", OTHER])
def test_id_that_docker_shows_afterwards_counts(answer: str, tmp_path: Path) -> None:
    """D-12: the file may have been exchanged between the check and the load."""
    docker = (
        FakeDocker()
        .on("info", stdout="[]")
        .on("load")
        .on("image", "inspect", stdout=answer, code=0 if answer else 1, stderr=MISSING)
    )
    with pytest.raises(SandboxConfigError, match="does not show the image"):
        load(tmp_path, docker)


@pytest.mark.parametrize("moment", ["info", "load"])
@pytest.mark.parametrize("packed", [False, True])
def test_file_that_is_put_in_the_place_of_the_checked_one_is_not_loaded(
    packed: bool, moment: str, tmp_path: Path
) -> None:
    """D-12, R-407: Docker gets the bytes that were checked, whatever has the name now."""

    def exchange(_: FakePending) -> None:
        (tmp_path / "y").write_bytes(b"another")
        os.replace(tmp_path / "y", tmp_path / "x.tar")

    plain = archive(["alpine:3.22"])
    docker = FakeDocker().on("image", "inspect", stdout=ID)
    for word in ("info", "load"):
        docker.on(word, stdout="[]", react=exchange if word == moment else None)
    assert load(tmp_path, docker, data=gzip.compress(plain) if packed else plain) == ID
    (call,) = (each for each in docker.calls if each.args[0] == "load")
    assert call.stdin == plain


def test_file_that_is_changed_in_place_is_noticed(tmp_path: Path) -> None:
    """D-12."""

    def change(_: FakePending) -> None:
        (tmp_path / "x.tar").write_bytes(b"another")

    docker = FakeDocker().on("info", stdout="[]").on("load", react=change).on("image", "inspect", stdout=ID)
    with pytest.raises(SandboxConfigError, match="does not show the image"):
        load(tmp_path, docker)


def test_compressed_file_is_handed_over_without_its_gzip(tmp_path: Path) -> None:
    """R-381: podman 4.3 reads no compressed archive (M-31); also one of several members, as pigz writes it."""
    plain = archive(["alpine:3.22"])
    docker = FakeDocker().on("info", stdout="[]").on("load").on("image", "inspect", stdout=ID)
    assert load(tmp_path, docker, data=gzip.compress(plain[:700]) + gzip.compress(plain[700:])) == ID
    (call,) = (each for each in docker.calls if each.args[0] == "load")
    assert (call.args, call.stdin) == (("load",), plain)


@pytest.mark.parametrize("kind", ["cut", "other"])
def test_compressed_file_that_changes_before_it_is_loaded_is_refused(kind: str, tmp_path: Path) -> None:
    """R-381, D-12: Docker never gets its end, or what is loaded is not taken."""
    packed = gzip.compress(archive())

    def exchange(_: object) -> None:
        (tmp_path / "x.tar").write_bytes(packed[:-9] if kind == "cut" else gzip.compress(b"another"))

    docker = FakeDocker().on("info", stdout="[]", react=exchange).on("load").on("image", "inspect", stdout=ID)
    with pytest.raises(SandboxConfigError, match=r"a second time|does not show"):
        load(tmp_path, docker, data=packed)


@pytest.mark.parametrize("kind", ["missing", "folder", "FIFO"])
def test_what_is_no_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if kind == "folder":
        path.mkdir()
    elif kind == "FIFO":
        os.mkfifo(path)
    with pytest.raises(SandboxConfigError, match=r"cannot read|not a regular file|\"oci-layout\" is missing"):
        load_image(str(path), (ID,), FakeDocker(), name="", emit=ignore)


@pytest.mark.parametrize(
    ("ref", "name"), [("a:1@sha256:" + "1" * 64, "a:1"), ("a:1", "a:1"), ("r:5000/a@sha256:" + "1" * 64, "r:5000/a")]
)
def test_name_is_the_reference_without_its_digest(ref: str, name: str) -> None:
    assert name_of(ref) == name


def test_local_image_counts_as_the_default_by_its_id_and_processor_only() -> None:
    """D-12: after `docker load` the pinned reference is not known; a name proves nothing, an ID does."""
    choice = ImageChoice(
        ref=PINNED.ref, origin="the pinned default", chosen_by_project=False,
        local_ids=(("", OTHER), ("arm64", f"sha256:{'3' * 64}"), ("amd64", ID)),
    )  # fmt: skip
    docker = (
        FakeDocker()
        .on("image", "inspect", has=ID, stdout=ID)
        .on("image", "inspect", has=OTHER, code=1, stderr=MISSING)
        .on("image", "inspect", has=PINNED.ref, code=1, stderr=MISSING)
        .on("version", stdout="amd64\n")
    )
    assert resolve_image(choice, docker) == ID
    assert [args[-1] for args in docker.called("image")] == [PINNED.ref, OTHER, ID]


def test_default_is_not_found_under_another_processors_id() -> None:
    """D-12."""
    choice = ImageChoice(ref=PINNED.ref, origin="x", chosen_by_project=False, local_ids=(("arm64", ID),))
    docker = FakeDocker().on("image", "inspect", has=PINNED.ref, code=1, stderr=MISSING).on("version", stdout="amd64\n")
    assert resolve_image(choice, docker) == ""
