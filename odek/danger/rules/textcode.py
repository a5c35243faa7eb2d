"""The small languages of `sed` and `awk`, read as far as their effects. Pure."""

from __future__ import annotations

import re

_AWK_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_AWK_REGEX = re.compile(r"(?<=[~(,!&|{;\s])/(?:[^/\\\n]|\\.)*/|^/(?:[^/\\\n]|\\.)*/")
_AWK_RUNS = re.compile(r"\bsystem\s*\(|\bgetline\b|(?<!\|)\|(?!\|)|\|&|@load|@include|\bBEGINFILE\b(?=.*/inet/)")
_AWK_CALL = re.compile(r"@\w+\s*\(")
_AWK_WRITES = re.compile(r"\bprintf?\b[^;}\n]*?>>?")


def program_runs(text: str) -> tuple[bool, bool]:
    """Return whether an awk program may run commands, and whether it writes files."""
    plain = _AWK_REGEX.sub("R", _AWK_STRING.sub('""', text))
    runs = bool(_AWK_RUNS.search(plain) or _AWK_CALL.search(plain)) or "/inet" in text
    return runs, bool(_AWK_WRITES.search(plain))


def sed_effects(script: str) -> tuple[bool, tuple[str, ...], tuple[str, ...]]:
    """Return whether a sed script runs commands, the files it writes and the files it reads.

    A script that cannot be followed counts as one that runs commands.
    """
    reader = _Sed(script)
    try:
        reader.read()
    except IndexError:
        reader.runs = True
    return reader.runs, tuple(reader.writes), tuple(reader.reads)


class _Sed:
    """Follows a script just far enough to know its commands (POSIX sed, GNU extensions)."""

    def __init__(self, script: str) -> None:
        self.text = script
        self.position = 0
        self.runs = False
        self.writes: list[str] = []
        self.reads: list[str] = []

    def read(self) -> None:
        """Go through the script. Raises IndexError where it ends too early."""
        while self.position < len(self.text):
            self._address()
            if self.position >= len(self.text):
                return
            self._command(self.text[self.position])

    def _address(self) -> None:
        while self.position < len(self.text):
            character = self.text[self.position]
            if character in " \t\n;,!+~0123456789${}":
                self.position += 1
            elif character in "/\\":
                self.position += 1 if character == "/" else 2
                self._delimited(self.text[self.position - 1], regex=True)
                while self.text[self.position : self.position + 1] in ("I", "M"):
                    self.position += 1
            else:
                return

    def _command(self, name: str) -> None:
        self.position += 1
        if name == "s":
            self._substitute()
        elif name == "y":
            delimiter = self._next()
            self._delimited(delimiter)
            self._delimited(delimiter)
        elif name in "aic:btTvlLqQ#":
            self._line(name)
        elif name == "e":
            self.runs = True
            self._rest_of_line()
        elif name in "wWrR":
            target = self._rest_of_line().strip()
            (self.writes if name in "wW" else self.reads).append(target)
        elif name not in "dDgGhHnNpPxzF=}{":
            self.runs = True
            self._rest_of_line()

    def _line(self, name: str) -> None:
        rest = self._rest_of_line() if name in "aic#:" else self._word()
        while name in "aic" and rest.endswith("\\") and self.position < len(self.text):
            rest = self._rest_of_line()

    def _substitute(self) -> None:
        delimiter = self._next()
        self._delimited(delimiter, regex=True)
        self._delimited(delimiter)
        while self.position < len(self.text):
            flag = self.text[self.position]
            if flag == "e":
                self.runs = True
            elif flag == "w":
                self.position += 1
                self.writes.append(self._rest_of_line().strip())
                return
            elif flag not in "gpiImM0123456789":
                return
            self.position += 1

    def _next(self) -> str:
        character = self.text[self.position]
        self.position += 1
        return character

    def _delimited(self, delimiter: str, *, regex: bool = False) -> None:
        while True:
            character = self._next()
            if character == "\\":
                self._next()
            elif character == delimiter:
                return
            elif character == "[" and regex:  # a delimiter inside brackets is literal
                self._bracket()

    def _bracket(self) -> None:
        if self.text[self.position] == "^":
            self.position += 1
        end = self.text.find("]", self.position + 1)
        line = self.text.find("\n", self.position)
        if end >= 0 and (line < 0 or end < line):
            self.position = end + 1

    def _word(self) -> str:
        start = self.position
        while self.position < len(self.text) and self.text[self.position] not in ";}\n":
            self.position += 1
        return self.text[start : self.position]

    def _rest_of_line(self) -> str:
        end = self.text.find("\n", self.position)
        end = len(self.text) if end < 0 else end
        rest = self.text[self.position : end]
        self.position = min(end + 1, len(self.text))
        return rest
