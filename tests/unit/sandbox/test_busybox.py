"""Making an image from one static program."""

from __future__ import annotations

import io
import os
import struct
import tarfile
from pathlib import Path

import pytest
from fakes.docker import FakeDocker
from fakes.notices import texts_to

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.offline.busybox import build_busybox_image, check_static_elf, image_archive

AMD64 = 62
PT_LOAD, PT_INTERP = 1, 3


def elf(machine: int = AMD64, *, wide: bool = True, order: str = "<", kinds: tuple[int, ...] = (PT_LOAD,)) -> bytes:
    """Return the beginning of an ELF program: its header and the types of its program headers."""
    offset, size = (64, 56) if wide else (52, 32)
    header = bytearray(offset)
    header[:6] = b"\x7fELF" + bytes((2 if wide else 1, 1 if order == "<" else 2))
    struct.pack_into(order + "H", header, 18, machine)
    struct.pack_into(order + ("Q" if wide else "I"), header, 32 if wide else 28, offset)
    struct.pack_into(order + "HH", header, 54 if wide else 42, size, len(kinds))
    return bytes(header) + b"".join(struct.pack(order + "I", kind).ljust(size, b"\0") for kind in kinds)


@pytest.mark.parametrize(
    ("data", "machine"),
    [
        (elf(), "amd64"),
        (elf(183), "arm64"),
        (elf(40, wide=False), "arm"),
        (elf(3, wide=False, kinds=(PT_LOAD, 2, 6)), "386"),
        (elf(22, order=">"), "s390x"),
        (elf(21), "ppc64le"),
        (elf(243), "riscv64"),
        (elf(kinds=()), "amd64"),
    ],
)
def test_machine_of_a_static_program(data: bytes, machine: str) -> None:
    assert check_static_elf(data, "/b") == machine


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x7fEL", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x03\x01" + elf()[6:], b"\x7fELF\x02\x03" + elf()[6:],
        elf(99), elf()[:40],
        elf()[:64], elf(kinds=(PT_LOAD,) * 3)[:130], b"MZ" + elf()[2:],
    ],
)  # fmt: skip
def test_file_that_is_no_program_of_a_known_machine_is_refused(data: bytes) -> None:
    with pytest.raises(SandboxConfigError, match=r'^"/b" is not a program for a processor that odek knows$'):
        check_static_elf(data, "/b")


@pytest.mark.parametrize("kinds", [(PT_INTERP,), (PT_LOAD, PT_INTERP), (6, PT_INTERP, PT_LOAD)])
def test_program_that_needs_libraries_is_refused(kinds: tuple[int, ...]) -> None:
    with pytest.raises(SandboxConfigError, match="is not static"):
        check_static_elf(elf(kinds=kinds), "/b")


def test_archive_holds_busybox_its_links_and_a_few_files_and_is_repeatable() -> None:
    archive = image_archive(b"BUSY", ("sh", "ls", "busybox", "ls"))
    assert archive == image_archive(b"BUSY", ("ls", "sh"))
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        entries = {entry.name: (entry.type, entry.mode, entry.linkname) for entry in tar}
        busybox = tar.extractfile("bin/busybox")
        assert busybox is not None
        assert busybox.read() == b"BUSY"
    assert entries["bin/sh"] == (tarfile.SYMTYPE, 0o644, "busybox")
    assert entries["bin/busybox"] == (tarfile.REGTYPE, 0o755, "")
    assert entries["tmp"] == (tarfile.DIRTYPE, 0o1777, "")
    assert sorted(name for name in entries if name.startswith("bin/")) == ["bin/busybox", "bin/ls", "bin/sh"]
    assert {"etc/passwd", "etc/group", "proc", "sys", "dev", "workspace"} <= set(entries)


@pytest.fixture
def real_busybox() -> str:
    from support.docker_engine import find_static_busybox

    found = find_static_busybox()
    if found is None:
        pytest.skip("no static busybox on PATH")
    return str(found)


def build(path: str, docker: FakeDocker) -> tuple[str, list[str]]:
    notes: list[str] = []
    return build_busybox_image(path, "mine:1", docker, env={"PATH": os.environ["PATH"]}, emit=texts_to(notes)), notes


def machine_of(path: str) -> str:
    return check_static_elf(Path(path).read_bytes(), path)


def test_image_is_imported_under_its_tag(real_busybox: str) -> None:
    machine = machine_of(real_busybox)
    docker = FakeDocker().on("version", stdout=f"{machine}\n").on("import", stdout="sha256:abc\n")
    image_id, notes = build(real_busybox, docker)
    assert image_id == "sha256:abc"
    assert docker.calls[0].args == ("version", "--format", "{{.Server.Arch}}")
    assert docker.calls[1].args == (
        "import", "--change", 'CMD ["/bin/sh"]', "--change", "ENV PATH=/bin:/usr/bin",
        "--message", "odek sandbox image bootstrap", "-", "mine:1",
    )  # fmt: skip
    assert docker.calls[1].stdin is not None
    assert b"bin/sh" in docker.calls[1].stdin
    assert len(notes) == 1
    assert notes[0].startswith(f"making image mine:1 from {real_busybox}, ")


def test_podman_names_the_processor_with_its_system(real_busybox: str) -> None:
    """R-387: recorded from podman 5.8; its version knows no `.Server.Arch`."""
    machine = machine_of(real_busybox)
    docker = FakeDocker().on("version", has="{{.Server.OsArch}}", stdout=f"linux/{machine}\n")
    refused = "Error: template: version:1:10: can't evaluate field Arch in type *define.Version"
    docker.on("version", code=125, stderr=f"{refused}\n").on("import", stdout="sha256:abc\n")
    assert build(real_busybox, docker)[0] == "sha256:abc"


def test_image_for_another_machine_than_the_daemons_is_refused(real_busybox: str) -> None:
    with pytest.raises(SandboxConfigError, match="the Docker daemon runs z80"):
        build(real_busybox, FakeDocker().on("version", stdout="z80\n"))


def test_refused_import_shows_what_docker_says(real_busybox: str) -> None:
    docker = FakeDocker().on("version", stdout=machine_of(real_busybox)).on("import", code=1, stderr="disk full\n")
    with pytest.raises(SandboxConfigError, match="did not import the image mine:1") as refused:
        build(real_busybox, docker)
    assert refused.value.detail == "disk full"


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(SandboxConfigError, match=words):
            build(str(path), FakeDocker())


def test_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(SandboxConfigError, match="is too large to be a busybox"):
        build(str(large), FakeDocker())


@pytest.mark.parametrize("mode", [0o755, 0o644])
def test_program_that_is_no_busybox_is_refused(mode: int, tmp_path: Path) -> None:
    """The header alone makes a static program of this machine; it cannot be run, or names no shell."""
    path = tmp_path / "busybox"
    path.write_bytes(elf())
    path.chmod(mode)
    with pytest.raises(SandboxConfigError):
        build(str(path), FakeDocker().on("version", stdout="amd64\n"))
