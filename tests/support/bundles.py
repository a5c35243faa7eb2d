"""Bundles with a stand-in for odek, which writes down what it is called with."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from odek.bundle.file import Bundle, Source, write_bundle
from odek.bundle.layout import Contents, Part
from odek.packaged import read_packaged

SHELLS = [words for words in (("dash",), ("bash",), ("busybox", "sh")) if shutil.which(words[0])]
ODEK = b"""#!/bin/sh
# The head of the one-file odek, a stand-in
case $1 in
version) echo 'odek 1.2.3' ;;
doctor) echo "$*" >>"$HOME/calls"; exit "${DOCTOR:-0}" ;;
sandbox) echo "$1 $2 $3 $5 $6 $7 $8 $9" >>"$HOME/calls"; gzip -dc "$4" >>"$HOME/loaded" || exit 1 ;;
*) exit 1 ;;
esac
"""
IMAGE = b"what docker save wrote"
ID, OTHER_ID = f"sha256:{'ab' * 32}", f"sha256:{'cd' * 32}"
TAG = "registry.example:5000/team/tools:1.2"
SETTINGS = b'{\n  "model": "m",\n  "sandbox_image": "' + ID.encode() + b'"\n}\n'
MACHINE = {"arm64": "aarch64", "amd64": "x86_64"}.get(os.uname().machine, os.uname().machine)
ARCHITECTURE = {"aarch64": "arm64", "x86_64": "amd64"}.get(MACHINE, MACHINE)


def empty_part(kind: str, name: str, ids: tuple[str, ...] = (), tag: str = "") -> Part:
    return Part(kind=kind, name=name, size_bytes=0, sha256="", ids=ids, tag=tag)  # type: ignore[arg-type]


def make_bundle(path: Path, *, machine: str = "any", settings: bytes = b"", images: int = 1) -> Bundle:
    """Write a bundle whose odek is the stand-in."""
    sources = [
        Source(part=empty_part("installer", "install.sh"), data=read_packaged("odek.bundle", "install.sh")),
        Source(part=empty_part("odek", "odek" if machine == "any" else f"odek-linux-{machine}-musl"), data=ODEK),
    ]
    if settings:
        sources.append(Source(part=empty_part("settings", "config.json"), data=settings))
    for number in range(1, images + 1):
        part = empty_part("image", f"image-{number}.tar.gz", (ID, OTHER_ID), TAG)
        sources.append(Source(part=part, data=IMAGE, compress=True))
    contents = Contents(made_by="odek 1.2.3", machine=machine, architecture=ARCHITECTURE, parts=())
    return write_bundle(str(path), contents, tuple(sources))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A host without network: a HOME of its own, and a docker that says one word."""

    shell: tuple[str, ...]
    folder: Path
    docker: str = ARCHITECTURE
    """the processor of its engine, as podman has it with "linux/"; "" where the client gets no answer"""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def run(
        self, file: Path, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a bundle in this shell, in a folder of its own."""
        programs = self.folder / "bin"
        for folder in (self.home, programs, self.folder / "tmp", self.folder / "cwd"):
            folder.mkdir(exist_ok=True, parents=True)
        wanted = ".OsArch" if self.docker.startswith("linux/") else ".Arch"
        (programs / "docker").write_text(
            f"#!/bin/sh\ncase $* in *'{wanted}'*) echo '{self.docker}' ;; *) exit 125 ;; esac\n"
        )
        if not self.docker:
            (programs / "docker").write_text("#!/bin/sh\nexit 1\n")
        (programs / "docker").chmod(0o755)
        base = {"HOME": str(self.home), "PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(self.folder / "tmp")}
        return subprocess.run(
            [*self.shell, str(file), *arguments],
            cwd=self.folder / "cwd",
            env={**base, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
        )

    def calls(self) -> list[str]:
        """Return what the stand-in was called with."""
        file = self.home / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def is_untouched(self) -> bool:
        """Return whether nothing was installed, run or left."""
        return not list(self.home.rglob("*")) and not list((self.folder / "tmp").iterdir())
