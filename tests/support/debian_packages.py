"""Programs out of Debian's packages, downloaded and unpacked, not installed: this machine stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


def unpack(folder: Path, *packages: str) -> Path:
    """Fetch `packages` and what they need that is not installed, unpack it and return the root of the files.

    Raises RuntimeError when they cannot be had here.
    """
    names = " and ".join(packages)
    if not shutil.which("apt-get") or os.getuid() != 0:
        raise RuntimeError(f"no {names} here, and no apt-get as root to fetch them with")
    archives, root = folder / "archives", folder / "root"
    (archives / "partial").mkdir(parents=True)
    command = [
        "apt-get", "install", "--yes", "--quiet", "--download-only", "--no-install-recommends", "--reinstall",
        "-o", f"Dir::Cache::archives={archives}", "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=true",
        *packages,
    ]  # fmt: skip
    done = _run(command)
    if done.returncode != 0:  # a new machine has no lists of packages, an old one stale ones
        _run(["apt-get", "update", "--quiet"])
        done = _run(command)
    found = sorted(archives.glob("*.deb"))
    if done.returncode != 0 or not found:
        raise RuntimeError(f"apt-get does not give {names}: {done.stderr}")
    for package in found:
        subprocess.run(["dpkg", "-x", str(package), str(root)], check=True)
    return root


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
