"""Write the manual page odek(1), from what the commands say of themselves.

python3 build/manpage.py [--output FILE]        default: dist/odek.1
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from artifact import DIST, ROOT, odek_version

sys.path.insert(0, str(ROOT))

from odek.cli.catalog import Flag, Page, read_pages

SUMMARY = "an agent for the terminal whose shell commands run in a hardened Docker container"


def escape(text: str) -> str:
    """Return `text` such that roff takes no character of it for a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def render(pages: Sequence[Page], version: str) -> str:
    """Return the page."""
    lines = [
        f'.TH ODEK 1 "" "odek {version}" "User Commands"',
        *(".SH NAME", f"odek \\- {escape(SUMMARY)}"),
        *(".SH SYNOPSIS", ".B odek", "COMMAND [OPTION…] [ARGUMENT…]"),
        ".SH COMMANDS",
    ]
    for page in pages:
        lines += _page(page)
    lines += [
        *(
            ".SH EXIT STATUS",
            "0 done; 1 it did not work; 2 wrong arguments; 3 a bug; 4 a limit of the task was reached;",
        ),
        "128+N ended by signal N.",
        *(".SH FILES", ".TP", "~/.odek/config.json", "the operator's settings; see \\fBodek config schema\\fR"),
        *(".TP", escape("./odek.json"), "the settings of a project; each that matters is asked about"),
        *(".TP", escape("./Dockerfile.odek"), "the image of a project's sandbox"),
    ]
    return "\n".join(lines) + "\n"


def _page(page: Page) -> Iterator[str]:
    yield f".SS odek {escape(' '.join(page.words))} {escape(page.usage)}".rstrip()
    yield escape(page.summary[:1].upper() + page.summary[1:] + ".")
    for name, text in page.arguments:
        yield from (".TP", f"\\fI{escape(name)}\\fR", escape(text))
    for title, flags in page.groups:
        if len(page.groups) > 1:
            yield from (".PP", f"{escape(title[:1].upper() + title[1:])}:")
        for flag in flags:
            yield from (".TP", _names(flag), escape(flag.help))
    if page.examples:
        yield from (".PP", "Examples:", ".nf", *(f"    {escape(example)}" for example in page.examples), ".fi")


def _names(flag: Flag) -> str:
    value = f" \\fI{escape(flag.metavar)}\\fR" if flag.metavar else ""
    return ", ".join(f"\\fB{escape(name)}\\fR" for name in flag.names) + value


def main(argv: list[str]) -> int:
    """Write the page and print its path."""
    parser = argparse.ArgumentParser(prog="manpage", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--output", type=Path, default=DIST / "odek.1")
    options = parser.parse_args(argv)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(render(read_pages(), odek_version()), "utf-8")
    print(options.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
