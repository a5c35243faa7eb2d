"""The tree of a shell script, as far as classification needs it. Types only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as Choice

from odek.patterns import pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Characters that stand for themselves; unquoted ones may still be globs, braces or a tilde."""

    text: str
    quoted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """`$name` or `${name…}`."""

    name: str
    operator: str
    """what follows the name inside the braces: ":-", "#", "/", "length", "indirect"…; "" for none"""
    argument: Word | None
    quoted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitution:
    """`$(…)` or backticks."""

    script: Script
    quoted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """`$((…))`: a number; its parts are evaluated for what they run."""

    content: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """`<(…)` or `>(…)`: a file name for a pipe."""

    script: Script
    is_fed: bool = False
    """whether the command is fed to the script, `>(…)`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """The right-hand side of `name=(…)`."""

    words: tuple[Word, ...]


Part = Text | Parameter | Substitution | Arithmetic | Process | Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word before expansion."""

    parts: tuple[Part, ...]


@dataclass(slots=True, kw_only=True)
class Redirect:
    """One redirection; a here-document carries its body, which is read after its line, as target."""

    operator: str
    target: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """`name=value` in front of a command, or alone."""

    name: str
    value: Word
    append: bool
    subscript: bool = False
    """whether it is an element that is set, `name[…]=value`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simple:
    """A program or builtin with its words."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


Kind = Choice["subshell", "group", "if", "loop", "for", "case", "function", "test", "arithmetic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compound:
    """Any other command.

    if: condition and body in turn, the `else` body last. loop: condition, body. for: body; `name` is
    the variable, `words` the list. case: the bodies; `words` the subject and all patterns. function:
    body; `name` is its name. test, arithmetic: `words` only.
    """

    kind: Kind
    name: str = ""
    words: tuple[Word, ...] = ()
    scripts: tuple[Script, ...] = ()
    redirects: tuple[Redirect, ...] = ()


Command = Simple | Compound


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Commands joined by `|` or `|&`."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AndOr:
    """Pipelines joined by `&&` and `||`; `operators[i]` comes before `pipelines[i + 1]`."""

    pipelines: tuple[Pipeline, ...]
    operators: tuple[str, ...]
    background: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A list of commands, in the order in which they are written."""

    items: tuple[AndOr, ...]


_ASSIGNMENT = pattern(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?(\+?)=")
_SUBSCRIPT = pattern(r"[A-Za-z_][A-Za-z0-9_]*\[")


def parse_assignment(word: Word) -> Assignment | None:
    """Return `word` as `name=value`, or None when it is none."""
    first = word.parts[0]
    if not isinstance(first, Text) or first.quoted:
        return None
    match = _ASSIGNMENT.match(first.text)
    if match:
        rest = first.text[match.end() :]
        head = (Text(text=rest, quoted=False),) if rest else ()
        return Assignment(
            name=match[1], value=Word(parts=(*head, *word.parts[1:])), append=bool(match[3]), subscript=bool(match[2])
        )
    if _SUBSCRIPT.match(first.text) and any(
        isinstance(part, Text) and not part.quoted and ("]=" in part.text or "]+=" in part.text) for part in word.parts
    ):  # a[$(…)]=value: the subscript is evaluated like the value
        return Assignment(
            name=first.text.partition("[")[0], value=Word(parts=word.parts[1:]), append=True, subscript=True
        )
    return None


def literal_text(word: Word) -> str | None:
    """Return the text of a word without expansions, quotes removed; None for any other word."""
    if all(isinstance(part, Text) for part in word.parts):
        return "".join(part.text for part in word.parts if isinstance(part, Text))
    return None
