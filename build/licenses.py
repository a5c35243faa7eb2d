"""Write `THIRD_PARTY_LICENSES` for a binary: the licence of everything in it that is not odek's.

    python3 build/licenses.py [--output FILE] BINARY

The texts are those that came with what the binary was built from: Python's own, PyInstaller's, and what
the system keeps in /usr/share/doc. It is an error when one of them is not there. A portable binary holds its own.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import archive
import sbom
from artifact import DIST, ROOT

NAME = archive.LICENCES
HEADING = "odek itself is under the licence in LICENSE. The binary also holds:\n\n"
DOCUMENTS = Path("/usr/share/doc")
COMMON = Path("/usr/share/common-licenses")
# library → where a Debian keeps its text, the first that is there
SYSTEM_TEXTS = {
    "openssl": ("libssl3/copyright", "libssl3t64/copyright", "openssl/copyright"),
    "expat": ("libexpat1/copyright",),
    "libffi": ("libffi8/copyright",),
    "zlib": ("zlib1g/copyright",),
    "mpdecimal": ("libmpdec3/copyright",),
    "bzip2": ("libbz2-1.0/copyright",),
}
FULL_TEXTS = {"openssl": "Apache-2.0"}
"""library → the licence that its text only refers to"""


class MissingText(Exception):
    """A licence whose text is not on this machine."""


def first_of(paths: list[Path], what: str) -> str:
    """Return the text of the first file that is there. Raises MissingText."""
    for path in paths:
        if path.is_file():
            return path.read_text("utf-8", errors="replace")
    raise MissingText(f"no licence of {what} in {', '.join(map(str, paths))}")


def python_text() -> str:
    minor = "{}.{}".format(*sys.version_info)
    library = Path(sysconfig.get_path("stdlib"))
    return first_of([library / "LICENSE.txt", DOCUMENTS / f"python{minor}" / "copyright"], "Python")


def bootloader_text() -> str:
    found = sorted((ROOT / ".cache" / "venv").glob("binary-*/lib/python*/site-packages/pyinstaller-*.dist-info"))
    return first_of([path for folder in found for path in sorted(folder.rglob("COPYING.txt"))], "PyInstaller")


def sections(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield a heading and a text for each part of the binary. Raises MissingText."""
    for part in sbom.libraries(archive.read_members(content)):
        name = str(part["name"])
        heading = f"{name} {part.get('version', '')}".strip()
        if name == "cpython":
            yield heading, python_text()
        elif name == "pyinstaller-bootloader":
            yield heading, bootloader_text()
        else:
            text = first_of([DOCUMENTS / place for place in SYSTEM_TEXTS[name]], name)
            if name in FULL_TEXTS:
                text += "\n" + first_of([COMMON / FULL_TEXTS[name]], FULL_TEXTS[name])
            yield heading, text


def render(content: bytes) -> str:
    """Return the file's text. Raises MissingText."""
    own = archive.read_zip_member(content, archive.LICENCES)
    if own is not None:  # a portable one brings them
        return HEADING + own.decode()
    line = "=" * 78
    parts = [f"{line}\n{heading}\n{line}\n\n{text.strip()}\n" for heading, text in sections(content)]
    return HEADING + "\n".join(parts)


def main(argv: list[str]) -> int:
    """Write the file and print its path."""
    parser = argparse.ArgumentParser(prog="licenses", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--output", type=Path, default=DIST / NAME)
    options = parser.parse_args(argv)
    try:
        text = render(options.binary.read_bytes())
    except (MissingText, sbom.UnknownPart, archive.NotAnArchive) as error:
        print(f"licenses: error: {error}", file=sys.stderr)
        return 1
    options.output.write_text(text, "utf-8")
    print(options.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
