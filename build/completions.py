"""Write the completion scripts that `odek completion` prints, under the names that shells look for.

python3 build/completions.py [--output FOLDER]        default: dist/completions
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from artifact import DIST, ROOT

sys.path.insert(0, str(ROOT))

from odek.cli.command_docs import read_command_docs
from odek.cli.completion import render_completion

NAMES = {"bash": "odek.bash", "zsh": "_odek", "fish": "odek.fish"}


def main(argv: list[str]) -> int:
    """Write the scripts and print their paths."""
    parser = argparse.ArgumentParser(prog="completions", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--output", type=Path, default=DIST / "completions")
    folder = parser.parse_args(argv).output
    folder.mkdir(parents=True, exist_ok=True)
    pages = read_command_docs()
    for shell, name in NAMES.items():
        (folder / name).write_text(render_completion(shell, pages), "utf-8")
        print(folder / name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
