"""How much of a command is examined, and the error beyond it."""

from __future__ import annotations

from dataclasses import dataclass

MAX_DEPTH = 30  # nested constructs; a level costs up to a dozen Python frames of the thousand there are
MAX_PIECES = 12_000  # words, parts and operators: a fraction of a second; hand-written commands have dozens


class ParseError(Exception):
    """The text is not a shell script, or one that is too deep or too long to be judged (`limit`)."""

    limit = False


class TooComplex(ParseError):
    """The text is beyond a limit of ours; a shell may run it nevertheless."""

    limit = True


@dataclass(slots=True)
class Budget:
    """What is left to spend on one command line, its nested payloads included."""

    pieces: int = MAX_PIECES
    depth: int = 0

    def spend(self, pieces: int = 1) -> None:
        """Note `pieces` more. Raises ParseError when there are too many."""
        self.pieces -= pieces
        if self.pieces < 0:
            raise TooComplex("has more parts than are examined")

    def enter(self) -> None:
        """Note one more level. Raises ParseError when it is too deep."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooComplex("is nested too deeply to be examined")

    def leave(self) -> None:
        """Note that a level ended."""
        self.depth -= 1
