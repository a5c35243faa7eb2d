"""What the tools of servers are called for the model (R-197). Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

from odek.patterns import pattern

SEPARATOR = "__"
"""in no name of a server and of no built-in tool, so that neither can be mistaken for the other"""
LIMIT = 64
"""characters that every provider takes"""
_DIGITS = 8
_NOT_TAKEN = pattern(r"[^A-Za-z0-9_-]")


def tool_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the name for each (server, tool), in the order of the names: requests stay the same from run to run.

    Of a long name head and tail stay, and a digest of the whole stands for its middle. Names that are equal get the
    digest, too; those that still are, made so by an author, are left out.
    """
    plain = {tool: _plain(tool) for tool in tools}
    short = {tool: name if len(name) <= LIMIT else _with_digest(tool, name) for tool, name in plain.items()}
    once = Counter(short.values())
    names = {tool: name if once[name] == 1 else _with_digest(tool, plain[tool]) for tool, name in short.items()}
    count = Counter(names.values())
    return {tool: name for tool, name in sorted(names.items(), key=lambda item: item[1]) if count[name] == 1}


def possible_names(tool: tuple[str, str]) -> frozenset[str]:
    """Return the names that a (server, tool) may get; which of them depends on the other tools."""
    return frozenset((_plain(tool), _with_digest(tool, _plain(tool))))


def _plain(tool: tuple[str, str]) -> str:
    return f"{tool[0]}{SEPARATOR}{_NOT_TAKEN.sub('_', tool[1])}"


def _with_digest(tool: tuple[str, str], name: str) -> str:
    """Return `name` with the digest of `tool` behind it, or in its middle where that would be too long."""
    text = "\0".join(tool).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(text).hexdigest()[:_DIGITS]
    if len(name) + 1 + _DIGITS <= LIMIT:
        return f"{name}_{digest}"
    side = (LIMIT - _DIGITS - 2) // 2
    return f"{name[:side]}_{digest}_{name[-side:]}"
