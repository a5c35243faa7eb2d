"""A minimal local image from one static busybox, for hosts that reach no registry.

The image holds busybox, a link for each of its programs, and the few files that programs expect.
It is made by `docker import`, so nothing is pulled and nothing is run to make it.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping

from odek.errors import ExecutableMissing
from odek.events import Notice, Sink
from odek.process import run
from odek.sandbox.docker import Docker, docker_output, run_docker
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image.resolve import daemon_machine
from odek.text import visible

IMPORT_TIMEOUT_S = 120.0
_HINT = "give the path of a static busybox with --busybox PATH"
_MAX_BYTES = 64 << 20
_ELF_MACHINES = {3: "386", 40: "arm", 62: "amd64", 183: "arm64", 243: "riscv64", 21: "ppc64le", 22: "s390x"}
_PT_INTERP = 3
_FILES = (
    ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    ("etc/group", "root:x:0:\nnobody:x:65534:\n"),
)
_FOLDERS = (
    ("bin", 0o755), ("dev", 0o755), ("etc", 0o755), ("proc", 0o755), ("root", 0o700),
    ("sys", 0o755), ("tmp", 0o1777), ("usr", 0o755), ("usr/bin", 0o755), ("workspace", 0o755),
)  # fmt: skip


def build_busybox_image(path: str, tag: str, docker: Docker, *, env: Mapping[str, str], emit: Sink) -> str:
    """Import an image with the busybox at `path` under `tag` and return its ID.

    The binary is asked once, on this host, for the list of its programs. Raises
    SandboxConfigError when it is not a static program for the daemon's processor.
    """
    data = _read_binary(path)
    machine = check_static_elf(data, path)
    daemon = daemon_machine(docker)
    if machine != daemon:
        raise SandboxConfigError(
            f'"{visible(path)}" is for {machine}, the Docker daemon runs {daemon}',
            hint="give a busybox for the daemon's processor with --busybox PATH",
        )
    programs = _programs(path, env)
    emit(Notice(f"making image {visible(tag)} from {visible(path)}, {len(programs)} programs"))
    archive = image_archive(data, programs)
    done = run_docker(
        docker, "import", "--change", 'CMD ["/bin/sh"]', "--change", "ENV PATH=/bin:/usr/bin",
        "--message", "odek sandbox image bootstrap", "-", tag,
        stdin=archive, timeout_s=IMPORT_TIMEOUT_S,
    )  # fmt: skip
    if done.code != 0:
        raise SandboxConfigError(
            f"Docker did not import the image {visible(tag)}",
            hint="`docker system df` shows what takes Docker's room",
            detail=docker_output(done),
        )
    return done.stdout.text.strip()


def check_static_elf(data: bytes, path: str) -> str:
    """Return the machine, in Docker's words, that a static ELF program is for. Pure.

    Static means: the program headers name no interpreter, so it runs in an image that holds
    nothing else. Raises SandboxConfigError otherwise.
    """
    try:
        if data[:4] != b"\x7fELF":
            raise ValueError
        order = {1: "<", 2: ">"}[data[5]]
        wide = {1: False, 2: True}[data[4]]
        (machine,) = struct.unpack_from(order + "H", data, 18)
        offset = struct.unpack_from(order + ("Q" if wide else "I"), data, 32 if wide else 28)[0]
        size, count = struct.unpack_from(order + "HH", data, 54 if wide else 42)
        kinds = [struct.unpack_from(order + "I", data, offset + number * size)[0] for number in range(count)]
        name = _ELF_MACHINES[machine]
    except (ValueError, KeyError, IndexError, struct.error):
        raise SandboxConfigError(
            f'"{visible(path)}" is not a program for a processor that odek knows',
            hint=_HINT,
        ) from None
    if _PT_INTERP in kinds:
        raise SandboxConfigError(
            f'"{visible(path)}" is not static: it needs libraries that the image will not hold',
            hint="install the static one (on Debian: apt-get install busybox-static), or give it with --busybox PATH",
        )
    return name


def image_archive(busybox: bytes, programs: tuple[str, ...]) -> bytes:
    """Return the image's file system as a tar; the same input gives the same bytes. Pure."""
    import tarfile  # 10 ms that no other command needs

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, mode in _FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            archive.addfile(folder)
        for name, content, mode in (
            ("bin/busybox", busybox, 0o755),
            *((name, text.encode(), 0o644) for name, text in _FILES),
        ):
            file = tarfile.TarInfo(name)
            file.size, file.mode = len(content), mode
            archive.addfile(file, io.BytesIO(content))
        for program in sorted(set(programs) - {"busybox"}):
            link = tarfile.TarInfo(f"bin/{program}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    return buffer.getvalue()


def _read_binary(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise SandboxConfigError(
            f'cannot read "{visible(path)}": {error.strerror}',
            hint=_HINT,
        ) from error
    if len(data) > _MAX_BYTES:
        raise SandboxConfigError(f'"{visible(path)}" is too large to be a busybox', hint=_HINT)
    return data


def _programs(path: str, env: Mapping[str, str]) -> tuple[str, ...]:
    try:
        done = run((path, "--list"), env=env, timeout_s=10.0)
    except ExecutableMissing as error:
        raise SandboxConfigError(error.message, hint=_HINT) from error
    names = tuple(name for name in done.stdout.text.split() if name and "/" not in name)
    if done.code != 0 or "sh" not in names:
        raise SandboxConfigError(
            f'"{visible(path)}" is not a busybox with a shell: `--list` does not name `sh`',
            hint=_HINT,
            detail=docker_output(done),
        )
    return names
