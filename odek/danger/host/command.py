"""One command under judgement: its circumstances, and what its checks may ask of the rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from odek.danger.host.places import Places


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """The circumstances of one command."""

    cwds: tuple[str, ...]
    """the directories it may run in"""
    stdin: str | None
    """what is fed to it, as far as known"""
    fed_from: str = ""
    """the file that is fed to it"""
    fed_by: tuple[str, ...] = ()
    """the command whose output is fed to it"""
    row: str = ""
    modes: frozenset[str] = frozenset()
    depth: int = 0
    excluded: tuple[str, ...] = ()
    """names that a reader of a tree leaves out, as `grep --exclude` has it"""


class Commands(Protocol):
    """The rule as the checks of words see it (rule.HostRule): they judge places, and commands that a command runs."""

    places: Places

    def run(self, words: tuple[str, ...], at: At) -> None:
        """Check a command that another one runs. Raises NotUnderstood."""
        ...

    def note_links(self) -> None:
        """Note that from now on a path may lead elsewhere than it did when this was judged."""
        ...
