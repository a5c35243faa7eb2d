"""One simple command under examination, and what rules may do with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from odek.danger.paths import Place, Reading, is_irreplaceable, resolve
from odek.danger.risk import Hosts, RiskClass, Scope
from odek.danger.shell import abstract_text
from odek.danger.shell.state import ShellState


class RuleContext(Protocol):
    """Takes findings, and judges what a command runs in turn."""

    @property
    def place(self) -> Place: ...

    @property
    def assigned(self) -> Collection[str]:
        """names of all variables that were set for some command"""
        ...

    def assign(self, name: str) -> None:
        """Note that a variable is set, for one command or permanently."""
        ...

    def add(
        self, level: RiskClass, rule: str, reason: str, *, scope: Scope = Scope.WORKSPACE, hosts: Hosts = None
    ) -> None:
        """Note a finding; the words are those of Finding."""
        ...

    def note(self, words: Sequence[str]) -> None:
        """Note a plainer spelling of the command, for denylists."""
        ...

    def write(self, path: str, state: ShellState) -> None:
        """Note that the file `path` is written, created or removed."""
        ...

    def read(self, path: str, state: ShellState, how: Reading) -> None:
        """Note that the file `path` is read."""
        ...

    def run(self, argv: Sequence[str], state: ShellState, *, stdin: str | None, ignore_unknown: bool) -> str:
        """Check a command made of words; return what it prints. `ignore_unknown`: unknown programs do not count."""
        ...

    def text(self, text: str, state: ShellState, *, stdin: str | None) -> None:
        """Check shell text."""
        ...


@dataclass(slots=True, kw_only=True)
class Call:
    """A program with its arguments."""

    context: RuleContext
    state: ShellState
    program: str
    """its plain name, versions and system directories removed"""
    argv: tuple[str, ...]
    """as written, expanded"""
    stdin: str | None
    """what is fed to it by a pipe or a redirection, as far as known; None for nothing"""
    secrets: frozenset[str] = field(default_factory=frozenset)
    """secret-looking variables among the words"""
    hosts: Hosts = None
    """every host that it talks to, if that is certain; rules set it"""
    output: str = abstract_text.ANY
    """what it prints, for substitutions and pipes; rules set it"""

    @property
    def arguments(self) -> tuple[str, ...]:
        """the words after the program"""
        return self.argv[1:]

    def add(self, level: RiskClass, rule: str, reason: str, *, scope: Scope = Scope.WORKSPACE) -> None:
        """Note a finding; `rule` is prefixed with the program's name."""
        if level is RiskClass.NETWORK_EGRESS:
            scope = Scope.NETWORK
        self.context.add(
            level, f"{self.program}.{rule}" if rule else self.program, reason, scope=scope, hosts=self.hosts
        )

    def write(self, *paths: str) -> None:
        """Note files that are written; "-" is a stream."""
        for path in paths:
            if path not in ("-", ""):
                self.context.write(path, self.state)

    def read(self, *words: str, how: Reading = "contents") -> None:
        """Note words that may name files, also after `=`, `@`, `:` or a short option."""
        for word in words:
            for path in path_candidates(word):
                self.context.read(path, self.state, how)

    def why_irreplaceable(self, path: str) -> str:
        """Return what is lost when the tree at `path` goes, as the end of a sentence; "" for less (R-296).

        On the host that includes what `path` is when a variable is empty, as none of this command gives it a value
        (R-364): `"$X"/` is the root then. In a sandbox that is the class of any other deletion.
        """
        place, state = self.context.place, self.state
        if any(is_irreplaceable(resolve(path, cwd), place) for cwd in state.cwds):
            return ", which nothing brings back"
        if place.sandboxed:
            return ""
        unknown = abstract_text.holds_unknown(path)
        known, cwds = (abstract_text.emptied(path), state.cwds) if unknown else (path, ())
        for place_of in (resolve(known, cwd) for cwd in (*cwds, *state.emptied) if known):
            if is_irreplaceable(place_of, place):
                where = abstract_text.rendered(place_of)
                return f': {where} where a variable is empty, which nothing brings back; "${{NAME:?}}" stops there'
        return ""

    def run(self, argv: Sequence[str], *, stdin: str | None = None, ignore_unknown: bool = False) -> str:
        """Check a command that this one runs with the given words."""
        return (
            self.context.run(argv, self.state, stdin=stdin, ignore_unknown=ignore_unknown)
            if argv
            else abstract_text.ANY
        )

    def shell(self, text: str, state: ShellState | None = None, *, stdin: str | None = None) -> None:
        """Check shell text that this command runs."""
        self.context.text(text, state or self.state, stdin=stdin)


Rule = Callable[[Call], None]
"""judges one kind of program"""


def path_candidates(word: str) -> tuple[str, ...]:
    """Return the texts in `word` that may be paths."""
    candidates = [word]
    if word.startswith("-") and not word.startswith("--") and len(word) > 2:
        candidates.append(word[2:])
    for separator in "=@:":
        if separator in word[:256]:
            candidates.append(word.partition(separator)[2])
    return tuple(candidate for candidate in candidates if candidate)
