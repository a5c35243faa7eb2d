"""Files of the project that a program obeys on the host: the rows of obeyed.txt."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from odek.danger.datafile import read_data, rows_of
from odek.danger.paths import resolve
from odek.danger.risk import NotUnderstood

if TYPE_CHECKING:
    from odek.danger.host.places import Places


@cache
def obeyed() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Return the table: "npm version" → files, each with what must not be found in it; "": it must not be there."""
    import odek.danger.host

    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for row in rows_of(read_data(odek.danger.host, "obeyed.txt")):
        programs, file, pattern = (part.strip() for part in f"{row} ".split(" | ", 2))
        re.compile(pattern)
        for program in programs.split(","):
            found[program.strip()] = (*found.get(program.strip(), ()), (file, pattern))
    return found


def require_own_code(places: Places, program: str, subcommand: Sequence[str], cwds: Sequence[str]) -> None:
    """Raise NotUnderstood when a file of the project may make `program` run other code than its own."""
    table = obeyed()
    rows = [row for length in range(3) for row in table.get(" ".join((program, *subcommand[:length])), ())]
    if not rows:
        return
    for cwd in cwds:
        if not places.is_ours(posixpath.join(cwd, "x"), ("/",)):
            raise NotUnderstood(f"{program} works in a folder that is not the project's")
        folder = resolve(cwd, "/")
        while places.is_ours(folder, ("/",)):
            for file, pattern in dict.fromkeys(rows):
                places.require_harmless(posixpath.join(folder, file), pattern)
            folder = posixpath.dirname(folder)
