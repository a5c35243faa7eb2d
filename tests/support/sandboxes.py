"""Sandboxes on a real engine, started by the product's own code, ended with the test."""

from __future__ import annotations

import functools
import io
import json
import os
import secrets
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fakes.notices import texts_to
from support.docker_engine import Engine, find_static_busybox

from odek.host import read_identity
from odek.sandbox.container.container import Container
from odek.sandbox.container.owner import Owner
from odek.sandbox.container.start import Surroundings, start
from odek.sandbox.docker import Docker, DockerCli
from odek.sandbox.engine import Engine as EngineKind
from odek.sandbox.engine import query_engine
from odek.sandbox.image.resolve import find_image
from odek.sandbox.mounts import MountPoint, read_mounts
from odek.sandbox.offline.busybox import image_archive
from odek.sandbox.spec import Limits, SandboxSpec

GONE_WITHIN_S = 15
SECCOMP_FILE = str(Path(__file__).resolve().parents[2] / "odek" / "sandbox" / "seccomp.json")
PROGRAMS = tuple("cat chmod cp env head id kill ls mkdir mv printf ps readlink rm sh sha256sum sleep touch yes".split())


@functools.cache
def kind_of(client: str) -> EngineKind:
    """Return what kind of engine a client reaches; one engine answers for all of a test run."""
    return query_engine(DockerCli(client, dict(os.environ)))


def this_owner() -> Owner:
    """Return the owner that containers of this process carry."""
    me = read_identity(os.getpid())
    assert me is not None
    return Owner(pid=me.pid, start=me.start_ticks, boot=me.boot_id, pidns=me.pid_namespace, uid=os.getuid())


def start_of(pid: int) -> str | None:
    found = read_identity(pid)
    return found.start_ticks if found else None


@dataclass(slots=True, kw_only=True)
class Boxes:
    """Starts sandboxes on one folder and takes them down again."""

    engine: Engine
    image: str
    workdir: Path
    said: list[str] = field(default_factory=list)
    numbers: Iterator[int] | None = None
    """numbers containers as another process would; None: as this one does"""
    _open: list[Container] = field(default_factory=list)

    @property
    def docker(self) -> DockerCli:
        return DockerCli(self.engine.client, dict(os.environ))

    @property
    def kind(self) -> EngineKind:
        return kind_of(self.engine.client)

    def spec(self, **changes: Any) -> SandboxSpec:
        """Return what is started: as the invoking user, everything else by default, but for `changes`."""
        image = changes.pop("image", self.image)
        spec = SandboxSpec(
            image=image,
            image_id=find_image(image, self.docker),
            workdir=str(self.workdir),
            readonly=False,
            user=f"{os.getuid()}:{os.getgid()}",
            home="/tmp",
            limits=Limits(pids=256),
            seccomp_file=SECCOMP_FILE,
            engine=self.kind,
        )
        return replace(spec, **changes)

    def start(
        self,
        *,
        docker: Docker | None = None,
        mounts_of: Callable[[int], tuple[MountPoint, ...]] = read_mounts,
        **changes: Any,
    ) -> Container:
        world = Surroundings(
            owner=this_owner(),
            start_of=start_of,
            new_nonce=lambda: secrets.token_hex(16),
            emit=texts_to(self.said),
            mounts_of=mounts_of,
        )
        if self.numbers is not None:
            world = replace(world, next_number=self.numbers.__next__)
        box = start(self.spec(**changes), docker or self.docker, world)
        self._open.append(box)
        return box

    def inspect(self, box: Container) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.engine.run("inspect", box.facts.id).stdout)[0]
        return shown

    def processes(self, box: Container) -> list[str]:
        """Return the command lines of all processes in the container, as the host sees them."""
        lines = self.engine.run("top", box.facts.id, "-eo", "pid,args").stdout.splitlines()[1:]
        return [line.split(maxsplit=1)[1] for line in lines]

    def existing(self, pid: int) -> list[str]:
        """Return the IDs of containers that belong to the odek with that pid."""
        return self.engine.run("ps", "--all", "--quiet", "--filter", f"label=io.odek.pid={pid}").stdout.split()

    def await_gone(self, pid: int) -> None:
        """Wait until no container of the odek with that pid is left, nor a client that could make one."""
        deadline = time.monotonic() + GONE_WITHIN_S
        while self.existing(pid) or clients_of(pid):
            assert time.monotonic() < deadline, f"left: {self.existing(pid)} {clients_of(pid)}"
            time.sleep(0.05)

    def close(self) -> None:
        for box in self._open:
            box.close()


def clients_of(pid: int) -> list[int]:
    """Return the docker clients at work on a container of the odek with that pid."""
    wanted = f"io.odek.pid={pid}".encode()
    return [number for number, words in command_lines() if wanted in words]


def command_lines() -> list[tuple[int, list[bytes]]]:
    """Return the pid and the arguments of every process on this machine."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found.append((int(entry), Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")))
            except OSError:  # it has ended meanwhile
                continue
    return found


def output(box: Container, command: str, *, timeout_s: float = 30) -> str:
    """Return what a command prints that must succeed."""
    done = box.run(command, timeout_s=timeout_s)
    assert (done.code, done.timed_out) == (0, False), done
    return done.output.text


@dataclass(slots=True, kw_only=True)
class OddImages:
    """Makes images of one busybox, each odd in its own way; they go with the session."""

    engine: Engine
    _made: list[str] = field(default_factory=list)

    def make(
        self,
        *changes: str,
        programs: tuple[str, ...] = PROGRAMS,
        files: Mapping[str, str] | None = None,
        modes: Mapping[str, int] | None = None,
        shell: str = "",
        own: Mapping[str, str] | None = None,
        scripts: Mapping[str, str] | None = None,
        links: Mapping[str, str] | None = None,
    ) -> str:
        """Return the reference of an image: `changes` are lines of a Dockerfile, `files` replaces contents.

        `own` is path in the image → program of this machine, with the libraries that it needs. `shell` is
        one to be its `sh`: unlike busybox, it knows no program that the image does not hold. `scripts` is
        path → text of a program, `links` path → where it leads.
        """
        busybox = find_static_busybox()
        assert busybox is not None
        added = {**(own or {}), **({"bin/sh": shell} if shell else {})}
        extra = {path: Path(program).read_bytes() for path, program in added.items()}
        extra |= {path: text.encode() for path, text in (scripts or {}).items()}
        for program in added.values():
            extra |= libraries_of(program)
        archive = rewrite(image_archive(busybox.read_bytes(), programs), files or {}, modes or {}, extra)
        archive = with_links(archive, links or {})
        reference = f"odek-test-odd:{os.getpid()}-{len(self._made)}"
        flags = [word for change in changes for word in ("--change", change)]
        self.engine.run("import", *flags, "-", reference, stdin=archive)
        self._made.append(reference)
        return reference

    def close(self) -> None:
        if self._made:
            self.engine.run("image", "rm", "--force", *self._made, check=False)


def with_links(archive: bytes, links: Mapping[str, str]) -> bytes:
    """Return a tar with symbolic links added."""
    buffer = io.BytesIO(archive)
    with tarfile.open(fileobj=buffer, mode="a") as new:
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            new.addfile(entry)
    return buffer.getvalue()


def libraries_of(program: str) -> dict[str, bytes]:
    """Return the contents of the libraries that a program of this machine needs, by path."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    paths = [word for word in listed.split() if word.startswith("/")]
    return {path.lstrip("/"): Path(path).read_bytes() for path in paths}


def rewrite(archive: bytes, files: Mapping[str, str], modes: Mapping[str, int], extra: Mapping[str, bytes]) -> bytes:
    """Return a tar with some contents and modes replaced, and with programs added."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(archive)) as old, tarfile.open(fileobj=buffer, mode="w") as new:
        for entry in old:
            if entry.name in extra:
                continue
            content = old.extractfile(entry) if entry.isfile() else None
            if entry.name in files:  # most programs are links to one busybox
                entry.type, entry.linkname, entry.mode = tarfile.REGTYPE, "", 0o755
            data = files[entry.name].encode() if entry.name in files else content.read() if content else b""
            entry.size, entry.mode = len(data), modes.get(entry.name, entry.mode)
            new.addfile(entry, io.BytesIO(data))
        for name, data in extra.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), modes.get(name, 0o755)
            new.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
