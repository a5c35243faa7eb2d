"""Programs of other people for tests: fetched once, pinned by version, kept in a folder outside of the repository."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


class PackagesMissing(RuntimeError):
    """They cannot be had here; the text says why."""


def python_packages(*requirements: str, version: str = "") -> Path:
    """Return a folder to put on PYTHONPATH that holds `requirements` for Python `version` (this one's unless given).

    Raises PackagesMissing.
    """
    version = version or "{}.{}".format(*sys.version_info)
    folder = _folder("python", (version, *requirements))
    chosen = () if version == "{}.{}".format(*sys.version_info) else ("--python-version", version)
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    return _fetched(folder, (*pip, "--only-binary", ":all:", *chosen, "--target", "{}", *requirements))


def node_packages(*packages: str) -> Path:
    """Return the node_modules with `packages`. Raises PackagesMissing."""
    if not shutil.which("npm"):
        subprocess.run([str(ROOT / "scripts" / "need"), "--install", "nodejs", "npm"], check=False, capture_output=True)
    folder = _folder("node", packages)
    npm = ("npm", "install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts", "--prefix", "{}", *packages)
    return _fetched(folder, npm) / "node_modules"


def _folder(kind: str, names: tuple[str, ...]) -> Path:
    cache = Path(os.environ.get("ODEK_TEST_CACHE") or Path.home() / ".cache" / "odek-tests")
    return cache / f"{kind}-{hashlib.sha256(' '.join(names).encode()).hexdigest()[:12]}"


def _fetched(folder: Path, command: tuple[str, ...]) -> Path:
    """Return `folder`, made whole or not at all by `command`, in which {} stands for the place to fill."""
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    filling = folder.with_name(f"{folder.name}.{os.getpid()}")
    filled = [str(filling) if word == "{}" else word for word in command]
    try:
        done = subprocess.run(filled, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackagesMissing(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        shutil.rmtree(filling, ignore_errors=True)
        raise PackagesMissing(f"{' '.join(filled)}: {done.stderr[-500:]}")
    try:
        filling.rename(folder)
    except OSError:  # another test run was quicker
        shutil.rmtree(filling)
    return folder
