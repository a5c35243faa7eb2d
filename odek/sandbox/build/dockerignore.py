"""What a .dockerignore leaves out of a build, in time that grows with the length of rule and path only (F14). Pure.

A rule is a path whose components may hold `*` and `?`; `**` stands for any number of components. Read as
a regular expression, `*a*a*a…` would be tried in more ways than anybody can wait for; here each piece is
looked for once, from left to right, which finds a match whenever there is one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

from odek.sandbox.errors import SandboxConfigError

IGNORE_FILE = ".dockerignore"
MAX_RULES = 1000  # each is tried on each file
_ANY = "**"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One component of a rule, cut at its stars: first and last piece stand at the ends of the name."""

    pieces: tuple[re.Pattern[str], ...]
    """each matches a text of one length, so it cannot be tried in two ways"""
    last_chars: int
    """length of what the last piece matches"""

    def matches(self, name: str) -> bool:
        first = self.pieces[0].match(name)
        if first is None:
            return False
        at = first.end()
        if len(self.pieces) == 1:
            return at == len(name)
        for piece in self.pieces[1:-1]:
            found = piece.search(name, at)
            if found is None:
                return False
            at = found.end()
        begin = len(name) - self.last_chars
        return begin >= at and self.pieces[-1].match(name, begin) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line."""

    groups: tuple[tuple[Component, ...], ...]
    """components that follow on each other; between two groups any number may stand"""
    needs_more: bool
    """whether it ends in `**`: what is below, and not the folder itself"""
    leaves_out: bool

    def matches(self, parts: Sequence[str]) -> bool:
        """Return whether the rule is about a path of these components, or about a folder that holds it."""
        at = _end_of(self.groups[0], parts, 0)
        for group in self.groups[1:]:
            starts = range(at, len(parts) - len(group) + 1) if at >= 0 else range(0)
            at = next((end for start in starts if (end := _end_of(group, parts, start)) >= 0), -1)
        return at >= 0 and (at < len(parts) or not self.needs_more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """The rules of a .dockerignore; the last one that matches decides."""

    rules: tuple[Rule, ...] = ()
    is_exact: bool = True
    """False: it holds what is not read here as Docker reads it"""

    @property
    def has_exceptions(self) -> bool:
        return any(not rule.leaves_out for rule in self.rules)

    def leaves_out(self, path: str) -> bool:
        """Return whether `path`, relative to the folder, stays out of the context."""
        parts = path.split("/")
        return next((rule.leaves_out for rule in reversed(self.rules) if rule.matches(parts)), False)


def parse_ignore(data: bytes) -> Ignore:
    """Return the rules of a .dockerignore.

    Not read as Docker does, and so not exact: character classes, backslashes, and `**` within a name.
    Raises SandboxConfigError above MAX_RULES.
    """
    text = data.decode("utf-8-sig", errors="replace")
    rules: list[Rule] = []
    is_exact = not re.search(r"[\[\\]", text)
    for line in text.split("\n"):
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        path = posixpath.normpath(pattern.removeprefix("!").strip()).lstrip("/")
        if path == ".":
            continue
        if len(rules) == MAX_RULES:
            raise SandboxConfigError(f"{IGNORE_FILE} holds more than {MAX_RULES} rules", hint="make it smaller")
        components = path.split("/")
        is_exact = is_exact and not any(_ANY in each and each != _ANY for each in components)
        rules.append(_rule(components, leaves_out=not pattern.startswith("!")))
    return Ignore(rules=tuple(rules), is_exact=is_exact)


def _rule(components: list[str], *, leaves_out: bool) -> Rule:
    groups: list[tuple[Component, ...]] = []
    group: list[Component] = []
    for each in components:
        if each == _ANY:
            groups.append(tuple(group))
            group = []
        else:
            group.append(_component(each))
    return Rule(groups=(*groups, tuple(group)), needs_more=components[-1] == _ANY, leaves_out=leaves_out)


def _component(text: str) -> Component:
    pieces = text.split("*")
    patterns = tuple(
        re.compile("".join("." if c == "?" else re.escape(c) for c in piece), re.DOTALL) for piece in pieces
    )
    return Component(pieces=patterns, last_chars=len(pieces[-1]))


def _end_of(group: tuple[Component, ...], parts: Sequence[str], start: int) -> int:
    """Return the index after `group` where its components are those from `start` on, -1 where they are not."""
    end = start + len(group)
    if end > len(parts):
        return -1
    return end if all(map(Component.matches, group, parts[start:end])) else -1
