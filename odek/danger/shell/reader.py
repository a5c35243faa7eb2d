"""The small steps of parsing: reserved words, operators, redirections. See parser.py."""

from __future__ import annotations

import re

from odek.danger.shell.lexer import Lexer
from odek.danger.shell.limits import Unparsable
from odek.danger.shell.syntax import Redirect, Word
from odek.danger.shell.words import literal_text

REDIRECTS = frozenset(("<", ">", ">>", ">|", "<>", ">&", "<&", "&>", "&>>", "<<", "<<-", "<<<"))
_DESCRIPTOR = re.compile(r"[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\}")
_BARE = re.compile(r"[A-Za-z!{}\[\]=~-]{1,8}")


class Reader:
    """Takes pieces off a Lexer."""

    def __init__(self, lexer: Lexer) -> None:
        self._lexer = lexer

    def _redirect(self, operator: str) -> Redirect:
        self._lexer.take_operator(operator)
        following = self._lexer.peek_operator()
        target = self._word_or_process(following)
        if operator in ("<<", "<<-"):
            return self._lexer.here_document(operator, target)
        return Redirect(operator=operator, target=target)

    def _redirects(self) -> tuple[Redirect, ...]:
        """Return the redirections here, up to anything else."""
        redirects: list[Redirect] = []
        while True:
            operator = self._lexer.peek_operator()
            descriptor = "" if operator else self._descriptor()
            if descriptor:
                self._lexer.position += len(descriptor)
            elif operator in REDIRECTS:
                redirects.append(self._redirect(operator))
            else:
                return tuple(redirects)

    def _descriptor(self) -> str:
        """Return the descriptor number here if a redirection follows at once."""
        text, position = self._lexer.text, self._lexer.position
        match = _DESCRIPTOR.match(text, position)
        if not match or text[match.end() : match.end() + 1] not in ("<", ">") or match.end() >= len(text):
            return ""
        return "" if match[0].startswith("{") and self._lexer.posix else match[0]

    def _word_or_process(self, operator: str) -> Word:
        if operator in ("<(", ">("):
            self._lexer.budget.enter()
            part = self._lexer.process(operator)
            self._lexer.budget.leave()
            return Word(parts=(part,))
        if operator:
            raise Unparsable("has a misplaced operator")
        return self._lexer.word()

    def _newlines(self) -> None:
        while self._lexer.peek_operator() == "\n":
            self._lexer.take_operator("\n")

    def _separator(self) -> None:
        operator = self._lexer.peek_operator()
        if operator == ";":
            self._lexer.take_operator(operator)
        self._newlines()

    def _reserved(self) -> str:
        """Return the word here if it is plain text without quotes, else ""; the position stays."""
        self._lexer.skip_blanks()
        text, position = self._lexer.text, self._lexer.position
        match = _BARE.match(text, position)
        if not match or (match.end() < len(text) and text[match.end()] not in " \t\n|&;<>()"):
            return ""
        return match[0]

    def _take_word(self) -> None:
        if not self._reserved():
            raise Unparsable("ends too early")
        self._lexer.word()

    def _expect_word(self, word: str) -> None:
        if self._reserved() != word:
            raise Unparsable(f"lacks {word}")
        self._lexer.word()

    def _expect_operator(self, operator: str) -> None:
        if self._lexer.peek_operator() != operator:
            raise Unparsable(f"lacks {operator}")
        self._lexer.take_operator(operator)

    def _literal_word(self) -> str:
        if self._lexer.peek_operator():
            raise Unparsable("has a misplaced operator")
        name = literal_text(self._lexer.word())
        if not name:
            raise Unparsable("has a computed name where a plain one must stand")
        return name
