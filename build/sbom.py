"""Write a bill of materials (CycloneDX 1.5, JSON) for an artifact, read from the artifact itself.

    python3 build/sbom.py FILE…         writes FILE.cdx.json next to each

For the zip that is odek alone. For a binary it is what is in it: Python and the libraries, with the
versions that stand in their own bytes, and every file and module with its SHA-256.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import archive
from artifact import odek_version

# name → (member's beginning, what its version stands behind, the licence); a library that is built
# into another one is looked for there
LIBRARIES = {
    "openssl": (("libcrypto", "libssl"), rb"OpenSSL (\d+\.\d+\.\d+[a-z]?)", "Apache-2.0"),
    "expat": (("libexpat",), rb"expat_(\d+\.\d+\.\d+)", "MIT"),
    "libffi": (("libffi",), None, "MIT"),
    "zlib": (("libz.",), rb"deflate (\d+\.\d+(?:\.\d+)*)", "Zlib"),
    "mpdecimal": (("libmpdec",), None, "BSD-2-Clause"),
    "bzip2": (("libbz2",), None, "bzip2-1.0.6"),
}
# of a portable binary, by the name in its list of parts → (name here, licence)
PORTABLE = {
    "python": ("cpython", "Python-2.0"),
    "openssl": ("openssl", "Apache-2.0"),
    "zlib": ("zlib", "Zlib"),
    "libedit": ("libedit", "BSD-3-Clause"),
    "musl": ("musl", "MIT"),
}
# by the name here: the package and the product by which scanners of vulnerabilities look for it
KNOWN_AS = {
    "odek": ("generic/odek", ""),
    "cpython": ("generic/python", "python:python"),
    "openssl": ("generic/openssl", "openssl:openssl"),
    "expat": ("generic/expat", "libexpat_project:libexpat"),
    "libffi": ("generic/libffi", "libffi_project:libffi"),
    "zlib": ("generic/zlib", "zlib:zlib"),
    "mpdecimal": ("generic/mpdecimal", ""),
    "bzip2": ("generic/bzip2", "bzip:bzip2"),
    "libedit": ("generic/libedit", ""),
    "musl": ("generic/musl", "musl-libc:musl"),
    "pyinstaller-bootloader": ("pypi/pyinstaller", "pyinstaller:pyinstaller"),
}
PYTHON_VERSION = re.compile(rb"(?<![\d.])(3\.\d{1,2}\.\d+)(?:\+|rc\d+)?\x00")


class UnknownPart(Exception):
    """The artifact holds a library that this program cannot name."""


def component(kind: str, name: str, version: str, **more: object) -> dict[str, object]:
    """Return one entry; empty values are left out, and with the version the names that scanners need one for."""
    entry = {"type": kind, "name": name, **({"version": version} if version else {}), **more}
    package, product = KNOWN_AS[name] if kind != "file" else ("", "")
    if package and version:
        entry["purl"] = f"pkg:{package}@{version}"
    if product and version:
        entry["cpe"] = f"cpe:2.3:a:{product}:{version}:*:*:*:*:*:*:*"
    return entry


def sha256(content: bytes) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]


def licensed(identifier: str) -> list[dict[str, dict[str, str]]]:
    return [{"license": {"id": identifier}}]


def describe(name: str, content: bytes) -> dict[str, object]:
    """Return the bill of an artifact. The same artifact has the same one. Raises UnknownPart."""
    try:
        members = archive.read_members(content)
    except archive.NotAnArchive:
        members = ()
    root = component("application", "odek", odek_version(), hashes=sha256(content), licenses=licensed("MIT"))
    root["bom-ref"] = name
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": root},
        "components": [*libraries(members), *files(members), *portable_parts(archive.read_parts(content))],
    }


def libraries(members: tuple[archive.Member, ...]) -> Iterator[dict[str, object]]:
    """Yield Python, the bootloader and the shared libraries."""
    shared = {member.name: member.content for member in members if member.kind == "b" and "/" not in member.name}
    if not members:
        return
    yield component("library", "cpython", python_version(shared), licenses=licensed("Python-2.0"))
    bootloader = [{"expression": "GPL-2.0-or-later WITH Bootloader-exception"}]
    yield component("library", "pyinstaller-bootloader", "", licenses=bootloader)
    named = {name for name in shared if name.startswith("libpython")}
    for library, (beginnings, pattern, identifier) in LIBRARIES.items():
        parts = {name: content for name, content in shared.items() if name.startswith(beginnings)}
        if parts:
            named |= set(parts)
            yield component("library", library, version_in(parts, pattern), licenses=licensed(identifier))
    if set(shared) - named:
        raise UnknownPart(f"no name and licence for {', '.join(sorted(set(shared) - named))}: add it to LIBRARIES")


def portable_parts(parts: Mapping[str, Mapping[str, str]] | None) -> Iterator[dict[str, object]]:
    """Yield the libraries of a portable binary, and every module of the standard library. Raises UnknownPart."""
    if parts is None:
        return
    for name, version in parts["libraries"].items():
        if name not in PORTABLE:
            raise UnknownPart(f"no licence for {name}: add it to PORTABLE")
        yield component("library", PORTABLE[name][0], version, licenses=licensed(PORTABLE[name][1]))
    for module, digest in parts["modules"].items():
        yield component("file", f"frozen/{module}", "", hashes=[{"alg": "SHA-256", "content": digest}])


def python_version(shared: Mapping[str, bytes]) -> str:
    """Return the version that libpython names most often, with the minor version that it has in its own name."""
    name, content = next((item for item in shared.items() if item[0].startswith("libpython")), ("", b""))
    minor = name.removeprefix("libpython").partition(".so")[0]
    found = [match[1].decode() for match in PYTHON_VERSION.finditer(content)]
    fitting = [version for version in found if version.startswith(minor + ".")]
    return max(fitting, key=fitting.count, default=minor)


def version_in(parts: Mapping[str, bytes], pattern: bytes | None) -> str:
    """Return the first version that `pattern` finds in one of the files."""
    matches = (re.search(pattern, content) for content in parts.values()) if pattern else ()
    return next((match[1].decode() for match in matches if match), "")


def files(members: tuple[archive.Member, ...]) -> Iterator[dict[str, object]]:
    """Yield every member, and every module of the one that holds them."""
    for member in members:
        if member.kind != "o":
            yield component("file", member.name, "", hashes=sha256(member.content))
        if member.kind == archive.MODULES:
            for module, code in sorted(archive.read_modules(member.content).items()):
                yield component("file", f"{member.name}/{module}", "", hashes=sha256(code))


def main(argv: list[str]) -> int:
    """Write the bills and print their paths."""
    parser = argparse.ArgumentParser(prog="sbom", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    for file in parser.parse_args(argv).files:
        try:
            bill: dict[str, Any] = describe(file.name, file.read_bytes())
        except UnknownPart as error:
            print(f"sbom: error: {file}: {error}", file=sys.stderr)
            return 1
        target = file.with_name(f"{file.name}.cdx.json")
        target.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n", "utf-8")
        print(target)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
