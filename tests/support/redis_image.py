"""A local image with a real redis server and client, made from Debian's packages without a registry."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from support.debian_packages import unpack
from support.docker_engine import Engine

PACKAGE = "redis-server"
# what Debian calls the server in its package of tools; redis-server itself is a link to it
PROGRAMS = {"redis-server": "redis-check-rdb", "redis-cli": "redis-cli"}
_LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_RECIPE = "1"
"""part of the image's name: raise it when what is below makes another image"""


def import_redis_image(engine: Engine, base_image: str) -> str:
    """Return the reference of an image like `base_image` with redis-server and redis-cli; made if need be.

    Raises RuntimeError when redis cannot be had here.
    """
    reference = f"odek-test-redis:{hashlib.sha256(f'{_RECIPE} {base_image}'.encode()).hexdigest()[:12]}"
    if engine.run("image", "inspect", reference, check=False).returncode == 0:
        return reference
    with tempfile.TemporaryDirectory(prefix="odek-test-redis-") as folder:
        files = _collect(Path(folder))
        context = _context(base_image, files)
    engine.run("build", "--network", "none", "--tag", reference, "-", stdin=context)
    return reference


def _collect(folder: Path) -> dict[str, Path]:
    """Return the programs and every library that they need: path in the image → file here."""
    programs = {name: Path(path) for name in PROGRAMS if (path := shutil.which(name))}
    libraries: list[str] = []
    if len(programs) < len(PROGRAMS):
        root = unpack(folder, PACKAGE, "redis-tools")
        programs = {name: root / "usr" / "bin" / file for name, file in PROGRAMS.items()}
        libraries = [str(path) for path in root.rglob("*-linux-gnu*") if path.is_dir()]
    found = {f"usr/bin/{name}": path.resolve() for name, path in programs.items()}
    for program in programs.values():
        env = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": ":".join(libraries)}
        listed = subprocess.run(["ldd", str(program)], env=env, capture_output=True, text=True, check=True).stdout
        if "not found" in listed:
            raise RuntimeError(f"libraries of {program.name} are missing: {listed}")
        for path in _LIBRARY.findall(listed):
            # the loader is asked for by its path, the rest is looked for in /lib
            where = path[1:] if "/ld-linux" in path else f"lib/{Path(path).name}"
            found[where] = Path(path).resolve()
    return found


def _context(base_image: str, files: dict[str, Path]) -> bytes:
    """Return a build context: the files, below their paths, and a Dockerfile that puts them on top."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        dockerfile = f"FROM {base_image}\nCOPY files/ /\n".encode()
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(dockerfile)
        archive.addfile(entry, io.BytesIO(dockerfile))
        for where, path in sorted(files.items()):
            entry = archive.gettarinfo(str(path), f"files/{where}")
            entry.mode, entry.uid, entry.gid, entry.uname, entry.gname = 0o755, 0, 0, "", ""
            with path.open("rb") as file:
                archive.addfile(entry, file)
    return buffer.getvalue()
