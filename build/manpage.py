"""The manual page `dist/odek.1`, and the lists in docs/CLI.md, from the parsers themselves.

    python3 build/manpage.py          writes dist/odek.1
    python3 build/manpage.py --docs   rewrites what is between the marks of docs/CLI.md

Equal sources give equal bytes: there is no date in the page.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from odek.cli.command_docs import CommandDoc, Flag, read_command_docs  # noqa: E402 - the source beside this file, wherever this is started
from odek.cli.manual import EXIT_CODES, own_flags, render_man, sentence  # noqa: E402
from odek.cli.slash import COMMANDS as SLASH_COMMANDS  # noqa: E402


def render_parts(pages: Sequence[CommandDoc]) -> dict[str, str]:
    """Return what stands between the marks of docs/CLI.md, by their names."""
    slash = "".join(f"| `{' '.join((row.name, row.argument)).strip()}` | {row.help} |\n" for row in SLASH_COMMANDS)
    return {
        "commands": f"\n{render_markdown(pages)}\n",
        "codes": render_exit_codes(),
        "slash": f"| Command | |\n|---|---|\n{slash}",
    }


def fill_in(document: str, parts: Mapping[str, str]) -> str:
    """Return `document` with what stands between each pair of marks replaced."""
    for name, text in parts.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        before, found, rest = document.partition(begin)
        assert found, name
        document = f"{before}{begin}{text}{end}{rest.partition(end)[2]}"
    return document


def render_exit_codes() -> str:
    """Return the table of exit codes for docs/CLI.md."""
    rows = "".join(f"| {code} | {text} |\n" for code, text in EXIT_CODES)
    return f"| Code | Meaning |\n|---|---|\n{rows}"


def render_markdown(pages: Sequence[CommandDoc]) -> str:
    """Return the list of commands for docs/CLI.md."""
    parts = []
    for page in pages:
        lines = [f"### odek {' '.join(page.words)}", "", sentence(page.summary), "", "```text"]
        lines += [f"odek {' '.join(page.words)} {page.usage}".rstrip(), "```"]
        rows = [(f"`{_cell(name)}`", text) for name, text in page.arguments]
        rows += [(_markdown_names(flag), flag.help) for flag in own_flags(page)]
        if rows:
            lines += ["", "| | |", "|---|---|", *(f"| {head} | {_cell(text)} |" for head, text in rows)]
        if page.examples:
            lines += ["", "```sh", *page.examples, "```"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _markdown_names(flag: Flag) -> str:
    value = f" {_cell(flag.metavar)}" if flag.metavar else ""
    return ", ".join(f"`{name}{value}`" for name in flag.names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write the manual page, or print the list of commands."""
    parser = argparse.ArgumentParser(description="make the manual page of odek from its parsers", allow_abbrev=False)
    parser.add_argument("--docs", action="store_true", help="rewrite the lists in docs/CLI.md instead")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "odek.1", help="where the manual page goes")
    options = parser.parse_args()
    path, text = options.output, ""
    if options.docs:
        path = ROOT / "docs" / "CLI.md"
        text = fill_in(path.read_text(encoding="utf-8"), render_parts(read_command_docs()))
    else:
        path.parent.mkdir(exist_ok=True)
        text = render_man(read_command_docs())
    path.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
