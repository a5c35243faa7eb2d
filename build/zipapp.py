"""Build `dist/odek`: the whole program as one executable file.

The file is a POSIX sh launcher (launcher.sh) followed by a zip archive:

    __main__.py, odek….py       what runs first: the files of boot/
    source.tar                  the sources and the data files: for tracebacks, for a Python that
                                nothing was compiled for, and for who wants to read them
    compiled/<magic number>     compiled code for one minor version of Python: what a start needs
    compiled/<magic number>.rest    all the rest of it, and the data files; what both are made of
                                stands in compile_package.py

Two builds from the same source with the same interpreters are equal byte for byte (R-91), whatever
the folder, umask, time zone or locale: names are sorted, metadata is fixed, and every interpreter
compiles in a clean environment with a fixed hash seed. Two things are deflated, by the zlib of the
interpreter at work: "the same interpreters" includes it. Its version is printed with the hash.

Why it is as it is: bytes, when odek had 29,800 lines (1.24 MB) and was compiled for four Pythons.

    everything stored                                             12,355,000
    everything deflated                                            4,020,000
    … methods of data classes found by a hash, not by their text   3,480,000
    … without docstrings, annotations of functions and columns     2,755,000
    the same for one Python instead of four (--python)               995,000
    the sources alone, compiled at each start                        371,000

One stream for a Python packs a fifth better than a stream for each module. Sorting bytecode, line
tables and strings into streams of their own would save another fifth, and put a decoder in front of
every import. 1.5 MB, the budget when odek was half as long, would mean to compile for two Pythons only;
the other two would start `odek run` some 300 ms later.

Starting, as a ratio to `python3 -I -S -c pass` (8.5 ms), deflated or not: `odek version` and `odek --help`
1.3 with a Python in /usr/bin; 1.7 where the launcher has to see where a folder of PATH really lies, as in
scripts/bench; from the sources alone, 3. Against `python3 -I -c pass` of a Debian: 1.0.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from artifact import DIST, ROOT, ZIP_NAME, write_executable

HERE = Path(__file__).resolve().parent
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
COMPILER_FLAGS = ("-B", "-S", "-X", "utf8", "-X", "no_debug_ranges")
DEFLATED = ("source.tar",)
"""members that are not deflated in themselves"""
LONGEST_NAME = 100  # of a file in the simplest form of a tar archive


class BuildError(Exception):
    """The build cannot go on; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What one interpreter made of the package."""

    magic: str
    """magic number of its compiled code, 8 hex digits"""
    version: str
    """major and minor, "3.11\""""
    start: bytes
    """the member that a start needs"""
    rest: bytes
    """the member that holds all the others"""


def find_package(folder: Path) -> dict[str, Path]:
    """Return name in the archive → path, for every file of the package `folder`/odek."""
    files = {}
    for path in (folder / "odek").rglob("*"):
        name = path.relative_to(folder).as_posix()
        parts = name.split("/")
        if path.is_file() and "__pycache__" not in parts and not any(part.startswith(".") for part in parts):
            files[name] = path
    if "odek/cli/main.py" not in files:
        raise BuildError(f"no odek/cli/main.py below {folder}")
    return files


def compile_package(python: str, files: Mapping[str, Path]) -> Compiled:
    """Compile `files` (name in the archive → path) with the interpreter `python`. Raises BuildError."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch, "compiled")
        try:
            done = subprocess.run(
                [python, *COMPILER_FLAGS, "-c", (HERE / "compile_package.py").read_text("utf-8"), str(target)],
                input="\n".join(f"{name} {path}" for name, path in sorted(files.items())).encode(),
                capture_output=True,
                # -I would ignore the hash seed, which orders the sets among the constants
                env={"PYTHONHASHSEED": "0", "LC_ALL": "C"},
                cwd=scratch,
                check=False,
            )
        except OSError as error:
            raise BuildError(f"{python}: {error.strerror}") from error
        if done.returncode != 0:
            raise BuildError(f"{python} cannot compile odek:\n{done.stderr.decode(errors='replace')}")
        magic, version, implementation = done.stdout.decode().split()
        if implementation != "cpython" or version not in VERSIONS:
            raise BuildError(f"{python} is {implementation} {version}; supported: {', '.join(VERSIONS)}")
        start, rest = split_members(target.read_bytes())
        return Compiled(magic=magic, version=version, start=start, rest=rest)


def split_members(written: bytes) -> Iterator[bytes]:
    """Yield what stands there, each after its length in 8 bytes."""
    while written:
        end = 8 + int.from_bytes(written[:8], "little")
        yield written[8:end]
        written = written[end:]


def find_pythons(path: str, home: str) -> Iterator[str]:
    """Yield the interpreters to compile with by default: this one, then those on PATH and below ~/.pyenv."""
    yield sys.executable
    names = [f"python{version}" for version in VERSIONS]
    for folder in path.split(os.pathsep):
        # a version manager's shim stands for whatever the current folder asks for
        if os.path.isabs(folder) and not folder.rstrip("/").endswith("/shims"):
            yield from (os.path.join(folder, name) for name in names if os.access(os.path.join(folder, name), os.X_OK))
    if home:
        yield from (
            str(python) for name in names for python in sorted(Path(home).glob(f".pyenv/versions/*/bin/{name}"))
        )


def compile_all(pythons: Iterable[str], files: Mapping[str, Path], *, strict: bool) -> list[Compiled]:
    """Compile once for each magic number; with `strict`, an interpreter that cannot is an error; else it is one
    when none can."""
    done: dict[str, Compiled] = {}
    failure = None
    seen: set[str] = set()
    for python in pythons:
        real = os.path.realpath(python)
        if real in seen:
            continue
        seen.add(real)
        try:
            compiled = compile_package(python, files)
        except BuildError as error:
            if strict:
                raise
            lines = str(error).splitlines()
            print("zipapp: left out:", *dict.fromkeys((lines[0], lines[-1])), file=sys.stderr)
            failure = error
            continue
        done.setdefault(compiled.magic, compiled)
    if failure and not done:
        raise failure
    return sorted(done.values(), key=lambda compiled: compiled.magic)


def zip_archive(members: Mapping[str, bytes], *, prefix: bytes) -> bytes:
    """Return `prefix` and, after it, a zip archive of `members`, sorted by name."""
    out = bytearray(prefix)
    directory = bytearray()
    for name, content in sorted(members.items()):
        stored = deflate(content) if name in DEFLATED else content
        # time 0, date 1980-01-01; sizes and offsets below 4 GiB: no zip64
        method, sizes = 8 if name in DEFLATED else 0, (len(stored), len(content))
        common = struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 0x21, zlib.crc32(content), *sizes, len(name), 0)
        # made by: version 2.0 on Unix, for the mode 0644 of a regular file
        directory += b"PK\x01\x02" + struct.pack("<H", 3 << 8 | 20) + common
        directory += struct.pack("<HHHII", 0, 0, 0, 0o100644 << 16, len(out)) + name.encode("ascii")
        out += b"PK\x03\x04" + common + name.encode("ascii") + stored
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(out), 0)
    return bytes(out + directory + b"PK\x05\x06" + end)


def deflate(content: bytes) -> bytes:
    """Return `content` as a raw deflate stream."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    return compressor.compress(content) + compressor.flush()


def tar_archive(files: Mapping[str, Path]) -> bytes:
    """Return a tar archive of `files` (name in the archive → path), sorted by name, all metadata fixed."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, path in sorted(files.items()):
            if len(name) > LONGEST_NAME:
                raise BuildError(f"a name of more than {LONGEST_NAME} characters: {name}")
            content = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def build(source: Path, pythons: Iterable[str], *, strict: bool) -> tuple[bytes, list[Compiled]]:
    """Return the one-file odek made from the package below `source`, and what was compiled into it."""
    package = find_package(source)
    boot = {path.name: path for path in (HERE / "boot").glob("*.py")}
    compiled = compile_all(pythons, {**package, "odekload.py": boot["odekload.py"]}, strict=strict)
    members = {name: path.read_bytes() for name, path in boot.items()}
    members["source.tar"] = tar_archive(package)
    members.update({f"compiled/{tree.magic}": tree.start for tree in compiled})
    members.update({f"compiled/{tree.magic}.rest": tree.rest for tree in compiled})
    return zip_archive(members, prefix=(HERE / "launcher.sh").read_bytes()), compiled


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Return the options of this program."""
    parser = argparse.ArgumentParser(prog="zipapp", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--output", type=Path, default=DIST / ZIP_NAME, help="default: dist/odek")
    parser.add_argument("--source", type=Path, default=ROOT, help="folder that holds the package odek")
    parser.add_argument(
        "--python",
        action="append",
        metavar="FILE",
        help="compile for this interpreter; may be repeated; default: this one, and those on PATH and in ~/.pyenv",
    )
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Build and say what came out: path, size, SHA-256, and the Pythons it holds compiled code for."""
    options = parse_arguments(argv)
    found = find_pythons(os.environ.get("PATH", ""), os.environ.get("HOME", ""))
    pythons = options.python or found
    try:
        content, compiled = build(options.source, pythons, strict=bool(options.python))
    except BuildError as error:
        print(f"zipapp: error: {error}", file=sys.stderr)
        return 1
    write_executable(options.output, content)
    digest = hashlib.sha256(content).hexdigest()
    print(f"{options.output}  {len(content)} bytes  sha256 {digest}")
    versions = sorted({tree.version for tree in compiled}, key=VERSIONS.index)
    print(f"compiled for Python {' '.join(versions)}; zlib {zlib.ZLIB_RUNTIME_VERSION}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
