"""The rows of programs.txt, and the words of one command laid out by a row. Pure.

A row is `PROGRAMS | OPTIONS | OPERANDS`; the head of programs.txt explains the three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from odek.danger.datafile import read_data, rows_of
from odek.danger.risk import NotUnderstood
from odek.danger.shell import abstract_text
from odek.patterns import pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """One option: the kind of its value, if it has one."""

    kind: str = ""
    attached: bool = False
    """whether the value is optional, and then part of the same word"""
    mode: str = ""
    """what the option changes about the operands, "" for nothing"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One program, or one subcommand of a program."""

    name: str
    options: Mapping[str, OptionRow]
    operands: tuple[str, ...]
    whole: bool
    """whether options with one dash are words, as in `find -name`"""
    stops: bool
    """whether everything after the first operand is one"""
    globs: bool
    """whether none of its options does harm, so that files with the names of options do none"""
    links: bool
    """whether it may make links, or move what holds some, so that what follows leads elsewhere"""
    changes: bool
    """whether it changes files that no operand names"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What the words of a command are, by its row."""

    values: tuple[tuple[str, str, str], ...]
    """option, kind and value"""
    operands: tuple[str, ...]
    modes: frozenset[str]
    options: frozenset[str] = field(default_factory=frozenset)


_SHORT = pattern(r"-[A-Za-z0-9@%#?,]+")
_OPTION = pattern(r"(?P<name>-{1,2}[^=\[@]+|\+[a-z]|-@)(?P<open>\[)?(?:=(?P<kind>[^\]@]+))?\]?(?:@(?P<mode>\w+))?")
_WORDS = ("WHOLE", "STOPS", "LINKS", "CHANGES", "GLOBS", "none")
_DIGITS = pattern(r"-[0-9]+")


@cache
def rows() -> Mapping[str, Row]:
    """Return the table: "ls", "git log" → its row. The file is read once, when something is asked for."""
    import odek.danger.host

    return parse_rows(read_data(odek.danger.host, "programs.txt"))


def parse_rows(text: str) -> dict[str, Row]:
    """Return the rows in `text`."""
    names: dict[str, str] = {}
    found: dict[str, Row] = {}
    for line in rows_of(text):
        if line.startswith("$"):
            name, _, options = line.partition(" = ")
            names[name] = options
            continue
        programs, options, operands = (part.strip() for part in line.split(" | "))
        options = " ".join(names.get(word, word) for word in options.split())
        words = operands.split()
        for program in map(str.strip, programs.split(",")):
            if program in found:
                raise ValueError(f"{program} has two rows")
            found[program] = Row(
                name=program,
                options=_options(options, whole="WHOLE" in words),
                operands=tuple(word for word in words if word not in _WORDS),
                whole="WHOLE" in words,
                stops="STOPS" in words,
                links="LINKS" in words,
                changes="CHANGES" in words,
                globs="GLOBS" in words,
            )
    return found


def _options(text: str, *, whole: bool) -> dict[str, OptionRow]:
    options: dict[str, OptionRow] = {}
    for word in text.replace("none", "", int(text == "none")).split():
        match = _OPTION.fullmatch(word)
        if match is None:
            raise ValueError(f"{word} is not an option")
        row = OptionRow(kind=match["kind"] or "", attached=bool(match["open"]), mode=match["mode"] or "")
        name = match["name"]
        if _SHORT.fullmatch(name) and not row.kind and not whole and name != "-NUM":
            options.update((f"-{letter}", row) for letter in name[1:])
        else:
            options[name] = row
    return options


def lay_out(row: Row, words: Sequence[str], is_option: Callable[[str], bool] = lambda _: True) -> Layout:
    """Return what `words` are by `row`. Raises NotUnderstood for an option that is not listed.

    `is_option` says whether a word that begins with a glob may name a file that is taken for an option.
    """
    reader = _Words(row, list(words), is_option)
    reader.read()
    return Layout(
        values=tuple(reader.values),
        operands=tuple(reader.operands),
        modes=frozenset(reader.modes),
        options=frozenset(reader.options),
    )


class _Words:
    def __init__(self, row: Row, words: list[str], is_option: Callable[[str], bool]) -> None:
        self._row = row
        self._words = words
        self._plain = row.operands == ("any*",)
        self._glob = is_option
        self.values: list[tuple[str, str, str]] = []
        self.operands: list[str] = []
        self.modes: set[str] = set()
        self.options: set[str] = set()

    def read(self) -> None:
        index = 0
        if self._plain:
            self.operands = self._words
            return
        while index < len(self._words):
            word = self._words[index]
            index += 1
            if word == "--":
                self.operands += self._words[index:]
                return
            if not self._is_option(word):
                self.operands.append(word)
                if self._row.stops:
                    self.operands += self._words[index:]
                    return
                continue
            index += self._option(word, self._words[index : index + 1])

    def _is_option(self, word: str) -> bool:
        first = word[:1]
        if first in (abstract_text.ANY, abstract_text.SPLIT, abstract_text.NAME, abstract_text.EITHER):
            raise NotUnderstood(f"a word of {self._row.name} cannot be known beforehand, and may be an option")
        if first in abstract_text.GLOBS and self._glob(word):
            raise NotUnderstood(
                f"a file that {abstract_text.rendered(word)} names may be taken for an option of {self._row.name}"
            )
        return len(word) > 1 and (first == "-" or (first == "+" and word[:2] in self._row.options))

    def _option(self, word: str, following: list[str]) -> int:
        """Note the option(s) in `word`; return how many further words were used."""
        if _DIGITS.fullmatch(word) and "-NUM" in self._row.options:
            return 0
        name, equals, value = word.partition("=")
        if word.startswith("--") or self._row.whole:
            return self._long(name, value if equals else None, following)
        for position in range(1, len(word)):
            letter = word[0] + word[position]
            option = self._known(letter)
            rest = word[position + 1 :]
            if option.attached:
                self._value(letter, option, rest)
                return 0
            if option.kind:
                self._value(letter, option, rest or self._next(letter, following))
                return int(not rest)
        return 0

    def _long(self, name: str, value: str | None, following: list[str]) -> int:
        option = self._known(name)
        if not option.kind:
            if value is not None:
                raise NotUnderstood(f"option {name} of {self._row.name} is not known to take a value")
            return 0
        if option.attached:
            if value is not None:
                self._value(name, option, value)
            return 0
        self._value(name, option, self._next(name, following) if value is None else value)
        return int(value is None)

    def _next(self, name: str, following: list[str]) -> str:
        if not following:
            raise NotUnderstood(f"option {name} of {self._row.name} lacks its value")
        return following[0]

    def _known(self, name: str) -> OptionRow:
        option = self._row.options.get(name)
        if option is None:
            raise NotUnderstood(
                f"option {abstract_text.rendered(name)} of {self._row.name} is not known to be harmless"
            )
        self.options.add(name)
        if option.mode:
            self.modes.add(option.mode)
        return option

    def _value(self, name: str, option: OptionRow, value: str) -> None:
        self.values.append((name, option.kind, value))
