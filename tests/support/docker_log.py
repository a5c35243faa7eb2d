"""A `docker` in front of the real one that writes down every call."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

SCRIPT = """\
#!/bin/sh
for argument in "$@"; do printf '%s\\0' "$argument"; done >{calls}/$$.part
mv {calls}/$$.part {calls}/$$.call
exec {program} "$@"
"""
READING = ("version", "info", "network ls", "network inspect", "image inspect", "inspect", "ps")
"""the calls that change nothing"""


@dataclass(frozen=True, slots=True)
class DockerLog:
    """Put `path` in front: `env={"PATH": log.path}`."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, client: str = "/bin/false") -> DockerLog:
        """Return a log in the new folder `folder`; `client` is the docker that is called, none unless given."""
        calls = folder / "calls"
        calls.mkdir(parents=True)
        script = folder / "docker"
        script.write_text(SCRIPT.format(calls=calls, program=client))
        script.chmod(0o755)
        return cls(folder)

    @property
    def path(self) -> str:
        """a PATH that finds this docker first"""
        return f"{self.folder}{os.pathsep}{os.environ['PATH']}"

    def calls(self) -> list[tuple[str, ...]]:
        """Return the arguments of every call, in the order of the calls."""
        files = sorted((self.folder / "calls").glob("*.call"), key=lambda file: file.stat().st_mtime_ns)
        return [tuple(file.read_bytes().decode().split("\0")[:-1]) for file in files]

    def changing(self) -> list[str]:
        """Return the calls that change something, by their first words."""
        names = [" ".join(call[:2]) if call[0] in ("network", "image") else call[0] for call in self.calls()]
        return [name for name in names if name not in READING]
