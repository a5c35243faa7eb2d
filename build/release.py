"""Put the files of a release into a folder: what scripts/build made, and all that belongs to it.

    python3 build/release.py --tag v1.2.3 --releases URL [--output FOLDER] FILE…

FILE… are the artifacts (dist/odek, dist/odek-linux-x86_64, …). The tag must be the version that odek says, and
CHANGELOG.md must have a section for it; that section is written to FOLDER.notes.md.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import re
import shutil
import sys
import tarfile
from pathlib import Path

import archive
import checksums
import completions
import installer
import licenses
import manpage
import sbom
from artifact import DIST, ROOT, ZIP_NAME, odek_version, write_executable

REQUIRED = (ZIP_NAME, *(f"odek-linux-{arch}-{libc}" for arch in ("x86_64", "aarch64") for libc in ("gnu", "musl")))
"""the artifacts that the installer chooses from"""


class ReleaseError(Exception):
    """There is no such release; the text says why."""


def check_tag(tag: str) -> str:
    """Return the version of a tag. Raises ReleaseError."""
    version = odek_version()
    if tag != f"v{version}":
        raise ReleaseError(f'the tag is "{tag}" and odek is {version}')
    return version


def notes_for(version: str, changelog: str) -> str:
    """Return the section of the changelog. Raises ReleaseError."""
    found = re.search(rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ReleaseError(f"CHANGELOG.md says nothing of {version}")
    return found[1].strip() + "\n"


def pack_extras(folder: Path) -> bytes:
    """Return a tar.gz of what shells and `man` want, the same whenever it is made."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as out:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(f"odek/{path.relative_to(folder).as_posix()}")
            entry.size = path.stat().st_size
            with path.open("rb") as file:
                out.addfile(entry, file)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as file:
        file.write(plain.getvalue())
    return packed.getvalue()


def check_complete(files: list[Path]) -> None:
    """Raises ReleaseError where one of REQUIRED is missing, or two files have one name."""
    names = [file.name for file in files]
    missing = [name for name in REQUIRED if name not in names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if missing or twice:
        raise ReleaseError(f"not a whole release: {', '.join([*missing, *twice])} missing or given twice")


def check_built(file: Path, releases: str) -> bytes:
    """Return the content of an artifact that looks for newer ones of its own kind there. Raises ReleaseError."""
    content = file.read_bytes()
    built = archive.read_built(content)
    if built != {"file": file.name, "releases": releases}:
        raise ReleaseError(f"{file} says {built} of itself: build it with ODEK_RELEASES={releases}")
    return content


def assemble(files: list[Path], folder: Path, *, version: str, releases: str) -> None:
    """Fill `folder`, which is made again. Raises ReleaseError."""
    shutil.rmtree(folder, ignore_errors=True)
    extras = folder / "extras"
    extras.mkdir(parents=True)
    for file in files:
        content = check_built(file, releases)
        write_executable(folder / file.name, content)
        bill = json.dumps(sbom.describe(file.name, content), indent=1, sort_keys=True) + "\n"
        (folder / f"{file.name}.cdx.json").write_text(bill, "utf-8")
        if content[:4] != b"\x7fELF":
            continue
        (folder / f"{file.name}.{licenses.NAME}").write_text(licenses.render(content), "utf-8")
    (extras / "odek.1").write_text(manpage.render_man(manpage.read_command_docs()), "utf-8")
    completions.main(["--output", str(extras / "completions")])
    shutil.copy(ROOT / "LICENSE", extras / "LICENSE")
    (folder / "odek-extras.tar.gz").write_bytes(pack_extras(extras))
    shutil.rmtree(extras)
    script = installer.stamp(installer.SCRIPT.read_text("utf-8"), version=version, releases=releases)
    write_executable(folder / "install.sh", script.encode())
    (folder / "release.json").write_text(json.dumps({"version": version}) + "\n", "utf-8")
    (folder / checksums.NAME).write_text(checksums.render(folder), "utf-8")


def main(argv: list[str]) -> int:
    """Make the folder and print what is in it."""
    parser = argparse.ArgumentParser(prog="release", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--tag", required=True)
    parser.add_argument("--releases", required=True, metavar="URL")
    parser.add_argument("--output", type=Path, default=DIST / "release")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    try:
        version = check_tag(options.tag)
        notes = notes_for(version, (ROOT / "CHANGELOG.md").read_text("utf-8"))
        check_complete(options.files)
        assemble(options.files, options.output, version=version, releases=options.releases)
    except (ReleaseError, sbom.UnknownPart, licenses.MissingText, archive.NotAnArchive, installer.StampError) as error:
        print(f"release: error: {error}", file=sys.stderr)
        return 1
    options.output.with_suffix(".notes.md").write_text(notes, "utf-8")
    print((options.output / checksums.NAME).read_text("utf-8"), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
