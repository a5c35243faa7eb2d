"""odek __complete KIND WORD…: what the completion scripts ask, one value a line, a tab, and what it is.

It says nothing but that: in a shell where a person has pressed Tab, each further word would land in the command line.
"""

from __future__ import annotations

from odek.app.candidates import KINDS, find_candidates
from odek.cli.terminal import Terminal
from odek.errors import OdekError
from odek.host import Host


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print what fits the last of the words after the kind; 1 and nothing where that is not known."""
    kind, *words = arguments or [""]
    if kind not in KINDS or not words:
        return 1
    try:
        found = find_candidates(kind, words, host)
    except OdekError:
        return 1
    terminal.stream("".join(f"{value}\t{text}\n" for value, text in found))
    return 0
