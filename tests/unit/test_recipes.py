"""The recipes of build/ that make what belongs to a release: bills of materials, licences, sums, manual, notes."""

from __future__ import annotations

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
import time
import zlib
from pathlib import Path

import pytest
from support.load_module import BUILD, load_recipe
from support.odek_process import program_kind

import odek
from odek.cli.completion import SHELLS

ROOT = BUILD.parent
BUILT = Path(ROOT / os.environ.get("ODEK_BIN", "dist/none"))
IS_BINARY = program_kind() == "binary"
needs_binary = pytest.mark.skipif(not IS_BINARY, reason="ODEK_BIN names no binary")


def pack(
    members: dict[str, tuple[str, bytes]], *, deflate: bool = False, beginning: bytes = b"\x7fELF and so on"
) -> bytes:
    """Write an archive as PyInstaller does: members, contents, cookie, after what an executable begins with."""
    body, toc = b"", b""
    for name, (kind, content) in members.items():
        stored = zlib.compress(content) if deflate else content
        size = -(-(18 + len(name) + 1) // 16) * 16
        entry = struct.pack("!IIIIBc", size, len(body), len(stored), len(content), int(deflate), kind.encode())
        toc += (entry + name.encode()).ljust(size, b"\0")
        body += stored
    length = len(body) + len(toc) + 88
    cookie = struct.pack(
        "!8sIIII64s", b"MEI\x0c\x0b\x0a\x0b\x0e", length, len(body), len(toc), 311, b"libpython3.11.so"
    )
    return beginning + body + toc + cookie


def modules(codes: dict[str, bytes]) -> bytes:
    content, toc = b"PYZ\0" + b"\0" * 8, []
    for name, code in codes.items():
        toc.append((name, (0, len(content), len(code))))
        content += code
    return content[:8] + struct.pack("!I", len(content)) + content[12:] + marshal.dumps(toc)


LIBPYTHON = b"\x7fELF\0/opt/3.11.9/lib\x003.11.9\x003.11.9\x003.4.1\0"
MEMBERS = {
    "libpython3.11.so.1.0": ("b", LIBPYTHON),
    "libcrypto.so.3": ("b", b"\x7fELF\0OpenSSL 3.0.15 3 Sep 2024\0"),
    "python3.11/lib-dynload/_ssl.so": ("b", b"\x7fELF\0"),
    "X utf8": ("o", b""),
    "PYZ.pyz": ("z", modules({"json": b"one", "odek": b"two"})),
}


# --- what is in a file


@pytest.mark.parametrize("deflate", [False, True])
def test_archive_is_read_as_it_was_written(deflate: bool) -> None:
    archive = load_recipe("archive")
    found = archive.read_members(pack(MEMBERS, deflate=deflate))
    assert {member.name: (member.kind, member.content) for member in found} == MEMBERS
    assert {member.deflated for member in found} == {deflate}
    assert archive.read_modules(MEMBERS["PYZ.pyz"][1]) == {"json": b"one", "odek": b"two"}


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", pack(MEMBERS)[200:], b"MEI\x0c\x0b\x0a\x0b\x0e"])
def test_another_file_is_no_archive(content: bytes) -> None:
    archive = load_recipe("archive")
    with pytest.raises(archive.NotAnArchive):
        archive.read_members(content)


def test_glibc_is_read_from_the_file_as_objdump_does() -> None:
    glibc = load_recipe("glibc")
    objdump = shutil.which("objdump")
    if not objdump:
        pytest.skip("no objdump here")
    for file in (os.path.realpath(sys.executable), "/bin/sh"):
        shown = subprocess.run([objdump, "-T", file], capture_output=True, text=True, check=False).stdout
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)", shown)
        expected = max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))
        assert glibc.needed(Path(file).read_bytes()) == expected


@pytest.mark.parametrize(("text", "version"), [("2.36", (2, 36)), ("2.9", (2, 9))])
def test_glibc_versions_are_numbers(text: str, version: tuple[int, int]) -> None:
    assert load_recipe("glibc").parse_version(text) == version


# --- the bill of materials


def test_bill_of_the_zip_is_odek_alone() -> None:
    content = b"#!/bin/sh\nand a zip"
    bill = load_recipe("sbom").describe("odek", content)
    assert bill["components"] == []
    root = bill["metadata"]["component"]
    assert (root["name"], root["version"]) == ("odek", odek.__version__)
    assert root["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]


def test_bill_of_a_binary_names_libraries_and_every_file() -> None:
    bill = load_recipe("sbom").describe("odek-linux-x86_64", pack(MEMBERS))
    parts = {part["name"]: part for part in bill["components"]}
    assert [(part["name"], part.get("version")) for part in bill["components"] if part["type"] == "library"] == [
        ("cpython", "3.11.9"),
        ("pyinstaller-bootloader", None),
        ("openssl", "3.0.15"),
    ]
    files = {name for name, part in parts.items() if part["type"] == "file"}
    assert files == {*MEMBERS, "PYZ.pyz/json", "PYZ.pyz/odek"} - {"X utf8"}
    assert parts["libcrypto.so.3"]["hashes"][0]["content"] == hashlib.sha256(MEMBERS["libcrypto.so.3"][1]).hexdigest()


def test_bill_has_the_names_that_scanners_look_for() -> None:
    """D12: a purl and a cpe for Python and each library, with the version; none where there is no version."""
    sbom = load_recipe("sbom")
    bill = sbom.describe("odek-linux-x86_64", pack(MEMBERS))
    libraries = {part["name"]: part for part in bill["components"] if part["type"] == "library"}
    assert [(libraries[name].get("purl"), libraries[name].get("cpe")) for name in libraries] == [
        ("pkg:generic/python@3.11.9", "cpe:2.3:a:python:python:3.11.9:*:*:*:*:*:*:*"),
        (None, None),
        ("pkg:generic/openssl@3.0.15", "cpe:2.3:a:openssl:openssl:3.0.15:*:*:*:*:*:*:*"),
    ]
    assert bill["metadata"]["component"]["purl"] == f"pkg:generic/odek@{odek.__version__}"
    portable = {"libraries": {"python": "3.13.1", "openssl": "3.5.0", "zlib": "1.3.1", "musl": "1.2.5"}, "modules": {}}
    assert all(part["purl"] and part["cpe"] for part in sbom.portable_parts(portable))
    assert {*sbom.LIBRARIES, *(name for name, _ in sbom.PORTABLE.values())} <= set(sbom.KNOWN_AS)


def test_a_library_that_nobody_knows_is_an_error() -> None:
    """So that none is shipped without its licence."""
    sbom = load_recipe("sbom")
    with pytest.raises(sbom.UnknownPart, match=r"libnew\.so\.1"):
        sbom.describe("odek", pack({**MEMBERS, "libnew.so.1": ("b", b"\x7fELF")}))


@needs_binary
def test_bill_and_licences_of_the_real_binary(tmp_path: Path) -> None:
    content = BUILT.read_bytes()
    bill = load_recipe("sbom").describe(BUILT.name, content)
    versions = {part["name"]: part.get("version", "") for part in bill["components"] if part["type"] == "library"}
    assert re.fullmatch(r"3\.\d+\.\d+", versions["cpython"])
    assert re.fullmatch(r"3\.\d+\.\d+", versions["openssl"])
    members = [member for member in load_recipe("archive").read_members(content) if member.kind != "o"]
    listed = {part["name"]: part["hashes"][0]["content"] for part in bill["components"] if part["type"] == "file"}
    for member in members:
        assert listed[member.name] == hashlib.sha256(member.content).hexdigest()
    text = load_recipe("licenses").render(content)
    for word in ("PYTHON SOFTWARE FOUNDATION LICENSE", "Apache License", "Bootloader Exception"):
        assert word.lower() in text.lower()


@needs_binary
def test_the_real_binary_keeps_what_it_promises() -> None:
    """R-91: stored, small, glibc, nothing that is excluded."""
    assert load_recipe("binary").check(BUILT.read_bytes(), (2, 36)) == []


# --- the checks of a binary, each of which can fail


def test_faults_of_a_binary_are_found() -> None:
    members = {"PYZ.pyz": ("z", modules({"doctest": b"", "ssl": b""})), "padding": ("x", os.urandom(20_000_000))}
    faults = load_recipe("binary").check(pack(members, deflate=True, beginning=b"no ELF file"), (2, 36))
    assert [fault for fault in faults if "bytes" not in fault] == [
        "no module encodings.idna",
        "no module odek.cli.main",
        "doctest is in it, but excluded",
        "PYZ.pyz is not stored",
        "padding is not stored",
    ]
    assert any(fault.endswith("more than 20000000") for fault in faults)


def test_a_glibc_that_is_too_new_is_a_fault() -> None:
    sh = Path("/bin/sh").read_bytes()
    major, minor = load_recipe("glibc").needed(sh)
    if (major, minor) == (0, 0):
        pytest.skip("/bin/sh needs no glibc here")
    content = pack({"sh": ("b", sh)}, beginning=b"no ELF file")
    assert f"sh needs glibc {major}.{minor}" in load_recipe("binary").check(content, (2, 1))
    assert f"sh needs glibc {major}.{minor}" not in load_recipe("binary").check(content, (major, minor))


def test_excluded_modules_have_a_reason() -> None:
    lines = (BUILD / "excludes.txt").read_text().splitlines()
    excluded = load_recipe("binary").excluded()
    assert {"unicodedata", "encodings.idna", "encodings"} & excluded == set()
    reason = ""
    for line in lines:
        name, _, own = line.partition("#")
        if not line.strip():
            reason = ""
        elif not name.strip():
            reason = own.strip()
        else:
            assert own.strip() or reason, line


# --- the first code of the binary


ENTRY_CASES = [
    ({"A": "1"}, {"A": "1"}, {"A": "1"}),
    ({"LD_LIBRARY_PATH": "/tmp/_MEI1"}, {}, {}),
    ({"LD_LIBRARY_PATH": "/tmp/_MEI1", "LD_LIBRARY_PATH_ORIG": "/mine"}, {}, {"LD_LIBRARY_PATH": "/mine"}),
    ({"LD_LIBRARY_PATH": "/tmp/_MEI1", "LD_LIBRARY_PATH_ORIG": ""}, {}, {"LD_LIBRARY_PATH": ""}),
    ({"_PYI_ARCHIVE_FILE": "x", "_PYI_APPLICATION_HOME_DIR": "y", "A": "1"}, {}, {"A": "1"}),
    ({"A": "1"}, {"A": "1", "VIRTUAL_ENV": "/venv"}, {"A": "1", "VIRTUAL_ENV": "/venv"}),
]


@pytest.mark.parametrize(("given", "before", "expected"), ENTRY_CASES)
def test_environment_is_given_back(given: dict[str, str], before: dict[str, str], expected: dict[str, str]) -> None:
    """R-94, B53 (a)."""
    env = dict(given)
    load_recipe("entry").restore(env, before)
    assert env == expected


def test_the_bootloader_is_known_by_the_folder() -> None:
    assert load_recipe("entry").bootloader_of("/tmp/_MEI0000a4f2Zq81Xy") == 0xA4F2


@pytest.mark.parametrize(
    ("made", "swept"),
    [
        ("claimed", True),
        ("in use", False),
        ("unclaimed and new", False),
        ("unclaimed and old", True),
        ("unclaimed, old, its process lives", False),
        ("of another program", False),
        ("of another user", False),
        ("a link", False),
        ("a file", False),
        ("another name", False),
    ],
)
def test_what_a_killed_binary_left_is_swept(made: str, swept: bool, tmp_path: Path) -> None:
    """R-317, D4: only what no living process uses."""
    entry = load_recipe("entry")
    process = f"{os.getpid():08x}" if "lives" in made else "7ffffff0"  # no system has that many
    folder = tmp_path / (f"_XYZ{process}aaaaaa" if made == "another name" else f"_MEI{process}aaaaaa")
    own = tmp_path / "_MEI7ffffff1bbbbbb"
    own.mkdir()
    target = tmp_path / "target" if made == "a link" else folder
    if made == "a file":
        folder.write_text("")
    else:
        (target / ("other" if "program" in made else "odek")).mkdir(parents=True)
        if target != folder:
            folder.symlink_to(target)
    held = -1
    if "unclaimed" not in made and made != "a file":
        held = entry.claim(str(target))
        assert held >= 0
    if made != "in use" and held >= 0:
        os.close(held)
    if "old" in made:
        os.utime(folder, (1, 1))
    user = os.geteuid() + (made == "of another user")
    assert entry.is_abandoned(str(folder), user, time.time()) == (swept or made == "another name")
    if made != "of another user":
        entry.sweep(str(own))
        assert folder.exists() == (not swept)
    assert own.exists()
    assert target.exists() or swept
    if made == "in use":
        os.close(held)
        entry.sweep(str(own))
        assert not folder.exists()


def test_a_job_without_a_shell_is_an_orphan() -> None:
    """R-313: then nothing stops it, for nothing could resume it."""
    entry = load_recipe("entry")
    code = "import os, sys; os.setsid(); print(os.getpid(), flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert entry.is_orphaned(process.pid)  # what started it is no shell: it is in the same group
        process.communicate()
    assert entry.is_orphaned(process.pid)  # it is gone


# --- sums


def test_sums_cover_every_file_and_are_checked(tmp_path: Path) -> None:
    checksums = load_recipe("checksums")
    for name in ("odek", "install.sh", "a b"):
        (tmp_path / name).write_text(name)
    assert checksums.differences(tmp_path) != []
    (tmp_path / "SHA256SUMS").write_text(checksums.render(tmp_path))
    assert checksums.differences(tmp_path) == []
    assert [line.split("  ")[1] for line in (tmp_path / "SHA256SUMS").read_text().splitlines()] == [
        "a b",
        "install.sh",
        "odek",
    ]
    (tmp_path / "new").write_text("")
    (tmp_path / "odek").write_text("changed")
    assert len(checksums.differences(tmp_path)) == 3


# --- the release as a whole


def artifact(file: Path, said: dict[str, str]) -> Path:
    """Write what a zip is to the recipes of a release."""
    zipapp = load_recipe("zipapp")
    members = zipapp.source_members({"odek/built.json": json.dumps(said).encode()})
    file.write_bytes(zipapp.zip_archive(members, prefix=b"#!/bin/sh\n"))
    return file


@pytest.mark.parametrize(
    "said",
    [
        {"file": "odek", "releases": ""},
        {"file": "odek", "releases": "https://other.example/releases"},
        {"file": "odek-linux-x86_64", "releases": "https://host.example/releases"},
    ],
)
def test_a_file_that_would_look_elsewhere_for_newer_ones_is_not_released(said: dict[str, str], tmp_path: Path) -> None:
    """R-340: each file of a release knows its name and where releases are; PyInstaller's as well."""
    release, archive = load_recipe("release"), load_recipe("archive")
    with pytest.raises(release.ReleaseError, match=r"ODEK_RELEASES=https://host\.example/releases"):
        release.check_built(artifact(tmp_path / "odek", said), "https://host.example/releases")
    assert archive.read_built(pack({"odek/built.json": ("x", json.dumps(said).encode())})) == said
    assert [archive.read_built(content) for content in (b"", pack(MEMBERS))] == [None, None]


def test_release_holds_all_and_its_sums_cover_all(tmp_path: Path) -> None:
    release, checksums = load_recipe("release"), load_recipe("checksums")
    artifact(tmp_path / "odek", {"file": "odek", "releases": "https://host.example/releases"})
    folder = tmp_path / "release"
    for _ in range(2):  # the second time over the first
        release.assemble([tmp_path / "odek"], folder, version="1.2.3", releases="https://host.example/releases")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["SHA256SUMS", "install.sh", "odek", "odek-extras.tar.gz", "odek.cdx.json", "release.json"]
    assert checksums.differences(folder) == []
    assert json.loads((folder / "release.json").read_text()) == {"version": "1.2.3"}
    assert "\nRELEASE='1.2.3'\n" in (folder / "install.sh").read_text()
    assert json.loads((folder / "odek.cdx.json").read_text())["bomFormat"] == "CycloneDX"


def test_a_release_without_a_portable_binary_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """R-352: the installer chooses between them."""
    release = load_recipe("release")
    whole = [Path(name) for name in ("odek", "odek-linux-x86_64", *release.REQUIRED[1:])]
    release.check_complete(whole)
    for name in release.REQUIRED:
        with pytest.raises(release.ReleaseError, match=name):
            release.check_complete([file for file in whole if file.name != name])
    with pytest.raises(release.ReleaseError, match="odek-linux-x86_64-musl"):
        release.check_complete([*whole, Path("other/odek-linux-x86_64-musl")])
    assert {f"odek-linux-x86_64-{libc}" for libc in ("gnu", "musl")} <= set(release.REQUIRED)


def test_extras_are_the_same_whenever_they_are_made(tmp_path: Path) -> None:
    release = load_recipe("release")
    packed = []
    for stamp in (1, 10**9):
        (tmp_path / "odek.1").write_text("a page")
        os.utime(tmp_path / "odek.1", (stamp, stamp))
        packed.append(release.pack_extras(tmp_path))
    assert packed[0] == packed[1]


def test_tag_must_be_the_version() -> None:
    release = load_recipe("release")
    assert release.check_tag(f"v{odek.__version__}") == odek.__version__
    for tag in (odek.__version__, "v9.9.9", ""):
        with pytest.raises(release.ReleaseError):
            release.check_tag(tag)


def test_notes_are_the_section_of_the_version() -> None:
    release = load_recipe("release")
    changelog = "# Changelog\n\n## Unreleased\n\n## 1.2.3 (2026-01-02)\n\n- new\n\n## 1.2.30\n\n- other\n\n## 1.0\n"
    assert release.notes_for("1.2.3", changelog) == "- new\n"
    for version in ("1.2", "1.0", "2.0"):
        with pytest.raises(release.ReleaseError):
            release.notes_for(version, changelog)


@pytest.mark.parametrize(
    ("version", "releases"), [("1.2'3", "https://host.example"), ("1.2.3", "https://host.example/'; rm"), ("", "")]
)
def test_a_stamp_is_plain_words(version: str, releases: str) -> None:
    installer = load_recipe("installer")
    with pytest.raises(installer.StampError):
        installer.stamp(installer.SCRIPT.read_text(), version=version, releases=releases)


# --- manual and completion


def test_manual_page_is_sound() -> None:
    """What is in it is tested beside it, in test_manpage.py."""
    if not shutil.which("groff"):
        pytest.skip("no groff here")
    manpage = load_recipe("manpage")
    text = manpage.render_man(manpage.read_command_docs())
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-Kutf8"], input=text.encode(), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_completions_are_those_that_odek_prints(tmp_path: Path) -> None:
    load_recipe("completions").main(["--output", str(tmp_path)])
    names = load_recipe("completions").NAMES
    assert sorted(names) == sorted(SHELLS)
    for shell, name in names.items():
        done = subprocess.run(
            [sys.executable, "-m", "odek", "completion", shell], cwd=ROOT, capture_output=True, check=True
        )
        assert (tmp_path / name).read_bytes() == done.stdout


def test_binary_is_named_after_the_machine() -> None:
    assert load_recipe("artifact").binary_name() == f"odek-linux-{platform.machine()}"
