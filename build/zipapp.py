"""Build `dist/odek`: the whole program as one executable file.

The file is a POSIX sh launcher (launcher.sh) followed by a zip archive:

    __main__.py, odek….py           what runs first: the files of boot/
    compiled/<magic number>         for one minor version of Python: compiled code of what every start needs
    compiled/<magic number>.base    … of what every command needs that reads settings, and `odek mcp` until it answers,
    compiled/<magic number>.run     … of what else `odek run` needs until its first request: a line with magic number
                                    and size, then LZMA,
    compiled/later                  … and for a sandbox and its commands, for all Pythons, the most usual first: a line
                                    with magic number and size of each, then one LZMA stream, which is read while odek
                                    waits and may take 20 ms more. These three are without their beginnings,
    compiled/texts.base             which are the same for all: texts in the code of `base`,
    compiled/texts                  and, after these, further texts for the others (compile_package.py)
    data.gz                         the data files that `odek run` reads
    source.gz                       other data files, and sources without comments, docstrings and types, line for line,
                                    indented by one: of what is not compiled, or for every start
    source.lzma                     the same of what `base`, `run` and `later` hold: for a start with ODEK_DEBUG, for a
                                    Python that is not listed. All three begin with a line for each file, "NAME SIZE",
                                    and an empty line

Two builds from the same source with the same interpreters are equal byte for byte (R-91), whatever
the folder, umask, time zone or locale: names are sorted, metadata is fixed, and every interpreter
compiles in a clean environment with a fixed hash seed. All but the rest of boot/ is deflated, by the zlib of the
interpreter at work: "the same interpreters" includes it. Its version is printed with the hash.

Why it is as it is: bytes, when odek had 31,800 lines of 1.31 MB. The limit is LARGEST: no start on a supported
Python compiles what `odek run` needs (D-27).

    all modules compiled for four Pythons, a stream for each                    2,937,000
    … without tables of lines, annotations and qualified names                  2,480,000
    … only what `odek run` imports                                              1,960,000
    … the texts in the code kept once for all                                   1,616,000
    the sources alone, compiled at each start                                     390,000

With 57,000 lines, for these four, LZMA for what `odek run` needs saved 450,000 bytes (before the first request it takes
4 ms more) and one stream of what it needs last for all 170,000, sources without comments, docstrings and types 200,000,
local variables without names 40,000, data files kept once and sources indented by one 48,000, data classes whose
methods are shared (write_classes.py) 197,000. A fifth Python adds 300,000. With 66,000 lines for five,
24,000 were saved by leaving out what types alone ask for (type_hints.py), 17,000 by texts in the order of their use,
17,000 by doing without tar. With 70,000 lines, 65,000 by LZMA for the sources of what is compiled, which also took
10 ms from every command that reads others; the sources of what is not would save another 43,000 and cost it 12 ms.

Starting, as a ratio to `python3 -I -S -c pass` (8.5 ms): `odek version` and `odek --help` 1.3, whichever Python of
PATH it is; from the sources alone, 3. `odek mcp` until it has answered `initialize` 2.9,
of which the standard library takes 0.5 and odek's own modules 0.7.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from artifact import BUILT, DIST, ROOT, ZIP_NAME, built, write_executable
from strip_source import strip_source

HERE = Path(__file__).resolve().parent
BOOT = HERE / "boot"
LOADER = "odekload.py"
SLOW = "odekslow.py"
LITE = "odeklite.py"  # for compiled code alone
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# of Debian 12, Ubuntu 24.04 and Debian 13 first: each waits for those before it, 6 ms each
FIRST_OF_LATER = ("3.11", "3.12", "3.13", "3.14", "3.10")
LARGEST = 2_500_000  # bytes
COMPILER_FLAGS = ("-B", "-S", "-X", "utf8", "-X", "no_debug_ranges")
GZIP = 31  # a form of zlib: without time and name
OF_OTHER_COMMANDS = ("odek/web/", "odek/bundle/", "odek/sandbox/probes.sh", BUILT)
"""data files that `odek run` does not read"""
LZMA = [  # odekload.py knows the size
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 22, "lc": 4, "lp": 0, "pb": 0}
]
LZMA_OF_SOURCES = [{**LZMA[0], "id": lzma.FILTER_LZMA1}]  # odekslow.py knows lc, lp and pb


class BuildError(Exception):
    """The build cannot go on; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What one interpreter made of the package."""

    magic: str
    """magic number of its compiled code, 8 hex digits"""
    version: str
    """major and minor, "3.11\""""
    texts: bytes
    """the texts in it, marshalled: what another interpreter is given to share"""
    start: bytes
    """what `odek version` needs, marshalled"""
    base: bytes
    """what every command needs that reads settings, marshalled; nothing when it is to come from the sources"""
    run: bytes = b""
    """what else `odek run` needs until its first request"""
    later: bytes = b""
    """what else it needs"""
    names: frozenset[str] = frozenset()
    """names in the archive of the modules in these three"""


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


def compile_package(python: str, files: Mapping[str, Path], texts: bytes = b"") -> Compiled:
    """Compile the package `files` (name in the archive → path) with the interpreter `python`. Raises BuildError.

    With `texts`, what comes out for `odek run` begins with the same bytes for every interpreter.
    """
    with tempfile.TemporaryDirectory() as scratch:
        target, shared = Path(scratch, "compiled"), Path(scratch, "texts")
        shared.write_bytes(texts)
        files = {**files, **{name: BOOT / name for name in (LOADER, LITE)}}
        try:
            done = subprocess.run(
                [python, *COMPILER_FLAGS, str(HERE / "compile_package.py"), str(target)]
                + ([str(shared)] if texts else []),
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
        own, start, base, run, later, names = split_parts(target.read_bytes())
        return Compiled(
            magic=magic,
            version=version,
            texts=own,
            start=start,
            base=base,
            run=run,
            later=later,
            names=frozenset(names.decode().split()),
        )


def split_parts(written: bytes) -> Iterator[bytes]:
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
    able: dict[str, tuple[str, Compiled]] = {}
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
        able.setdefault(compiled.magic, (python, compiled))
    if failure and not able:
        raise failure
    # the texts of one of them, always the same one, serve all
    shared = able[max(able)][1].texts if able else b""
    return [compile_package(python, files, shared) for _, (python, _) in sorted(able.items())]


def compiled_members(compiled: Sequence[Compiled], *, portable: bool = False) -> dict[str, bytes]:
    """Return the members that hold compiled code; what all the parts for `odek run` begin with stands in one."""
    members = {f"compiled/{one.magic}": deflate(one.start) for one in compiled}
    bases = {one.magic: one.base for one in compiled if one.base}
    runs = {one.magic: one.run for one in compiled if one.run}
    laters = {one.magic: one.later for one in sorted(compiled, key=wait_of) if one.later}
    if not bases:
        return members
    of_all = os.path.commonprefix([*bases.values(), *runs.values(), *laters.values()])  # noqa: RUF071 – bytes, not paths
    of_others = os.path.commonprefix([*runs.values(), *laters.values()])  # noqa: RUF071
    members["compiled/texts.base"] = deflate(of_all)
    members["compiled/texts"] = deflate(of_others[len(of_all) :])
    members.update({f"compiled/{magic}.base": deflate(part[len(of_all) :]) for magic, part in bases.items()})
    own_run = {magic: {magic: part[len(of_others) :]} for magic, part in runs.items()}
    members.update({f"compiled/{magic}.run": chain(part, portable=portable) for magic, part in own_run.items()})
    members["compiled/later"] = chain(
        {magic: part[len(of_others) :] for magic, part in laters.items()}, portable=portable
    )
    return members


def wait_of(compiled: Compiled) -> int:
    """Return how many parts of `later` come before this one."""
    return FIRST_OF_LATER.index(compiled.version)


def in_order(compiled: Iterable[Compiled]) -> list[Compiled]:
    """Return them sorted by version, the oldest first."""
    return sorted(compiled, key=lambda one: [int(part) for part in one.version.split(".")])


def chain(parts: Mapping[str, bytes], *, portable: bool = False) -> bytes:
    """Return the parts (magic number → content) in one stream: what one shares with the one before it costs little.

    The Python of a portable binary has no LZMA: there, after an empty line, the one part is deflated.
    """
    if portable:
        return b"\n" + deflate(*parts.values())
    index = " ".join(f"{magic} {len(part)}" for magic, part in parts.items()).encode() + b"\n"
    return index + lzma.compress(b"".join(parts.values()), lzma.FORMAT_RAW, filters=LZMA)


def zip_archive(members: Mapping[str, bytes], *, prefix: bytes) -> bytes:
    """Return `prefix` and, after it, a zip archive of `members`, sorted by name, stored."""
    out = bytearray(prefix)
    directory = bytearray()
    for name, content in sorted(members.items()):
        # time 0, date 1980-01-01; sizes and offsets below 4 GiB: no zip64
        sizes = (len(content), len(content))
        common = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 0x21, zlib.crc32(content), *sizes, len(name), 0)
        # made by: version 2.0 on Unix, for the mode 0644 of a regular file
        directory += b"PK\x01\x02" + struct.pack("<H", 3 << 8 | 20) + common
        directory += struct.pack("<HHHII", 0, 0, 0, 0o100644 << 16, len(out)) + name.encode("ascii")
        out += b"PK\x03\x04" + common + name.encode("ascii") + content
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(out), 0)
    return bytes(out + directory + b"PK\x05\x06" + end)


def deflate(content: bytes, form: int = -15) -> bytes:
    """Return `content` as a raw deflate stream, or in another form of those that zlib knows."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, form, 9)
    return compressor.compress(content) + compressor.flush()


def source_members(package: Mapping[str, Path | bytes], *, late: Collection[str] = ()) -> dict[str, bytes]:
    """Return the members that hold the package's files (name in the archive → path, or content).

    `late` are the modules whose sources hardly any start reads.
    """
    data = {name for name in package if not name.endswith(".py") and not name.startswith(OF_OTHER_COMMANDS)}
    parts = {"data.gz": data, "source.gz": package.keys() - data - set(late), "source.lzma": late}
    joined = {part: join({name: package[name] for name in names}) for part, names in parts.items()}
    return {
        part: deflate(content, GZIP)
        if part.endswith(".gz")
        else lzma.compress(content, lzma.FORMAT_ALONE, filters=LZMA_OF_SOURCES)
        for part, content in joined.items()
        if parts[part] or part != "source.lzma"
    }


def by_kind(item: tuple[str, object]) -> tuple[str, str]:
    """Return what a file is sorted by: its kind, for what is alike is deflated better side by side, then its name."""
    return item[0].rpartition(".")[2], item[0]


def join(files: Mapping[str, Path | bytes]) -> bytes:
    """Return `files` (name in the archive → path, or content) behind their names and sizes, modules stripped.

    The headers of a tar archive would take 17,000 bytes of the whole.
    """
    contents = {name: stripped(name, file) for name, file in sorted(files.items(), key=by_kind)}
    index = "".join(f"{name} {len(content)}\n" for name, content in contents.items())
    return b"".join((index.encode("ascii"), b"\n", *contents.values()))


def stripped(name: str, file: Path | bytes) -> bytes:
    """Return what the archive holds of a file. Raises BuildError."""
    content = file if isinstance(file, bytes) else file.read_bytes()
    if not name.endswith(".py"):
        return content
    try:
        return strip_source(content.decode()).encode()
    except ValueError as error:
        raise BuildError(f"{name}: {error}") from error


def build(
    source: Path,
    pythons: Iterable[str],
    *,
    strict: bool,
    name: str = ZIP_NAME,
    program: bytes = b"",
    more: Mapping[str, bytes] | None = None,
) -> tuple[bytes, list[Compiled]]:
    """Return the one-file odek made from the package below `source`, and what was compiled into it.

    `name` is what a release calls the file. `program` is an executable that takes the place of the launcher: a Python
    that finds odek behind itself (portable.py); `more` are further members.
    """
    package = find_package(source)
    compiled = compile_all(pythons, package, strict=strict)
    boot = {path.name: strip_source(path.read_text("utf-8")).encode() for path in BOOT.glob("*.py")}
    members = {name: content for name, content in boot.items() if name != LITE}
    members.update({name: deflate(members[name]) for name in (LOADER, SLOW)})
    # in a portable binary, whose Python has no LZMA, sources are deflated
    late = frozenset(package) if compiled and not program else frozenset()
    late = late.intersection(*(one.names for one in compiled))
    if not late:
        del members[SLOW]
    members.update(
        source_members({**package, BUILT: built(name)}, late=late)
        | compiled_members(compiled, portable=bool(program))
        | dict(more or {})
    )
    return zip_archive(members, prefix=program or (HERE / "launcher.sh").read_bytes()), compiled


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
    if len(content) > LARGEST:
        print(f"zipapp: warning: more than {LARGEST} bytes; its docstring says what could go", file=sys.stderr)
    digest = hashlib.sha256(content).hexdigest()
    print(f"{options.output}  {len(content)} bytes  sha256 {digest}")
    print(
        f"compiled for Python {', '.join(one.version for one in in_order(compiled))}; zlib {zlib.ZLIB_RUNTIME_VERSION}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
