"""What a file of git's settings names: the folder of its hooks, further files of settings, programs. Pure.

git runs or obeys what stands there, whatever it is called. The reader is small and takes more for a path
rather than less: what it finds is looked at, never run.
"""

from __future__ import annotations

import re

from odek.patterns import pattern

LIMIT_BYTES = 256 << 10
MAX_NAMED = 100
_SECTION = pattern(r'\[\s*([A-Za-z0-9.-]+)\s*(?:"(?:[^"\\]|\\.)*")?\s*\]')
_ENTRY = pattern(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=(.*))?\Z", re.DOTALL)
# names and addresses, and the checkout itself: nothing there is run
_NOT_PATHS = frozenset(("remote", "branch", "submodule", "url", "user", "color"))
_NOT_PROGRAMS = frozenset(("core.worktree", "core.bare", "core.excludesfile", "extensions.worktreeconfig"))


def included(text: str) -> tuple[str, ...]:
    """Return the paths of further files of settings, as they are written."""
    return tuple(value for name, value in entries(text) if name in ("include.path", "includeif.path") and value)


def named(text: str) -> tuple[str, ...]:
    """Return what may be the path of something that git runs or obeys, as it is written, each once.

    A value counts as a whole and by its words: `core.fsmonitor = ./watch --fast`, `alias.x = "!sh tools/x.sh"`.
    """
    found: dict[str, None] = {}
    for name, value in entries(text):
        if name.partition(".")[0] in _NOT_PATHS or name in _NOT_PROGRAMS:
            continue
        for word in (value, *_words(value)):
            if word.strip("./") and len(found) < MAX_NAMED:
                found[word] = None
    return tuple(found)


def entries(text: str) -> tuple[tuple[str, str], ...]:
    """Return (section.key in lower case, value) of each line that sets something."""
    section = ""
    found = []
    for line in re.sub(r"\\\r?\n", "", text).splitlines():
        rest = line.strip()
        head = _SECTION.match(rest)
        if head:
            section = head[1].lower().partition(".")[0]
            rest = rest[head.end() :].strip()
        entry = _ENTRY.match(rest)
        if entry:
            found.append((f"{section}.{entry[1].lower()}", _value(entry[2] or "")))
    return tuple(found)


def _value(text: str) -> str:
    """Return a value without its quotes, escapes and the comment behind it."""
    value, quoted, index = "", False, 0
    text = text.strip()
    while index < len(text):
        character = text[index]
        if character == "\\" and index + 1 < len(text):
            index += 1
            value += {"n": "\n", "t": "\t", "b": ""}.get(text[index], text[index])
        elif character == '"':
            quoted = not quoted
        elif character in "#;" and not quoted:
            break
        else:
            value += character
        index += 1
    return value.strip()


def _words(value: str) -> list[str]:
    import shlex  # few settings name a program

    try:
        return shlex.split(value.removeprefix("!"))
    except ValueError:
        return value.split()
