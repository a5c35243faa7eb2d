"""What a search may find, for commands that change or delete it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from odek.danger.shell import abstract_text
from odek.patterns import pattern

_ENDING = pattern(r"\*[\w-]*(\.[a-z0-9]+)")
_FOLDER = pattern(r"(?:\./)?[A-Za-z0-9_][\w-]*(?:/[\w-]+)*/?")
_LOOSENING = frozenset(("-o", "-or", "!", "-not", ",", "(", ")"))


def changeable(words: Sequence[str]) -> tuple[tuple[str, ...], str] | None:
    """Return the folders in which the search `words` looks, and how the names end that it finds.

    None for a search that may find anything: `find .`, `grep -rl x`.
    """
    if not words or not all(map(abstract_text.is_exact, words)):
        return None
    if words[0] in ("find", "gfind"):
        starts = []
        for word in words[1:]:
            if word.startswith(("-", "(", "!")):
                break
            starts.append(word)
        names = [words[i + 1] for i, word in enumerate(words[:-1]) if word in ("-name", "-iname")]
        match = _ENDING.fullmatch(names[0]) if len(names) == 1 and not _LOOSENING & set(words) else None
        ending = match[1] if match else ""
        if not ending and not all(map(_FOLDER.fullmatch, starts or ["."])):
            return None
        return tuple(starts) or (".",), ending
    operands = [word for word in words[1:] if not word.startswith("-")]
    folders = operands[2:] if words[0] == "git" else operands[1:]
    if (
        words[0] not in ("grep", "egrep", "fgrep", "rg", "git")
        or not folders
        or not all(map(_FOLDER.fullmatch, folders))
    ):
        return None
    return tuple(folders), ""
