"""The text of a Dockerfile as instructions, read the way the builders read it. Pure.

Two builders of two ages may get the text, and they differ in two places: whether a line that ends
in two backslashes goes on, and whether here-documents exist. `read_instructions` therefore gives
one reading for each kind of line end, and marks what may be the body of a here-document. What a
builder would do on any of the readings is then looked at (recipe.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from odek.sandbox.errors import SandboxConfigError
from odek.text import truncate, visible

NAME = "Dockerfile.odek"
INSTRUCTIONS = frozenset(
    (
        "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL",
        "MAINTAINER", "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
    )
)  # fmt: skip
_WITH_HEREDOCS = ("ADD", "COPY", "RUN")
# builders up to 2020 take the first, later ones the second: not when a backslash stands before it
_CONTINUES_OLD = re.compile(r"\\[ \t]*$")
_CONTINUES_NEW = re.compile(r"(?:(?<=[^\\])|^)\\[ \t]*$")
_HEREDOC_START = re.compile(r"(?:^|[ \t])[0-9]*<<(?!<)")
_HEREDOC = re.compile(r"[0-9]*<<(-?)(['\"]?)([A-Za-z][A-Za-z0-9_]*)\2(?=[ \t]|$)")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction, its continued lines joined."""

    line: int
    """of its first line, from 1"""
    text: str
    word: str
    """its first word in upper case; not one of INSTRUCTIONS where the text is none"""
    flags: tuple[str, ...]
    """the leading words that begin with --"""
    rest: str
    """what follows the flags"""
    in_heredoc: bool
    """whether some builder takes it for data of a here-document"""


def decode(data: bytes) -> str:
    """Return the text of a Dockerfile. Raises SandboxConfigError when it cannot be shown as it is read."""
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise refuse(line, "", "is not UTF-8", hint="save the file as UTF-8") from None
    control = _CONTROLS.search(text)
    if control:
        line = text[: control.start()].count("\n") + 1
        raise refuse(line, text.split("\n")[line - 1], "holds a control character", hint="remove it")
    return text


def read_instructions(text: str) -> tuple[tuple[Instruction, ...], ...]:
    """Return each way in which a builder may read `text`, the one of present builders first.

    Raises SandboxConfigError for a here-document whose extent builders disagree on.
    """
    new, old = (_read(text, continues) for continues in (_CONTINUES_NEW, _CONTINUES_OLD))
    return (new,) if new == old else (new, old)


def leading_comments(text: str) -> tuple[tuple[int, str], ...]:
    """Return (line, text) of the comments and blank lines before the first instruction."""
    found: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.strip().startswith(("#", "//")):
            break
        found.append((number, line.strip()))
    return tuple(found)


def refuse(line: int, text: str, why: str, *, hint: str) -> SandboxConfigError:
    """Return the error about one line, its text quoted."""
    quoted = f': "{visible(truncate(text.strip(), 160))}"' if text.strip() else ""
    return SandboxConfigError(f"{NAME} line {line}{quoted} {why}", hint=hint)


def _read(text: str, continues: re.Pattern[str]) -> tuple[Instruction, ...]:
    lines = [line.rstrip("\r") for line in text.split("\n")]
    found: list[Instruction] = []
    index = body_end = 0
    while index < len(lines):
        start = index
        line = lines[index].lstrip()
        index += 1
        if not line or line.startswith("#"):
            continue
        parts = [line]
        while continues.search(parts[-1]):
            parts[-1] = continues.sub("", parts[-1])
            index = _skip_blank(lines, index)
            if index == len(lines):
                break
            parts.append(lines[index])
            index += 1
        instruction = _parse(start + 1, "".join(parts), in_heredoc=start < body_end)
        if instruction is None:
            continue
        found.append(instruction)
        if not instruction.in_heredoc and instruction.word in _WITH_HEREDOCS:
            body_end = max(body_end, _end_of_heredocs(instruction, lines, index))
    return tuple(found)


def _skip_blank(lines: list[str], index: int) -> int:
    """Return the next line that continues an instruction: blank ones and comments do not end it."""
    while index < len(lines) and (not lines[index].strip() or lines[index].lstrip().startswith("#")):
        index += 1
    return index


def _parse(line: int, text: str, *, in_heredoc: bool) -> Instruction | None:
    text = text.strip()
    if not text:
        return None
    word, _, rest = text.replace("\t", " ").partition(" ")
    flags: list[str] = []
    rest = rest.strip()
    while rest.startswith("--"):
        flag, _, rest = rest.partition(" ")
        flags.append(flag)
        rest = rest.lstrip()
    return Instruction(
        line=line, text=text, word=word.upper(), flags=tuple(flags), rest=rest, in_heredoc=in_heredoc
    )  # fmt: skip


def _end_of_heredocs(instruction: Instruction, lines: list[str], index: int) -> int:
    """Return the index after the last line of the here-documents that `instruction` begins.

    A marker after quotes or backslashes, or with an unusual name, is refused: whether it is one
    depends on the builder, and so would everything below it.
    """
    text = instruction.text
    for start in _HEREDOC_START.finditer(text):
        begin = start.start() + (text[start.start()] in " \t")
        marker = _HEREDOC.match(text, begin)
        plain = not re.search(r"""["'\\]""", re.sub(_HEREDOC, "", text[:begin]))
        if marker is None or not plain:
            raise refuse(
                instruction.line, text, "begins a here-document that builders read differently",
                hint="write the here-document as <<EOF, before anything in quotes",
            )  # fmt: skip
        end = _find_end(lines, index, marker.group(3), tabs=bool(marker.group(1)))
        if end is None:
            raise refuse(instruction.line, text, "begins a here-document that does not end", hint="end it")
        index = end
    return index


def _find_end(lines: list[str], index: int, name: str, *, tabs: bool) -> int | None:
    for number in range(index, len(lines)):
        if (lines[number].lstrip("\t") if tabs else lines[number]) == name:
            return number + 1
    return None
