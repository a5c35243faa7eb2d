"""The output streams of odek in memory, with or without somebody who looks at them."""

from __future__ import annotations

import io

from odek.cli.terminal import Terminal


class Stream(io.StringIO):
    """Text that was printed; says of itself whether it is a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


class Screen:
    """A Terminal and what was printed on it."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        self._stdout, self._stderr = Stream(is_terminal=is_terminal), Stream(is_terminal=is_terminal)
        self.terminal = Terminal(self._stdout, self._stderr)

    @property
    def stdout(self) -> str:
        return self._stdout.getvalue()

    @property
    def stderr(self) -> str:
        return self._stderr.getvalue()
