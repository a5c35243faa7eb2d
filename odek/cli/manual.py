"""The manual page, in roff and as plain text, from the parsers themselves. Pure.

Equal sources give equal bytes: there is no date in the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odek import __version__
from odek.cli.command_docs import CommandDoc, Flag
from odek.cli.help import hang, wrap, wrap_example

_SUMMARY = "an agent for the terminal whose shell commands run in a hardened Docker container"
_DESCRIPTION = (
    "odek lets a language model work on the files of the working directory: it reads and changes them and runs "
    "commands. The commands run in a container that is made for the task and is gone with it, without network unless "
    "that was asked for. The answer goes to standard output, everything else to standard error."
)
EXIT_CODES = (
    ("0", "the task is done; the answer is on standard output"),
    ("1", "it is not: a setting, an approval, the sandbox, the model, the limit of iterations"),
    ("2", "the command line makes no sense"),
    ("3", "a bug of odek; `ODEK_DEBUG=1` shows where"),
    ("4", "the budget of the task is used up (`limits`)"),
    ("5", "there is an answer, but calls were refused, and `--fail-on-refused` was given"),
    ("6", "the model's answers do not fit the schema of `--output-schema`"),
    ("10", "there is a newer release (`odek update --check`)"),
    ("128+N", "ended by signal N: 130 after Ctrl-C, 143 after SIGTERM, 129 when the terminal was closed"),
    ("141", "standard output had no reader any more"),
)
_FILES = (
    ("~/.odek/config.json", "the operator's settings"),
    ("~/.odek/secrets.env", "variables for odek alone, such as the key of the model"),
    ("~/.odek/sessions/", "conversations that were kept"),
    ("~/.odek/repl_history", "what was typed in `odek repl`"),
    ("~/.odek/commands/", "commands of your own for `odek repl` and `odek run`, a Markdown file each"),
    ("./odek.json", "the project's settings; what they widen is asked first"),
    ("./Dockerfile.odek", "the project's image; asked before it is built"),
    ("./.odek/commands/", "the project's commands; their texts are asked about"),
    ("./AGENTS.md", "what the project tells the agent about itself, with those up to the repository's root"),
)


def render_man(pages: Sequence[CommandDoc]) -> str:
    """Return the manual page in roff."""
    lines = [
        f'.TH ODEK 1 "" "odek {__version__}" "User Commands"',
        ".nh",  # options have hyphens of their own
        ".ad l",
        ".SH NAME",
        f"odek \\- {_roff(_SUMMARY)}",
        ".SH SYNOPSIS",
        r".B odek",
        r"\fICOMMAND\fR [\fIOPTION\fR…] [\fIARGUMENT\fR…]",
        ".SH DESCRIPTION",
        _roff(_DESCRIPTION),
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
    yield _roff(sentence(page.summary))
    for argument, text in page.arguments:
        yield from _man_item(f"\\fI{_roff(argument)}\\fR", text)
    for flag in own_flags(page):
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


def own_flags(page: CommandDoc) -> tuple[Flag, ...]:
    """Return the options of a page but for --help, which all of them have."""
    return tuple(flag for flag in page.flags if flag.name != "--help")


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


_INDENT = " " * 4


def render_plain(pages: Sequence[CommandDoc], columns: int) -> str:
    """Return the manual page as text, in lines of at most `columns`."""
    lines = ["NAME", _indented(f"odek - {_SUMMARY}", columns), ""]
    lines += ["SYNOPSIS", f"{_INDENT}odek COMMAND [OPTION…] [ARGUMENT…]", ""]
    lines += ["DESCRIPTION", _indented(_DESCRIPTION, columns), "", "COMMANDS"]
    for page in pages:
        lines += _plain_command(page, columns)
    for heading, rows in (("EXIT STATUS", EXIT_CODES), ("FILES", _FILES)):
        lines += [heading, *(line for head, text in rows for line in _plain_item(head, text, columns)), ""]
    return "\n".join(lines).rstrip() + "\n"


def _plain_command(page: CommandDoc, columns: int) -> Iterator[str]:
    head = " ".join(("odek", *page.words, page.usage)).rstrip()
    yield "  " + wrap(head, columns - 2, indent=_INDENT * 2)
    yield _indented(sentence(page.summary), columns)
    for argument, text in page.arguments:
        yield from _plain_item(argument, text, columns)
    for flag in own_flags(page):
        value = f" {flag.metavar}" if flag.metavar else ""
        yield from _plain_item(", ".join(f"{name}{value}" for name in flag.names), flag.help, columns)
    if page.examples:
        yield f"{_INDENT}Examples:"
        yield from (wrap_example(f"{_INDENT * 2}{example}", columns) for example in page.examples)
    yield ""


def _plain_item(head: str, text: str, columns: int) -> Iterator[str]:
    yield _INDENT + head
    yield hang(_INDENT * 2, text, columns)


def _indented(text: str, columns: int) -> str:
    return hang(_INDENT, text, columns)
