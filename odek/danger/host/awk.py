"""Programs of awk that only compute and print. Pure.

Every token is read; what could run a command, open a file or show the environment has none.
"""

from __future__ import annotations

import re

from odek.danger.risk import NotUnderstood
from odek.patterns import pattern

_SPACE = pattern(r"[ \t]+|\\\n")
_STRING = pattern(r'"(?:[^"\\\n]|\\.)*"')
_REGEX = pattern(r"/(?:[^/\\\n\"\[]|\\[^\n]|\[\^?\]?(?:\[:\w+:\]|[^\]\[/\\\"\n])*\])+/")
_NUMBER = pattern(r"[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9]+")
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATOR = pattern(r"\+\+|--|\+=|-=|\*=|%=|\^=|==|<=|>=|!=|&&|\|\||!~|[-+*%^!<>~?:,;=(){}\[\]$\n]")
_FUNCTIONS = frozenset(
    """
    asort asorti atan2 cos exp gensub gsub index int length log match mktime rand sin split sprintf sqrt srand
    strftime sub substr systime tolower toupper
    """.split()
)
_STATEMENTS = frozenset(
    """
    BEGIN END break continue delete do else exit for if in next nextfile print printf while
    """.split()
)
_REFUSED = frozenset(
    """
    BEGINFILE ENDFILE ENVIRON FUNCTAB PROCINFO SYMTAB close fflush func function getline include load return system
    """.split()
)


def check_awk(text: str) -> None:
    """Raise NotUnderstood for a program of awk that may do more than compute and print."""
    reader = _Reader(text)
    while reader.position < len(text):
        reader.token()
    if reader.depth:
        raise NotUnderstood("awk does more than is understood here")


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0
        self._operand = False
        """whether the token before was a value, so that a slash divides"""
        self._unclear = False
        """whether it was `++` or `--`, after which a slash may do either"""
        self._prints = False
        """whether a print statement is open, in which `>` writes a file"""
        self._brackets = 0

    def token(self) -> None:
        """Read one token. Raises NotUnderstood."""
        if self._taken(_SPACE):
            return
        if self._taken(_STRING) or self._taken(_NUMBER):
            self._after(operand=True)
        elif self.text[self.position] == "#":
            end = self.text.find("\n", self.position)
            self.position = len(self.text) if end < 0 else end
        elif self.text[self.position] == "/":
            self._slash()
        elif word := self._taken(_NAME):
            self._word(word)
        elif operator := self._taken(_OPERATOR):
            self._operator(operator)
        else:
            self._refuse()

    def _slash(self) -> None:
        if self._unclear:
            self._refuse()
        if self._operand:
            self.position += 2 if self.text.startswith("/=", self.position) else 1
            self._after(operand=False)
        elif self._taken(_REGEX):
            self._after(operand=True)
        else:
            self._refuse()

    def _word(self, word: str) -> None:
        if word in _REFUSED:
            raise NotUnderstood(f"awk uses {word}")
        calls = re.match(r"[ \t]*\(", self.text[self.position :]) if word in _FUNCTIONS else None
        direct = self.text.startswith("(", self.position)
        if direct and word not in _FUNCTIONS | _STATEMENTS:
            raise NotUnderstood(f"awk calls {word}, which is not known to be harmless")
        if word in ("print", "printf"):
            self._prints, self._brackets = True, 0
        self._after(operand=word not in _STATEMENTS and not calls)

    def _operator(self, operator: str) -> None:
        if operator in "([":
            self._brackets += 1
        elif operator in ")]":
            self._brackets -= 1
        elif operator in "{}":
            self.depth += 1 if operator == "{" else -1
        if operator in (";", "}", "\n"):
            self._prints = False
        if operator == ">" and self._prints:
            raise NotUnderstood("awk writes a file")
        # after `if (x)` a slash begins a pattern, after `(x)` it divides
        self._after(operand=operator == "]", unclear=operator in ("++", "--", ")"))
        if operator == "$":
            self._unclear = True  # $/x/ is a field named by a pattern in one awk, and an error in another

    def _after(self, *, operand: bool, unclear: bool = False) -> None:
        self._operand, self._unclear = operand, unclear

    def _taken(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.position)
        if not match:
            return ""
        self.position = match.end()
        return match[0]

    def _refuse(self) -> None:
        raise NotUnderstood("awk does more than is understood here")
