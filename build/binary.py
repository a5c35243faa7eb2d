"""Build `dist/odek-<os>-<arch>`: odek with a Python of its own, as one file, by PyInstaller.

What PyInstaller needs is installed by hash (requirements.txt) into .cache/venv; what it does is said in
odek.spec and entry.py. Then the result is checked, and only a good one is put in place.

Two builds with the same Python and the same libraries of the system are equal byte for byte (R-91): the
hash seed is fixed; folder, time, umask and locale do not matter.

Starting, as a ratio to `python3 -I -S -c pass` (8.5 ms): `odek version` 3.6 (31 ms), of which most is writing
16 MB. With PyInstaller's runtime hooks, which odek.spec leaves out, it was 4.8.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import archive
import glibc
from artifact import DIST, ROOT, binary_name, write_executable

HERE = Path(__file__).resolve().parent
VENVS = ROOT / ".cache" / "venv"
LARGEST = 20_000_000  # bytes
GLIBC_LIMIT = (2, 36)
"""Debian 12; a release is built where it comes out lower"""
REQUIRED = ("encodings.idna", "odek.cli.main", "ssl")
CHECK_LIMIT_S = 120


class BuildError(Exception):
    """The build cannot go on; the text says why."""


def run(argv: list[str], *, env: dict[str, str], cwd: str, what: str) -> str:
    """Run to the end and return what was printed. Raises BuildError with its last lines."""
    done = subprocess.run(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).decode(errors="replace").splitlines()
        raise BuildError(f"{what} ended with {done.returncode}\n" + "\n".join(lines[-20:]))
    return done.stdout.decode(errors="replace")


def prepare_venv(folder: Path) -> Path:
    """Return the Python of a virtual environment with what requirements.txt asks for, made when it is not there."""
    requirements = (HERE / "requirements.txt").read_bytes()
    base = os.path.realpath(sys.executable)
    mark = hashlib.sha256(requirements + base.encode() + sys.version.encode()).hexdigest()[:12]
    venv = folder / f"binary-{mark}"
    python, done = venv / "bin" / "python", venv / "complete"
    if not done.exists():
        print(f"binary: making a virtual environment with PyInstaller ({venv})", file=sys.stderr)
        env = dict(os.environ)
        run([base, "-m", "venv", "--clear", str(venv)], env=env, cwd="/", what="venv")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        options = ["--require-hashes", "--only-binary", ":all:", "--requirement", str(HERE / "requirements.txt")]
        run([*pip, *options], env=env, cwd="/", what="pip install")
        done.touch()
    return python


def freeze(python: Path, scratch: str) -> bytes:
    """Return what PyInstaller makes."""
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": scratch,
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "ODEK_RELEASES": os.environ.get("ODEK_RELEASES", ""),
        "PYINSTALLER_CONFIG_DIR": f"{scratch}/config",  # no library that another build has stripped
    }
    argv = [str(python), "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"]
    folders = ["--distpath", f"{scratch}/dist", "--workpath", f"{scratch}/work", str(HERE / "odek.spec")]
    run([*argv, *folders], env=env, cwd=scratch, what="PyInstaller")
    return Path(scratch, "dist", "odek").read_bytes()


def check(content: bytes, limit: glibc.Version) -> list[str]:
    """Return what is wrong with the file."""
    members = archive.read_members(content)
    modules = {
        name for member in members if member.kind == archive.MODULES for name in archive.read_modules(member.content)
    }
    base = next((member.content for member in members if member.name == "base_library.zip"), b"")
    faults = [f"no module {name}" for name in REQUIRED if name not in modules and _path(name) not in base]
    faults += [f"{name} is in it, but excluded" for name in sorted(excluded() & modules)]
    faults += [f"{member.name} is not stored" for member in members if member.deflated]
    if len(content) > LARGEST:
        faults.append(f"{len(content)} bytes, more than {LARGEST}")
    for name, version in glibc.needed_by_parts(content).items():
        if version > limit:
            faults.append(f"{name or 'the bootloader'} needs glibc {version[0]}.{version[1]}")
    return faults


def excluded() -> set[str]:
    """Return the modules of excludes.txt."""
    lines = (HERE / "excludes.txt").read_text("utf-8").splitlines()
    return {name for line in lines if (name := line.split("#")[0].strip())}


def _path(module: str) -> bytes:
    return module.replace(".", "/").encode() + b".pyc"


def try_out(file: Path, scratch: str) -> None:
    """Let the file examine itself. Raises BuildError."""
    env = {"PATH": os.defpath, "HOME": scratch, "TMPDIR": scratch}
    run([str(file), "selftest"], env=env, cwd=scratch, what="odek selftest")


def build(limit: glibc.Version) -> bytes:
    """Return the checked binary. Raises BuildError."""
    python = prepare_venv(VENVS)
    with tempfile.TemporaryDirectory(prefix="odek-binary-") as scratch:
        content = freeze(python, scratch)
        faults = check(content, limit)
        if faults:
            raise BuildError("the result cannot be used:\n" + "\n".join(faults))
        file = Path(scratch, "odek")
        write_executable(file, content)
        try_out(file, scratch)
    return content


def main(argv: list[str]) -> int:
    """Build and say what came out: path, size, SHA-256, and the glibc that it needs."""
    parser = argparse.ArgumentParser(prog="binary", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--output", type=Path, default=DIST / binary_name(), help="default: in dist/")
    parser.add_argument(
        "--glibc", type=glibc.parse_version, default=GLIBC_LIMIT, metavar="VERSION", help="the newest it may need"
    )
    parser.add_argument("--prepare", action="store_true", help="only make the virtual environment")
    options = parser.parse_args(argv)
    try:
        if options.prepare:
            print(prepare_venv(VENVS))
            return 0
        content = build(options.glibc)
    except BuildError as error:
        print(f"binary: error: {error}", file=sys.stderr)
        return 1
    write_executable(options.output, content)
    floor = max(glibc.needed_by_parts(content).values())
    print(f"{options.output}  {len(content)} bytes  sha256 {hashlib.sha256(content).hexdigest()}")
    print(f"Python {platform.python_version()}; needs glibc {floor[0]}.{floor[1]}; zlib {zlib.ZLIB_RUNTIME_VERSION}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
