"""A local image with MCP servers of other people: Python and Node of this machine, and what they load.

/opt/legacy   the Python SDK of the legacy era, mcp-server-git, mcp-server-sqlite
/opt/modern   the Python SDK of both eras
/opt/node     @modelcontextprotocol/server-filesystem
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from support.docker_engine import Engine
from support.registry_packages import PackagesMissing, node_packages, python_packages

LEGACY = ("mcp==1.30.0", "mcp-server-git==2026.10.10", "mcp-server-sqlite==2025.4.25")
MODERN = ("mcp==2.3.0",)
NODE = ("@modelcontextprotocol/server-filesystem@{version}",)
NODE_VERSION = "2026.8.31"
PYTHON = "/usr/bin/python3"
_LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_LEFT_OUT = (
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "ensurepip",
    "lib2to3",
    "dist-packages",
    "turtledemo",
)
_RECIPE = "3"
"""part of the image's name: raise it when what is below makes another image"""


def import_mcp_image(engine: Engine, base_image: str) -> str:
    """Return the reference of an image like `base_image` with the servers; made if need be.

    Raises PackagesMissing when they cannot be had here.
    """
    node = tuple(name.format(version=NODE_VERSION) for name in NODE)
    named = " ".join((_RECIPE, base_image, *LEGACY, *MODERN, *node))
    reference = f"odek-test-mcp:{hashlib.sha256(named.encode()).hexdigest()[:12]}"
    if engine.run("image", "inspect", reference, check=False).returncode == 0:
        return reference
    version = _python_version()
    folders = {
        "opt/legacy": python_packages(*LEGACY, version=version),
        "opt/modern": python_packages(*MODERN, version=version),
        "opt/node/node_modules": node_packages(*node),
        f"usr/lib/python{version}": Path(f"/usr/lib/python{version}"),
    }
    for name in ("opt/legacy", "opt/modern"):  # they are imported at each start, by a user who cannot write there
        compiling = (PYTHON, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(folders[name]))
        subprocess.run(compiling, check=False, capture_output=True)
    programs = {name: shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") for name in ("node", "git")}
    missing = [name for name, path in programs.items() if path is None]
    if missing:
        raise PackagesMissing(f"not on PATH: {', '.join(missing)}")
    files = {f"usr/bin/{name}": Path(str(path)).resolve() for name, path in programs.items()}
    files["usr/bin/python3"] = Path(PYTHON).resolve()
    extensions = tuple(Path(f"/usr/lib/python{version}/lib-dynload").glob("*.so"))
    extensions = (*extensions, *(path for name in ("opt/legacy", "opt/modern") for path in folders[name].rglob("*.so")))
    files |= _libraries((*files.values(), *extensions))
    context = _context(base_image, files, folders)
    engine.run("build", "--network", "none", "--tag", reference, "-", stdin=context)
    return reference


def _python_version() -> str:
    if not Path(PYTHON).exists():
        raise PackagesMissing(f"no {PYTHON}")
    shown = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([PYTHON, "-Ic", shown], capture_output=True, text=True, check=True).stdout.strip()


def _libraries(programs: tuple[Path, ...]) -> dict[str, Path]:
    """Return every library that `programs` need: path in the image → file here."""
    found: dict[str, Path] = {}
    for program in programs:
        listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True).stdout
        for path in _LIBRARY.findall(listed):
            where = path[1:] if "/ld-linux" in path else f"lib/{Path(path).name}"
            found[where] = Path(path).resolve()
    return found


def _context(base_image: str, files: dict[str, Path], folders: dict[str, Path]) -> bytes:
    """Return a build context: files and folders, below their paths, and a Dockerfile that puts them on top."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        dockerfile = f"FROM {base_image}\nCOPY files/ /\n".encode()
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(dockerfile)
        archive.addfile(entry, io.BytesIO(dockerfile))
        for where, path in sorted(files.items()):
            entry = archive.gettarinfo(str(path), f"files/{where}")
            entry.mode = 0o755
            with path.open("rb") as file:
                archive.addfile(_rooted(entry), file)
        for where, folder in folders.items():
            archive.add(folder, f"files/{where}", filter=_kept)
    return buffer.getvalue()


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = os.path.basename(entry.name)
    in_library = entry.name.startswith("files/usr/lib/python")
    return None if in_library and name in _LEFT_OUT else _rooted(entry)


def _rooted(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, "", ""
    entry.mode |= 0o444 | (0o111 if entry.isdir() or entry.mode & 0o100 else 0)
    return entry
