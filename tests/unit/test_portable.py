"""The recipe of the portable binary (build/portable.py), without compiling it: what it refuses, freezes, remembers."""

from __future__ import annotations

import ast
import hashlib
import json
import marshal
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.load_module import BUILD, ROOT, load_recipe

DYNAMIC, STRINGS, NEEDED_VERSIONS = 6, 3, 0x6FFFFFFE
INTERPRETER = 3  # type of a segment


@pytest.fixture(scope="module")
def portable() -> ModuleType:
    return load_recipe("portable")


@pytest.fixture(scope="module")
def freeze() -> ModuleType:
    sys.path.insert(0, str(BUILD / "portable"))
    try:
        import freeze
    finally:
        sys.path.remove(str(BUILD / "portable"))
    return freeze


def write_elf(*libraries: str, glibc: str = "", interpreter: str = "") -> bytes:
    """Return an ELF file with the parts that name what it needs."""
    strings = b"\0"
    dynamic = b""
    for library in libraries:
        dynamic += struct.pack("<QQ", 1, len(strings))
        strings += library.encode() + b"\0"
    versions = b""
    if glibc:
        versions = struct.pack("<HHIII", 1, 1, 0, 16, 0) + struct.pack("<IHHII", 0, 0, 0, len(strings), 0)
        strings += f"GLIBC_{glibc}".encode() + b"\0"
    header, body = bytearray(64), b""
    table = bytes(64)
    for kind, content, link, info in (
        (STRINGS, strings, 0, 0),
        (DYNAMIC, dynamic, 1, 0),
        (NEEDED_VERSIONS, versions, 1, 1 if versions else 0),
    ):
        table += struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, 64 + len(body), len(content), link, info, 1, 0)
        body += content
    segments = b""
    if interpreter:
        segments = struct.pack("<IIQQQQQQ", INTERPRETER, 0, 64 + len(body), 0, 0, len(interpreter) + 1, 0, 1)
        body += interpreter.encode() + b"\0"
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", header, 0x20, 64 + len(body))
    struct.pack_into("<HH", header, 0x36, 56, 1 if segments else 0)
    body += segments
    struct.pack_into("<Q", header, 0x28, 64 + len(body))
    struct.pack_into("<HH", header, 0x3A, 64, len(table) // 64)
    return bytes(header) + body + table


LOADER = "/lib64/ld-linux-x86-64.so.2"


@pytest.mark.parametrize(
    ("kind", "content", "faults"),
    [
        ("musl", write_elf(), []),
        ("musl", write_elf("libc.so"), ["not static: it needs libc.so"]),
        ("musl", write_elf(interpreter="/lib/ld-musl-x86_64.so.1"), ["not static: it needs /lib/ld-musl-x86_64.so.1"]),
        ("gnu", write_elf("libc.so.6", "libm.so.6", glibc="2.28", interpreter=LOADER), []),
        ("gnu", write_elf("libc.so.6", glibc="2.29", interpreter=LOADER), ["it needs glibc 2.29"]),
        ("gnu", write_elf("libc.so.6", glibc="2.9", interpreter=LOADER), []),
        ("gnu", write_elf("libc.so.6", "libz.so.1", interpreter=LOADER), ["it needs libz.so.1 of the host"]),
        ("gnu", write_elf("libedit.so.2", interpreter=LOADER), ["it needs libedit.so.2 of the host"]),
        ("gnu", write_elf("libreadline.so.8", interpreter=LOADER), ["it needs libreadline.so.8 of the host"]),
        ("musl", write_elf() + bytes(20_000_000), ["20000313 bytes, more than 20000000"]),
    ],
)
def test_a_file_that_needs_more_of_the_host_is_refused(
    kind: str, content: bytes, faults: list[str], portable: ModuleType
) -> None:
    """R-310, D1: glibc 2.28 and no other library, or nothing at all; at most 20 MB."""
    found = portable.check(content, kind)
    assert [fault.partition(" bytes")[2] or fault for fault in found] == [
        fault.partition(" bytes")[2] or fault for fault in faults
    ]


def test_libraries_and_loader_are_read_as_the_system_does() -> None:
    glibc = load_recipe("glibc")
    python = Path(os.path.realpath("/bin/sh")).read_bytes()
    shown = shutil.which("readelf")
    if not shown:
        pytest.skip("no readelf here")
    text = subprocess.run([shown, "-dlW", "/bin/sh"], capture_output=True, text=True, check=True).stdout
    assert all(f"[{name}]" in text for name in glibc.libraries(python))
    assert text.count("(NEEDED)") == len(glibc.libraries(python))
    assert f"interpreter: {glibc.interpreter(python)}]" in text


# --- the standard library


def test_what_odek_needs_of_the_standard_library_is_frozen(freeze: ModuleType, tmp_path: Path) -> None:
    """R-310: a small package stands for odek; what it imports, in functions too, is there, what is excluded is not."""
    (tmp_path / "build" / "boot").mkdir(parents=True)
    (tmp_path / "build" / "excludes.txt").write_text("doctest  # difflib tests itself with it\nasyncio\n")
    for name in ("odekboot", "odeklite", "odekload"):
        (tmp_path / "build" / "boot" / f"{name}.py").write_text("import sys\n")
    (tmp_path / "odek").mkdir()
    (tmp_path / "odek" / "__init__.py").write_text("")
    (tmp_path / "odek" / "work.py").write_text("import difflib\ndef late():\n    import shlex\n    import asyncio\n")
    library = Path(os.__file__).parent
    found = freeze.find_modules(tmp_path, library)
    assert {"difflib", "shlex", "encodings.idna", "encodings.utf_8", "_strptime"} <= set(found)
    assert {"doctest", "asyncio", "encodings.gb18030", "encodings.mbcs"} & set(found) == set()
    assert not any(name.startswith(("odek", "site-packages")) for name in found)
    assert all(path.is_relative_to(library) for path in found.values())


def imports_of(folder: Path) -> set[str]:
    """Return the modules that the sources in a folder import anywhere, but those for types alone."""
    found = set()
    for path in folder.rglob("*.py"):
        nodes: list[ast.AST] = [ast.parse(path.read_bytes())]
        while nodes:
            node = nodes.pop()
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                nodes += node.orelse
                continue
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            nodes += ast.iter_child_nodes(node)
    return found


@pytest.mark.once
def test_all_that_odek_imports_of_the_standard_library_is_in_the_binary(freeze: ModuleType) -> None:
    """R-351: frozen, or a C module that is built."""
    library = Path(os.__file__).parent
    frozen = freeze.find_modules(ROOT, library)
    missing = {
        name
        for name in imports_of(ROOT / "odek")
        if (
            (library / f"{name.replace('.', '/')}.py").is_file()
            or (library / name.replace(".", "/") / "__init__.py").is_file()
        )
        and name not in frozen
    }
    assert missing == set()
    assert {"json", "ssl", "http.client", "urllib.request"} & set(frozen)
    without = set(load_recipe("workshop").WITHOUT_IN_PYTHON)
    needed = imports_of(ROOT / "odek").union(*({name} for name in freeze.HIDDEN))
    assert needed & without == set()


def test_everything_that_is_compiled_is_pinned() -> None:
    """R-314: a version that the file's name has too, and a digest."""
    workshop = load_recipe("workshop")
    for one in workshop.SOURCES.values():
        upstream = one.version.rpartition(":")[2].rpartition("-")[0]
        assert one.file.startswith(f"{one.package}_{upstream}.orig.tar.")
        assert re.fullmatch("[0-9a-f]{64}", one.sha256)
    assert workshop.SOURCES.keys() == workshop.STAGES.keys() == workshop.LICENCES.keys()
    assert {"x86_64", "aarch64"} == set(workshop.ZIG_SHA256)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in workshop.ZIG_SHA256.values())


@pytest.mark.parametrize(
    ("machine", "kind", "target", "openssl", "name"),
    [
        ("x86_64", "gnu", "x86_64-linux-gnu.2.28", "linux-x86_64", "odek-linux-x86_64-gnu"),
        ("x86_64", "musl", "x86_64-linux-musl", "linux-x86_64", "odek-linux-x86_64-musl"),
        ("aarch64", "gnu", "aarch64-linux-gnu.2.28", "linux-aarch64", "odek-linux-aarch64-gnu"),
        ("aarch64", "musl", "aarch64-linux-musl", "linux-aarch64", "odek-linux-aarch64-musl"),
    ],
)
def test_what_differs_by_processor(
    machine: str, kind: str, target: str, openssl: str, name: str, portable: ModuleType, tmp_path: Path
) -> None:
    """R-392: the target and its names; what cannot run here is answered, and this processor's Python takes part."""
    workshop = load_recipe("workshop")
    (tmp_path / f"zig-{workshop.ZIG}" / "ziglang" / "lib" / "libc" / "musl").mkdir(parents=True)
    (tmp_path / f"zig-{workshop.ZIG}" / "ziglang" / "lib" / "libc" / "musl" / "COPYRIGHT").write_text("musl")
    (tmp_path / f"zig-{workshop.ZIG}" / "complete").touch()
    shop = workshop.open_workshop(tmp_path, kind, machine)
    assert (shop.target, shop.machine, portable.file_name(kind, machine)) == (target, machine, name)
    assert f"-target {target} " in (shop.folder / "bin" / "odek-cc").read_text()
    ran: list[tuple[tuple[str, ...], dict[str, str]]] = []

    class Dry(workshop.Workshop):  # type: ignore[misc, name-defined]
        def run(self, *argv: object, env: dict[str, str] | None = None, **_: object) -> None:
            ran.append((tuple(map(str, argv)), dict(env or {})))
            raise workshop.BuildError

        def unpack(self, *_: object) -> Path:
            return Path(self.folder)

    def first(stage: str) -> tuple[tuple[str, ...], dict[str, str]]:
        fields = {field: getattr(shop, field) for field in ("folder", "sources", "target", "env", "native")}
        with pytest.raises(workshop.BuildError):
            workshop.STAGES[stage][0](Dry(**fields))
        return ran[-1]

    assert first("openssl")[0][2] == openssl
    foreign = machine != platform.machine()
    assert (shop.native is not None) == foreign
    (shop.folder / "Modules").mkdir()
    (shop.folder / workshop.PATCH[0]).write_bytes(workshop.PATCH[1] + workshop.PATCH[3])
    argv, env = first("python")
    assert (f"--host={target.partition('.')[0]}" in argv) == foreign
    assert (
        f"--with-build-python={tmp_path}/{platform.machine()}-{target.partition('-')[2]}/python/python" in argv
    ) == (foreign)
    signed = {"x86_64": "yes", "aarch64": "no"}[machine]
    assert (env.get("ac_cv_wchar_t_signed"), env.get("ac_cv_buggy_getaddrinfo")) == (
        (signed, "no") if foreign else (None, None)
    )


def test_what_is_compiled_for_another_processor_follows_the_python_of_here(tmp_path: Path) -> None:
    """R-392, R-314: it takes part, so its digest does."""
    workshop = load_recipe("workshop")
    here = workshop.Workshop(folder=tmp_path, sources=tmp_path, target="x86_64-linux-musl", env={})
    alone = workshop.Workshop(folder=tmp_path, sources=tmp_path, target="aarch64-linux-musl", env={})
    cross = workshop.Workshop(folder=tmp_path, sources=tmp_path, target="aarch64-linux-musl", env={}, native=here)
    changed = {name for name, digest in workshop.digests(cross).items() if workshop.digests(alone)[name] != digest}
    assert changed == {"python"}


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 62), ("aarch64", 183)])
def test_a_file_for_another_processor_is_refused(machine: str, number: int, portable: ModuleType) -> None:
    """R-392: a cross build that took the compiler of here would run on no machine that it is named after."""
    content = bytearray(write_elf())
    for found in (62, 183, 3):
        content[0x12:0x14] = found.to_bytes(2, "little")
        faults = portable.check(bytes(content), "musl", machine)
        said = [f"it is for another processor (ELF machine {found}) than {machine}"]
        assert faults == ([] if found == number else said)


def test_a_cache_that_make_cannot_name_is_refused(tmp_path: Path) -> None:
    workshop = load_recipe("workshop")
    with pytest.raises(workshop.BuildError, match="choose another --cache"):
        workshop.open_workshop(tmp_path / "a b", "musl")
    assert not (tmp_path / "a b").exists()


def test_frozen_code_is_what_the_table_says(freeze: ModuleType, tmp_path: Path) -> None:
    sources = {"one": "X = 1\n", "two": "", "two.part": "Y = 'ü'\n"}
    files = {}
    for name, text in sources.items():
        files[name] = tmp_path / ("__init__.py" if name == "two" else f"{name}.py")
        files[name].write_text(text)
    compiled = freeze.compile_all(files)
    freeze.write(compiled, tmp_path)
    rows = [line.strip(" {},") for line in (tmp_path / "frozen.c").read_text().splitlines() if line.startswith("    {")]
    assert rows.pop() == "0, 0, 0, 0"
    blob = (tmp_path / "frozen.bin").read_bytes()
    for row, name in zip(rows, sources, strict=True):
        quoted, place, size, is_package = row.split(", ")
        offset = int(place.removeprefix("odek_frozen_code + "))
        assert (quoted, is_package, offset % 16) == (f'"{name}"', "1" if name == "two" else "0", 0)
        scope: dict[str, object] = {}
        exec(marshal.loads(blob[offset : offset + int(size)]), scope)
        assert sources[name] == "" or set("XY") & set(scope)
    listed = dict(line.split() for line in (tmp_path / "frozen.txt").read_text().splitlines())
    assert listed == {name: hashlib.sha256(code).hexdigest() for name, (_, code) in compiled.items()}


# --- the cache


def test_a_stage_is_done_again_when_what_goes_into_it_has_changed(tmp_path: Path) -> None:
    """R-314: what was compiled from other sources, options or code is never used."""
    workshop = load_recipe("workshop")
    shop = workshop.Workshop(folder=tmp_path, sources=tmp_path, target="x86_64-linux-musl", env={})
    assert workshop.missing(shop) == ["zlib", "libedit", "openssl", "python"]
    for name, digest in workshop.digests(shop).items():
        (tmp_path / f"{name}.complete").write_text(digest)
    assert workshop.missing(shop) == []
    (tmp_path / "openssl.complete").write_text("of other options")
    assert workshop.missing(shop) == ["openssl"]
    other = workshop.Workshop(folder=tmp_path, sources=tmp_path, target="aarch64-linux-musl", env={})
    assert workshop.missing(other) == ["zlib", "libedit", "openssl", "python"]


def test_a_source_with_another_digest_is_refused(tmp_path: Path) -> None:
    """R-314: nothing is compiled that was not looked at, wherever it comes from."""
    workshop = load_recipe("workshop")
    for one in workshop.SOURCES.values():
        (tmp_path / one.file).write_bytes(b"something else")
    with pytest.raises(workshop.BuildError, match="is not what it should be"):
        workshop.fetch_sources(tmp_path)


def test_nothing_is_fetched_to_learn_that_it_is_not_there(tmp_path: Path, portable: ModuleType) -> None:
    assert portable.main(["musl", "--cached", "--cache", str(tmp_path)]) == portable.NOT_CACHED
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


# --- what it says of itself

PARTS = {"libraries": {"python": "3.13.15", "openssl": "3.5.7", "musl": "of zig"}, "modules": {"json": "ab" * 32}}


def portable_file(parts: dict[str, dict[str, str]]) -> bytes:
    archive = load_recipe("archive")
    members = {archive.PARTS: json.dumps(parts).encode(), archive.LICENCES: b"the text of each\n"}
    return bytes(load_recipe("zipapp").zip_archive(members, prefix=b"\x7fELF and so on"))


def test_bill_and_licences_come_from_the_file_itself() -> None:
    """R-315: each library with version and licence, each module with its hash, and the licences' texts."""
    content = portable_file(PARTS)
    bill = load_recipe("sbom").describe("odek-linux-x86_64-musl", content)
    found = {part["name"]: part for part in bill["components"]}
    assert sorted(found) == ["cpython", "frozen/json", "musl", "openssl"]
    assert (found["openssl"]["version"], found["openssl"]["licenses"]) == ("3.5.7", [{"license": {"id": "Apache-2.0"}}])
    assert found["frozen/json"]["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert load_recipe("licenses").render(content).endswith("also holds:\n\nthe text of each\n")


def test_a_library_without_a_licence_is_an_error() -> None:
    """R-315."""
    sbom = load_recipe("sbom")
    with pytest.raises(sbom.UnknownPart, match="libnew"):
        sbom.describe("odek", portable_file({**PARTS, "libraries": {"libnew": "1"}}))
    assert set(load_recipe("workshop").SOURCES) | {"musl"} == set(sbom.PORTABLE)


# --- the terminal of its line editor

PROBE = r"""
#include "termcap.h"
#include <stdio.h>
static int put(int c) { return putchar(c); }
int main(int argc, char **argv) {
    printf("%d ", tgetent(0, argc > 1 ? argv[1] : 0));
    printf("%d %d\n", tgetflag("am"), tgetnum("co"));
    const char *up = tgetstr("up", 0), *to = tgetstr("ch", 0), *right = tgetstr("RI", 0);
    if (up) { tputs(up, 1, put); tputs(tgoto(to, 7, 7), 1, put); tputs(tgoto(right, 12, 12), 1, put); }
    printf("|%d\n", tgetstr("no", 0) == 0);
}
"""


@pytest.mark.parametrize(
    ("terminal", "shown"),
    [
        (["xterm-256color"], "1 1 80\n\x1b[A\x1b[8G\x1b[12C|1\n"),
        (["of-next-year"], "1 1 80\n\x1b[A\x1b[8G\x1b[12C|1\n"),
        (["dumb"], "1 0 80\n|1\n"),
        ([""], "1 0 80\n|1\n"),
        ([], "1 0 80\n|1\n"),
    ],
)
@pytest.mark.once
def test_terminal_needs_no_database(terminal: list[str], shown: str, tmp_path: Path) -> None:
    """R-312, D6: every terminal of today, whatever its name; a dumb one gets no control sequence."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler here")
    (tmp_path / "probe.c").write_text(PROBE)
    own = BUILD / "portable"
    argv = [compiler, "-Wall", "-Werror", f"-I{own}", "-o", "probe", "probe.c", str(own / "termcap.c")]
    subprocess.run(argv, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "probe", *terminal], capture_output=True, text=True, check=True)
    assert done.stdout == shown


# --- the other processor's programs here


@pytest.mark.parametrize(
    ("words", "path", "code", "said"),
    [
        (["riscv64", "true"], os.defpath, 64, "usage: scripts/emulated"),
        ([], os.defpath, 64, "usage: scripts/emulated"),
        (["aarch64", "true"], "/nowhere", 69, "no qemu-aarch64-static (Debian: apt-get install qemu-user-static)"),
        (["x86_64", "true"], "/nowhere", 69, "no qemu-x86_64-static (Debian: apt-get install qemu-user-static)"),
    ],
)
@pytest.mark.once
def test_what_cannot_be_emulated_is_said(words: list[str], path: str, code: int, said: str) -> None:
    """R-393: a status of its own, so that a caller can go on without; test_probes.py runs programs."""
    argv = ["/bin/sh", str(ROOT / "scripts" / "emulated"), *words]
    done = subprocess.run(argv, env={"PATH": path}, capture_output=True, text=True, check=False)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


@pytest.mark.once
def test_an_emulator_is_there_for_one_command_alone() -> None:
    """R-393: the kernel knows of it nowhere else."""
    rules = Path("/proc/sys/fs/binfmt_misc")
    before = sorted(path.name for path in rules.glob("*"))
    argv = [str(ROOT / "scripts" / "emulated"), "aarch64", "ls", str(rules)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode == 69:
        pytest.skip(done.stderr)
    assert ("odek" in done.stdout.split(), sorted(path.name for path in rules.glob("*"))) == (True, before)
