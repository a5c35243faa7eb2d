"""A root directory without network and Python: busybox and a Docker client, or a Debian of scripts/chroot with one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.docker_engine import Engine

# what is mounted ends with the process: the namespace is its own. $1: the folder, $2: the socket, $3: what is shared
ENTER = """
set -e
root=$1/root socket=$2 shared=$3
mount -t overlay -o "lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work" overlay "$root" 2>/dev/null ||
    mount --bind "$1/lower" "$root"
mkdir -p "$root/proc" "$root/dev" "$root/run" "$root/tmp" "$root/root" "$root$shared"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
: >"$root/run/docker.sock"
mount --bind "$socket" "$root/run/docker.sock"
mount --bind "$shared" "$root$shared"
shift 3
cd "$root"
exec chroot . /usr/bin/env -i HOME=/root PATH=/usr/local/bin:/usr/bin:/bin DOCKER_HOST=unix:///run/docker.sock "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BareRoot:
    """Runs commands in it, as root. Files below `shared` have the same path inside, and for the Docker daemon."""

    folder: Path
    socket: str
    shared: Path

    def run(self, *command: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        argv = ["unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", ENTER, "sh"]
        return subprocess.run(
            [*argv, str(self.folder), self.socket, str(self.shared), *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
        )


def make_bare_root(
    folder: Path, engine: Engine, *, shared: Path, busybox: Path, debian: Path | None = None
) -> BareRoot | str:
    """Return it, made in the new `folder`, or why it cannot be had here."""
    if not engine.address.startswith("unix://"):
        return "the Docker engine has no socket in a file"
    lower = folder / "lower"
    for name in ("upper", "work", "root"):
        (folder / name).mkdir(parents=True)
    if debian is None:
        for name in ("bin", "usr/bin", "usr/local/bin", "tmp"):
            (lower / name).mkdir(parents=True)
        shutil.copy(busybox, lower / "bin" / "busybox")
        for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
            if applet != "busybox":
                (lower / "bin" / applet).symlink_to("/bin/busybox")
        (lower / "usr" / "bin" / "env").symlink_to("/bin/busybox")
    else:
        lower.symlink_to(debian)
    target = folder / "upper" if debian else lower
    for file in (Path(engine.client).resolve(), *libraries(engine.client)):
        place = target / ("usr/local/bin/docker" if file.name.startswith("docker") else str(file).lstrip("/"))
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    made = BareRoot(folder=folder, socket=engine.address.removeprefix("unix://"), shared=shared)
    tried = made.run("docker", "version")
    return made if tried.returncode == 0 else f"no root directory of one's own can be had here: {tried.stderr.strip()}"


def libraries(program: str) -> Sequence[Path]:
    """Return the shared libraries of a program; none of a static one."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return [Path(name) for name in re.findall(r"(?:=> |^\s)(/\S+)", listed, re.MULTILINE)]
