"""What a Dockerfile.odek may ask of a build that has no network, and what it builds on (D-2, B17). Pure.

`docker build --network=none` keeps RUN steps off the network and nothing else: the daemon itself
fetches what ADD, COPY --from=, RUN --mount=…from= and a foreign front end name. So these are
refused, by line, before the user is asked to approve the build. The image after FROM is pulled all
the same.

Two builders of different ages may get the text, and they differ in two places: whether a line that ends
in two backslashes continues, and whether here-documents exist. `read_instructions` therefore gives one
reading for each kind of line end, and marks what may be the body of a here-document; where readings
differ, the worse one counts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from odek.patterns import pattern
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox_grammar import DOCKERFILE, GrammarError, parse_reference
from odek.text import truncate, visible

NAME = DOCKERFILE
INSTRUCTIONS = frozenset(
    (
        "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL",
        "MAINTAINER", "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
    )
)  # fmt: skip
_WITH_HEREDOCS = ("ADD", "COPY", "RUN")
# builders up to 2020 take the first, later ones the second: not when a backslash is before it
_CONTINUES_OLD = pattern(r"\\[ \t]*$")
_CONTINUES_NEW = pattern(r"(?:(?<=[^\\])|^)\\[ \t]*$")
_HEREDOC_START = pattern(r"(?:^|[ \t])[0-9]*<<(?!<)")
_HEREDOC = pattern(r"[0-9]*<<(-?)(['\"]?)([A-Za-z][A-Za-z0-9_]*)\2(?=[ \t]|$)")
_CONTROLS = pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n|$)")


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
        plain = not re.search(r"""["'\\]""", _HEREDOC.sub("", text[:begin]))
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


REPOSITORY = "odek-sandbox"
SWITCH = "ODEK_SANDBOX_BUILD_NETWORK"
_HINT = f"bring the files into the project and COPY them, or allow the build the network with {SWITCH}=1"
_DIRECTIVE = pattern(r"(?:#|//)[#/!\s]*(syntax|escape|check)\s*=", re.IGNORECASE)
_OWN_FRONT_END = pattern(r"#\s*syntax\s*=\s*docker/dockerfile(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?\s*", re.IGNORECASE)
_STAGE = pattern(r"[a-z][a-z0-9_.-]*", re.IGNORECASE)
_NUMBER = pattern(r"0|[1-9][0-9]{0,3}")
_VARIABLE = pattern(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_ARGUMENT = pattern(r"""([A-Za-z_][A-Za-z0-9_]*)=(?:"([^"$\\]*)"|'([^'$\\]*)'|([^\s"'$\\]*))(?=\s|$)""")
_EVERYTHING = (".",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dockerfile:
    """The bytes of a Dockerfile.odek and of its .dockerignore, read once: what is approved is what is built."""

    data: bytes
    ignore: bytes = b""
    """what a build leaves out; empty where there is no such file"""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def ignore_sha256(self) -> str:
        """ "" where nothing is left out"""
        return hashlib.sha256(self.ignore).hexdigest() if self.ignore else ""

    @property
    def tag(self) -> str:
        return image_tag(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a build reads besides the Dockerfile."""

    bases: tuple[str, ...]
    """references after FROM, stages and `scratch` left out, in their order"""
    sources: tuple[str, ...]
    """paths in the working directory that are copied or mounted; "." stands for all of it"""


@dataclass(slots=True)
class _Stages:
    """The stages above the instruction that is looked at, the one it belongs to left out."""

    names: set[str]
    count: int = 0
    current: str = ""

    def begin(self, name: str) -> None:
        if self.current:
            self.names.add(self.current)
        self.current = name
        self.count += 1

    def has(self, text: str) -> bool:
        """Return whether `text` names an earlier stage, by name or by number."""
        if _NUMBER.fullmatch(text):
            return int(text) < self.count - 1
        return text.lower() in self.names


def image_tag(data: bytes) -> str:
    """Return the tag of the image that is built from these bytes (R-36)."""
    return f"{REPOSITORY}:{hashlib.sha256(data).hexdigest()[:12]}"


def lint(data: bytes) -> None:
    """Refuse what would reach the network although the build has none.

    Raises SandboxConfigError; its message holds the number and the text of the line.
    """
    text = decode(data)
    for number, comment in leading_comments(text):
        if _DIRECTIVE.match(comment):
            raise refuse(number, comment, "is a parser directive, which could change the builder", hint=_drop(comment))
    for reading in read_instructions(text):
        stages = _Stages(names=set())
        for instruction in reading:
            _check(instruction, stages)
        if not stages.count:
            raise SandboxConfigError(f"{NAME} holds no FROM", hint="begin it with FROM and an image")


def names_front_end(data: bytes) -> bool:
    """Return whether a directive may make another program than Docker's own read the file."""
    return any(
        _DIRECTIVE.match(comment) and not _OWN_FRONT_END.fullmatch(comment)
        for _, comment in leading_comments(decode(data))
    )


def read_inputs(data: bytes) -> Inputs:
    """Return what a build from `data` reads. Raises SandboxConfigError where that is not known."""
    arguments: dict[str, str] = {}
    bases: list[str] = []
    sources: list[str] = []
    stages = _Stages(names=set())
    readings = read_instructions(decode(data))
    for instruction in readings[0]:
        if instruction.in_heredoc:
            continue
        if instruction.word == "ARG" and not stages.count:
            arguments.update(_defaults(instruction.rest))
        elif instruction.word == "FROM":
            reference, name = _parse_from(instruction)
            earlier = stages.names | {stages.current}
            if reference.lower() not in (*earlier, "scratch"):
                bases.append(_base(instruction, reference, arguments))
            stages.begin(name)
        else:
            sources += _sources(instruction)
    everything = len(readings) > 1 or any(source in (".", "./", "/", "*") for source in sources)
    return Inputs(
        bases=tuple(dict.fromkeys(bases)), sources=_EVERYTHING if everything else tuple(dict.fromkeys(sources))
    )


def _check(instruction: Instruction, stages: _Stages) -> None:
    word = instruction.word
    if word not in INSTRUCTIONS:
        if not instruction.in_heredoc:
            raise refuse(
                instruction.line, instruction.text, "is not an instruction that odek knows", hint=_CHECK_SPELLING
            )
        return
    if word == "ONBUILD":
        raise refuse(instruction.line, instruction.text, "runs later, in builds that were not approved", hint=_HINT)
    if word == "FROM":
        _check_from(instruction, stages)
    elif word in ("ADD", "COPY", "RUN"):
        for flag in instruction.flags:
            _check_flag(instruction, flag, stages)
        if word == "ADD":
            _check_add(instruction)


_DROP_PLATFORM = f"leave --platform out, or allow the build the network with {SWITCH}=1"
_CHECK_SPELLING = "check its spelling; what belongs to the line above needs a backslash at the end of that"


def _check_from(instruction: Instruction, stages: _Stages) -> None:
    if instruction.flags:
        # the images of one name for other processors are others, with ONBUILD instructions of their own
        raise refuse(instruction.line, instruction.text, "asks for another platform", hint=_DROP_PLATFORM)
    if not instruction.in_heredoc:
        stages.begin(_parse_from(instruction)[1])
    elif re.fullmatch(r"\S+(?:\s+as\s+\S+)?", instruction.rest, re.IGNORECASE):
        # a builder that knows no here-documents would begin a stage here
        raise refuse(instruction.line, instruction.text, "is in a here-document", hint="move it out of there")


def _check_flag(instruction: Instruction, flag: str, stages: _Stages) -> None:
    if re.search(r"""["'\\]|[^\x20-\x7e]""", flag):
        raise refuse(
            instruction.line, instruction.text, "hides a flag behind quotes or backslashes",
            hint="write the flags without any",
        )  # fmt: skip
    name, _, value = flag.lower().partition("=")
    if name == "--network" and value != "none":
        raise refuse(instruction.line, instruction.text, "asks for a network", hint=_HINT)
    if name == "--from" and not stages.has(value):
        raise refuse(
            instruction.line, instruction.text, "copies from what is not an earlier stage; Docker would pull it",
            hint="name the image in a FROM … AS stage of its own, and copy from that",
        )  # fmt: skip
    if name == "--mount":
        for field in value.split(","):
            key, _, part = field.partition("=")
            if "$" in key or (key.strip() == "from" and not stages.has(part)):
                raise refuse(
                    instruction.line, instruction.text, "mounts from something that is not an earlier stage",
                    hint="name the image in a FROM … AS stage of its own, and mount from that",
                )  # fmt: skip


def _check_add(instruction: Instruction) -> None:
    # an address needs a colon or is the old short form of a git host; a variable may hold either
    if re.search(r"[:$\\]|github\.com/", instruction.rest, re.IGNORECASE):
        raise refuse(instruction.line, instruction.text, "may fetch from an address", hint=_HINT)


def _parse_from(instruction: Instruction) -> tuple[str, str]:
    """Return (reference, name of the stage in lower case or "")."""
    words = instruction.rest.split()
    if len(words) == 3 and words[1].lower() == "as" and _STAGE.fullmatch(words[2]):
        return words[0], words[2].lower()
    if len(words) != 1:
        raise refuse(instruction.line, instruction.text, "is not a FROM", hint="write FROM IMAGE [AS STAGE]")
    return words[0], ""


def _base(instruction: Instruction, reference: str, arguments: Mapping[str, str]) -> str:
    expanded = _VARIABLE.sub(lambda match: arguments.get(match[1] or match[2], "$"), reference)
    if "$" in expanded:
        raise refuse(
            instruction.line, instruction.text, "does not say which image it builds on",
            hint="write the image out, or give the variable a plain value by an ARG above the first FROM",
        )  # fmt: skip
    try:
        return parse_reference(expanded, f"{NAME} line {instruction.line}")
    except GrammarError as error:  # here it is not a setting
        raise SandboxConfigError(error.message, hint=error.hint) from error


def _defaults(rest: str) -> dict[str, str]:
    return {match[1]: match[2] or match[3] or match[4] or "" for match in _ARGUMENT.finditer(rest)}


def _sources(instruction: Instruction) -> tuple[str, ...]:
    """Return the paths of the working directory that an instruction reads; "." when they are not known."""
    flags = tuple(flag.lower() for flag in instruction.flags)
    if instruction.word == "RUN":
        # bind is what a mount is that does not say what it is
        mounts = (flag for flag in flags if flag.startswith("--mount=") and "from=" not in flag)
        return _EVERYTHING if any("type=" not in flag or "type=bind" in flag for flag in mounts) else ()
    if instruction.word not in ("ADD", "COPY") or any(flag.startswith("--from=") for flag in flags):
        return ()
    words = _words(instruction.rest)
    if any(re.search(r"""["'\\$]""", word) for word in words):
        return _EVERYTHING
    return tuple(word for word in words[:-1] if not word.startswith("<<") and "://" not in word)


def _words(rest: str) -> tuple[str, ...]:
    if rest.startswith("["):
        try:
            listed = json.loads(rest)
        except ValueError:
            return tuple(rest.split())
        if isinstance(listed, list) and all(isinstance(item, str) for item in listed):
            return tuple(listed)
    return tuple(rest.split())


def _drop(comment: str) -> str:
    return f"remove the line, or allow the build the network with {SWITCH}=1" if comment else ""
