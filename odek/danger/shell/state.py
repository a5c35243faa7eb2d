"""What is known about the shell while a command line is followed: variables, directories, functions.

Where two ways lead to one place (a branch, a failed `cd`), the states are joined: a variable or a
directory then has several candidates. Everything is capped, so a copy costs little.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odek.danger.shell import abstract_text
from odek.danger.shell.syntax import Compound

MAX_VARIABLES = 64  # more are not followed: their values count as unknown
MAX_CANDIDATES = 8

Values = tuple[str, ...]
UNKNOWN: Values = (abstract_text.ANY,)


@dataclass(slots=True, kw_only=True)
class ShellState:
    """The state of one shell or subshell."""

    cwds: Values
    """the directories it may be in, absolute or abstract_text.ANY"""
    emptied: Values = ()
    """those where what is unknown of a `cd` is empty"""
    variables: dict[str, Values] = field(default_factory=dict)
    functions: dict[str, Compound] = field(default_factory=dict)
    maybe: set[str] = field(default_factory=set)
    """functions that are not defined, or are others, on some way to this state"""
    arguments: Values | None = ()
    """`$@`; None when unknown"""
    splits_oddly: bool = False
    """whether IFS was changed"""

    def copy(self) -> ShellState:
        """Return an independent copy."""
        return ShellState(
            cwds=self.cwds,
            emptied=self.emptied,
            variables=dict(self.variables),
            functions=dict(self.functions),
            maybe=set(self.maybe),
            arguments=self.arguments,
            splits_oddly=self.splits_oddly,
        )

    def assign(self, name: str, values: Values) -> None:
        """Give a variable its candidates."""
        kept = values if len(values) <= MAX_CANDIDATES else UNKNOWN
        if name in self.variables or len(self.variables) < MAX_VARIABLES:
            self.variables[name] = kept
        else:  # reading it must not fall back to what the environment is known to hold
            self.variables.setdefault("", UNKNOWN)

    def become(self, other: ShellState) -> None:
        """Take over the state of `other`."""
        self.cwds, self.variables, self.functions = other.cwds, other.variables, other.functions
        self.maybe, self.emptied = other.maybe, other.emptied
        self.arguments, self.splits_oddly = other.arguments, other.splits_oddly

    def join(self, other: ShellState) -> None:
        """Note that the state may also be `other`."""
        self.cwds = _union(self.cwds, other.cwds)
        self.emptied = tuple(dict.fromkeys((*self.emptied, *other.emptied)))[:MAX_CANDIDATES]
        for name in {*self.variables, *other.variables}:
            mine, theirs = self.variables.get(name, UNKNOWN), other.variables.get(name, UNKNOWN)
            if mine != theirs:
                self.variables[name] = _union(mine, theirs)
        names = {*self.functions, *other.functions}
        self.maybe |= other.maybe
        self.maybe |= {name for name in names if self.functions.get(name) is not other.functions.get(name)}
        self.functions = {**other.functions, **self.functions}
        self.splits_oddly = self.splits_oddly or other.splits_oddly
        if self.arguments != other.arguments:
            self.arguments = None


def _union(first: Values, second: Values) -> Values:
    merged = tuple(dict.fromkeys((*first, *second)))
    return merged if len(merged) <= MAX_CANDIDATES else UNKNOWN
