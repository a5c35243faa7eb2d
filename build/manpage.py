"""The manual page `dist/odek.1`, and the lists in docs/CLI.md, from the parsers themselves.

    python3 build/manpage.py          writes dist/odek.1
    python3 build/manpage.py --docs   rewrites what is between the marks of docs/CLI.md

Equal sources give equal bytes: there is no date in the page.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from odek import __version__  # noqa: E402 - the source beside this file, wherever this is started
from odek.cli.command_docs import CommandDoc, Flag, read_command_docs  # noqa: E402
from odek.cli.slash import COMMANDS as SLASH_COMMANDS  # noqa: E402

EXIT_CODES = (
    ("0", "the task is done; the answer is on standard output"),
    ("1", "it is not: a setting, an approval, the sandbox, the model, the limit of iterations"),
    ("2", "the command line makes no sense"),
    ("3", "a bug of odek; `ODEK_DEBUG=1` shows where"),
    ("4", "the budget of the task is used up (`limits`)"),
    ("5", "there is an answer, but calls were refused, and `--fail-on-refused` was given"),
    ("6", "the model's answers do not fit the schema of `--output-schema`"),
    ("128+N", "ended by signal N: 130 after Ctrl-C, 143 after SIGTERM, 129 when the terminal was closed"),
    ("141", "standard output had no reader any more"),
)
_FILES = (
    ("~/.odek/config.json", "the operator's settings"),
    ("~/.odek/secrets.env", "variables for odek alone, such as the key of the model"),
    ("~/.odek/sessions/", "conversations that were kept"),
    ("~/.odek/repl_history", "what was typed in `odek repl`"),
    ("./odek.json", "the project's settings; what they widen is asked first"),
    ("./Dockerfile.odek", "the project's image; asked before it is built"),
    ("./AGENTS.md", "what the project tells the agent about itself"),
)


def render_man(pages: Sequence[CommandDoc]) -> str:
    """Return the manual page in roff."""
    lines = [
        f'.TH ODEK 1 "" "odek {__version__}" "User Commands"',
        ".SH NAME",
        r"odek \- an agent for the terminal whose shell commands run in a hardened Docker container",
        ".SH SYNOPSIS",
        r".B odek",
        r"\fICOMMAND\fR [\fIOPTION\fR…] [\fIARGUMENT\fR…]",
        ".SH DESCRIPTION",
        "odek lets a language model work on the files of the working directory: it reads and changes them and runs",
        "commands. The commands run in a container that is made for the task and is gone with it, without network",
        "unless that was asked for. The answer goes to standard output, everything else to standard error.",
        ".SH COMMANDS",
    ]
    for page in pages:
        lines += _man_command(page)
    lines += [".SH EXIT STATUS", *(line for code, text in EXIT_CODES for line in _man_item(_roff(code), text))]
    lines += [".SH FILES", *(line for path, text in _FILES for line in _man_item(f"\\fI{_roff(path)}\\fR", text))]
    return "\n".join(lines) + "\n"


def _man_command(page: CommandDoc) -> Iterator[str]:
    name = _roff(" ".join(("odek", *page.words)))
    yield f".SS \\fB{name}\\fR {_roff(page.usage)}"
    yield _roff(_sentence(page.summary))
    for argument, text in page.arguments:
        yield from _man_item(f"\\fI{_roff(argument)}\\fR", text)
    for flag in _own_flags(page):
        value = f" \\fI{_roff(flag.metavar)}\\fR" if flag.metavar else ""
        yield from _man_item(", ".join(f"\\fB{_roff(each)}\\fR{value}" for each in flag.names), flag.help)
    if page.examples:
        yield ".PP"
        yield "Examples:"
        yield ".nf"
        yield from (f"    {_roff(example)}" for example in page.examples)
        yield ".fi"


def _man_item(head: str, text: str) -> tuple[str, ...]:
    return ".TP", head, _roff(text)


def _roff(text: str) -> str:
    """Return `text` as roff takes it for what it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return f"\\&{text}" if text.startswith((".", "'")) else text


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
        lines = [f"### odek {' '.join(page.words)}", "", _sentence(page.summary), "", "```text"]
        lines += [f"odek {' '.join(page.words)} {page.usage}".rstrip(), "```"]
        rows = [(f"`{_cell(name)}`", text) for name, text in page.arguments]
        rows += [(_markdown_names(flag), flag.help) for flag in _own_flags(page)]
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


def _own_flags(page: CommandDoc) -> tuple[Flag, ...]:
    """Return the options of a page but for --help, which all of them have."""
    return tuple(flag for flag in page.flags if flag.name != "--help")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


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
