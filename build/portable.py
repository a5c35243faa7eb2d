"""Build `dist/odek-<os>-<arch>-<libc>`: odek with a Python inside that needs nothing of the host, as one file.

    scripts/build --portable gnu      for every Linux with glibc 2.28 or newer (Debian 10, Ubuntu 20.04, RHEL 8)
    scripts/build --portable musl     linked statically: for Alpine, and for a root with nothing else in it

Both come from this one recipe: Python, OpenSSL, zlib and libedit are compiled from their own sources (workshop.py),
with every C module and the standard library built in (portable/); odek's zip stands at the end of the executable
(zipapp.py). Unlike PyInstaller's binary (binary.py) it is one process and unpacks nothing: it needs no temporary
folder, leaves none behind, and lets the kernel and the loader say what a host lacks.

What is downloaded and compiled is kept in ~/.cache/odek-portable ($XDG_CACHE_HOME). The first build of a target takes
four minutes of one core, the following ones ten seconds. Two builds are equal byte for byte (R-314).

--arch aarch64 compiles for another processor (R-392), after the same for this one, whose Python takes part. It is
tried out where qemu-user is (scripts/emulated).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import zipapp
import zlib
from pathlib import Path

import glibc
from archive import LICENCES, PARTS
from artifact import DIST, ROOT, binary_name, write_executable
from binary import LARGEST, BuildError, run, try_out
from workshop import (
    MACHINES,
    OWN,
    SOURCES,
    TARGETS,
    ZIG,
    Workshop,
    cache_folder,
    compile_all,
    digests,
    has_compiler,
    locked,
    missing,
    open_workshop,
    sha256,
)

GLIBC_LIMIT = (2, 28)
OF_GLIBC = frozenset(("libc", "libm", "libpthread", "libdl", "librt", "libutil", "ld-linux-x86-64", "ld-linux-aarch64"))
ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
NOT_CACHED = 75


def link(shop: Workshop, root: Path) -> bytes:
    """Return the executable with the modules of the standard library that odek below `root` needs."""
    source = shop.folder / "python"
    frozen = shop.folder / "frozen"
    frozen.mkdir(exist_ok=True)
    shop.run(shop.python, "-B", "-S", "-X", "utf8", OWN / "freeze.py", root, frozen, cwd=source)
    made = [OWN / "main.c", OWN / "link.mk", *sorted(frozen.glob("frozen.*"))]
    key = sha256(b"\0".join((digests(shop)["python"].encode(), *(path.read_bytes() for path in made))))[:12]
    program = shop.folder / f"program-{key}"
    if not program.exists():
        print(f"portable: linking for {shop.target}", file=sys.stderr)
        for old in shop.folder.glob("program-*"):
            old.unlink()
        words = [f"OWN={OWN}", f"FROZEN={frozen}", f"PROGRAM={program}.new"]
        shop.run("make", "-f", "Makefile", "-f", OWN / "link.mk", *words, "odek-program", cwd=source)
        os.replace(f"{program}.new", program)
    return program.read_bytes()


def check(content: bytes, kind: str, machine: str = "") -> list[str]:
    """Return what is wrong with the file; `machine` is the processor that it is for, "" for any."""
    faults = []
    number = int.from_bytes(content[0x12:0x14], "little")
    if machine and number != ELF_MACHINES[machine]:
        faults.append(f"it is for another processor (ELF machine {number}) than {machine}")
    if len(content) > LARGEST:
        faults.append(f"{len(content)} bytes, more than {LARGEST}")
    wanted = glibc.libraries(content)
    if kind == "musl" and (wanted or glibc.interpreter(content)):
        faults.append(f"not static: it needs {', '.join(wanted) or glibc.interpreter(content)}")
    strange = [name for name in wanted if name.partition(".so")[0] not in OF_GLIBC]
    if strange:
        faults.append(f"it needs {', '.join(strange)} of the host")
    version = glibc.needed(content)
    if version > GLIBC_LIMIT:
        faults.append(f"it needs glibc {version[0]}.{version[1]}")
    return faults


def parts(shop: Workshop) -> dict[str, bytes]:
    """Return the members that say what is in the executable."""
    versions = {name: one.file.partition("_")[2].partition(".orig")[0] for name, one in SOURCES.items()}
    versions["zlib"] = versions["zlib"].partition("really")[2]
    if shop.static:
        versions["musl"] = f"of zig {ZIG}"
    frozen = shop.folder / "frozen"
    modules = dict(line.split() for line in (frozen / "frozen.txt").read_text().splitlines())
    line = "=" * 78
    texts = [
        f"{line}\n{name} {version}\n{line}\n\n{(shop.folder / 'licences' / name).read_text('utf-8').strip()}\n"
        for name, version in versions.items()
    ]
    return {
        PARTS: json.dumps({"libraries": versions, "modules": modules}, indent=1, sort_keys=True).encode(),
        LICENCES: "\n".join(texts).encode(),
    }


def is_ready(cache: Path, kind: str, machine: str) -> bool:
    """Return whether a build would download and compile nothing."""
    if not has_compiler(cache):
        return False
    shop = open_workshop(cache, kind, machine)
    return not missing(shop) and not (shop.native and missing(shop.native))


def file_name(kind: str, machine: str) -> str:
    """Return what the file is called in a release."""
    return f"{binary_name(machine)}-{kind}"


def try_for(file: Path, machine: str, scratch: str) -> None:
    """Let the file examine itself, in an emulator where it is for another processor and there is one. Raises
    BuildError."""
    if machine == platform.machine():
        try_out(file, scratch)
        return
    env = {"PATH": os.defpath, "HOME": scratch, "TMPDIR": scratch}
    emulated = [str(ROOT / "scripts" / "emulated"), machine]
    libraries = Path(os.environ.get("QEMU_LD_PREFIX") or f"/usr/{machine}-linux-gnu")
    env["QEMU_LD_PREFIX"] = str(libraries)
    try:
        run([*emulated, "true"], env=env, cwd=scratch, what="emulated")
        if glibc.interpreter(file.read_bytes()) and not libraries.is_dir():
            raise BuildError(f"no {libraries}")
    except BuildError as error:
        print(f"portable: not tried out, for nothing here runs it: {error}", file=sys.stderr)
        return
    run([*emulated, str(file), "selftest"], env=env, cwd=scratch, what="odek selftest")


def build(kind: str, cache: Path, machine: str, root: Path = ROOT) -> bytes:
    """Return the checked file. Raises BuildError."""
    shop = open_workshop(cache, kind, machine)
    compile_all(shop)
    program = link(shop, root)
    name = file_name(kind, machine)
    content, _ = zipapp.build(root, [str(shop.python)], strict=True, name=name, program=program, more=parts(shop))
    faults = check(content, kind, machine)
    if faults:
        raise BuildError("the result cannot be used:\n" + "\n".join(faults))
    with tempfile.TemporaryDirectory(prefix="odek-portable-") as scratch:
        file = Path(scratch, "odek")
        write_executable(file, content)
        try_for(file, machine, scratch)
    return content


def main(argv: list[str]) -> int:
    """Build and say what came out: path, size, SHA-256, and what it needs."""
    parser = argparse.ArgumentParser(prog="portable", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("kind", choices=sorted(TARGETS))
    parser.add_argument("--arch", choices=MACHINES, default=platform.machine(), help="default: this machine's")
    parser.add_argument("--output", type=Path, help="default: in dist/")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="default: ~/.cache/odek-portable")
    parser.add_argument("--cached", action="store_true", help="end with 75 when something would have to be compiled")
    options = parser.parse_args(argv)
    output = options.output or DIST / file_name(options.kind, options.arch)
    try:
        with locked(options.cache):
            if options.cached and not is_ready(options.cache, options.kind, options.arch):
                return NOT_CACHED
            content = build(options.kind, options.cache, options.arch)
    except (BuildError, zipapp.BuildError) as error:
        print(f"portable: error: {error}", file=sys.stderr)
        return 1
    write_executable(output, content)
    version = glibc.needed(content)
    needs = f"needs glibc {version[0]}.{version[1]}" if version > (0, 0) else "needs no library"
    print(f"{output}  {len(content)} bytes  sha256 {sha256(content)}")
    print(f"Python {SOURCES['python'].version}; {needs}; zlib {zlib.ZLIB_RUNTIME_VERSION}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
