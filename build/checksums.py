"""Write `SHA256SUMS` for the files of a release, or check that it names every one of them rightly.

python3 build/checksums.py [--check] [FOLDER]        default: dist
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from artifact import DIST

NAME = "SHA256SUMS"


def render(folder: Path) -> str:
    """Return a line for each file in the folder, sorted by name."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != NAME)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def differences(folder: Path) -> list[str]:
    """Return what SHA256SUMS says wrongly or does not say."""
    try:
        written = (folder / NAME).read_text("utf-8").splitlines()
    except OSError as error:
        return [f"{folder / NAME}: {error.strerror}"]
    right = render(folder).splitlines()
    missing = [f"not in it, or wrong: {line.split()[1]}" for line in right if line not in written]
    return missing + [f"no such file, or wrong: {line}" for line in written if line not in right]


def main(argv: list[str]) -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(prog="checksums", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 when the file is not right")
    parser.add_argument("folder", nargs="?", type=Path, default=DIST)
    options = parser.parse_args(argv)
    if options.check:
        found = differences(options.folder)
        for difference in found:
            print(f"checksums: error: {difference}", file=sys.stderr)
        return 1 if found else 0
    text = render(options.folder)
    (options.folder / NAME).write_text(text, "utf-8")
    print(text, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
