"""Make the install.sh of a release: the script as it is, which now knows the release and where it is.

python3 build/installer.py --version 1.2.3 --releases https://…/releases [--output dist/install.sh]
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from artifact import DIST, ROOT, write_executable

SCRIPT = ROOT / "scripts" / "install.sh"
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]*")
_ADDRESS = re.compile(r"https?://[0-9A-Za-z./:_-]+")


class StampError(Exception):
    """The script cannot be made; the text says why."""


def stamp(script: str, *, version: str, releases: str) -> str:
    """Return `script` with both filled in. Raises StampError."""
    if not _VERSION.fullmatch(version) or not _ADDRESS.fullmatch(releases):
        raise StampError(f'no version, or no address: "{version}", "{releases}"')
    for name, value in (("RELEASES", releases), ("RELEASE", version)):
        empty = f"\n{name}=''\n"
        if script.count(empty) != 1:
            raise StampError(f"install.sh does not set {name} once, to nothing")
        script = script.replace(empty, f"\n{name}='{value}'\n")
    return script


def main(argv: list[str]) -> int:
    """Write the script and print its path."""
    parser = argparse.ArgumentParser(prog="installer", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--version", required=True)
    parser.add_argument("--releases", required=True, metavar="URL")
    parser.add_argument("--output", type=Path, default=DIST / "install.sh")
    options = parser.parse_args(argv)
    try:
        text = stamp(SCRIPT.read_text("utf-8"), version=options.version, releases=options.releases)
    except StampError as error:
        print(f"installer: error: {error}", file=sys.stderr)
        return 1
    write_executable(options.output, text.encode())
    print(options.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
