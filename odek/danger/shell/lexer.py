"""Shell text to words and operators (POSIX XCU 2.2 and 2.3, and the common forms of bash).

Reads each character once; what is nested is read by the parser through the same position, so time is
linear. Depth and number of pieces are bounded: beyond them the text counts as unreadable, which
classification treats like an unknown program.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from odek.danger.shell.limits import Budget, ParseError
from odek.danger.shell.syntax import (
    Arithmetic,
    Array,
    Parameter,
    Part,
    Process,
    Redirect,
    Script,
    Substitution,
    Text,
    Word,
)
from odek.patterns import pattern

_ESCAPE = pattern(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(0?[0-7]{1,3})|c([\s\S])|([\s\S]))"
)
_SINGLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_REPLACEMENT = "\ufffd"
_FIRST_PLAIN = 7  # characters below are those of abstract_text: text from an escape must not pass for one


def decode_ansi_c(text: str) -> str:
    """Return what a shell makes of the text between `$'` and `'`, up to a NUL, which ends it."""
    return _ESCAPE.sub(_decoded, text).split("\0", 1)[0]


def decode_printf(text: str) -> str:
    """Return `text` with the escapes of printf's format decoded."""
    return _ESCAPE.sub(_decoded, text).replace("\0", "")


def _decoded(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2] or match[3]
    if hexadecimal:
        return _character(int(hexadecimal, 16))
    if match[4]:
        return _character(int(match[4], 8) & 0xFF)
    if match[5]:
        return _character(ord(match[5][0]) & 0x1F)
    return _SINGLE.get(match[6], match[6] if match[6] in "\\'\"?" else "\\" + match[6])


def _character(code: int) -> str:
    if code >= 0x110000 or 0xD800 <= code < 0xE000 or 0 < code < _FIRST_PLAIN:
        return _REPLACEMENT
    return chr(code)


PLAIN = pattern(r"[^ \t\n|&;<>()\\'\"`$]+")
PLAIN_REGEX = pattern(r"[^ \t\n()\\'\"`$]+")  # the right-hand side of =~
ESCAPES = pattern(r"(?:\\[^\n])+")
IN_DOUBLE = pattern(r'[^\\"`$]+')
IN_HERE = pattern(r"[^\\`$]+")
IN_BRACES = pattern(r"[^\\'\"`$}]+")
IN_BRACES_QUOTED = pattern(r"[^\\\"`$}]+")
IN_ARITHMETIC = pattern(r"[^\\'\"`$()]+")
ANSI_C = pattern(r"((?:[^'\\]|\\[\s\S])*)'")
BACKTICK = pattern(r"((?:[^`\\]|\\[\s\S])*)`")
NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
ARRAY_START = pattern(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]\n]*\])?\+?=")
SPECIAL_PARAMETERS = "@*#?$!-0123456789"
PARAMETER_OPERATOR = pattern(r":[-=?+]|[-=?+]|##?|%%?|//?|:|\^\^?|,,?|@")
VALUE_OPERATORS = (":-", ":=", ":?", ":+", "-", "=", "?", "+")
BLANKS = pattern(r"(?:[ \t]|\\\n)+")
_BLANK_STARTS = frozenset(" \t\\")
OPERATOR = pattern(r"&&|&>>|&>|&|\|\||\|&|\||;;&|;&|;;|;|<<<|<<-|<<|<&|<>|<\(|<|>>|>&|>\||>\(|>|\(|\)|\n")
_OPERATOR_STARTS = frozenset("&|;<>()\n")
POSIX_OPERATOR = pattern(r"&&|&|\|\||\||;;|;|<<-|<<|<&|<>|<|>>|>&|>\||>|\(|\)|\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Here:
    delimiter: str
    quoted: bool
    strip_tabs: bool
    redirect: Redirect


class Lexer:
    """A position in a text."""

    def __init__(self, text: str, budget: Budget, nested: Callable[[Lexer, str], Script], *, posix: bool) -> None:
        """`nested(lexer, end)` reads commands up to and including the operator `end` ("" = the end)."""
        self.text = text
        self.position = 0
        self.budget = budget
        self.posix = posix
        self._nested = nested
        self._pending: list[_Here] = []

    # operators and blanks

    def skip_blanks(self) -> None:
        """Move over blanks, line continuations and a comment."""
        if self.text[self.position : self.position + 1] in _BLANK_STARTS and (
            match := BLANKS.match(self.text, self.position)
        ):
            self.position = match.end()
        if self.text.startswith("#", self.position):
            end = self.text.find("\n", self.position)
            self.position = len(self.text) if end < 0 else end

    def peek_operator(self) -> str:
        """Return the operator here ("\\n" included), "" for a word or the end of the text."""
        self.skip_blanks()
        if self.text[self.position : self.position + 1] not in _OPERATOR_STARTS:
            return ""
        match = (POSIX_OPERATOR if self.posix else OPERATOR).match(self.text, self.position)
        return match[0] if match else ""

    def take_operator(self, operator: str) -> None:
        """Move over `operator`, which is here; a newline brings the waiting here-documents in."""
        self.budget.spend()
        self.position += len(operator)
        if operator == "\n":
            self._read_bodies()

    def at_end(self) -> bool:
        """Return whether only blanks are left."""
        self.skip_blanks()
        return self.position >= len(self.text)

    def finish(self) -> None:
        """Settle here-documents that the end of the text cuts off, as shells do."""
        self._read_bodies()

    def mark(self) -> tuple[int, int, int]:
        """Return what `rewind` needs to come back here."""
        return self.position, self.budget.depth, len(self._pending)

    def rewind(self, mark: tuple[int, int, int]) -> None:
        """Go back; what was spent stays spent, so that attempts cannot add up."""
        self.position, self.budget.depth, pending = mark
        del self._pending[pending:]

    # words

    def word(self, *, regex: bool = False) -> Word:
        """Read one word. Raises ParseError when there is none."""
        parts: list[Part] = []
        start, depth = self.position, 0
        while self.position < len(self.text):
            character = self.text[self.position]
            if character in " \t\n" or (character in "|&;<>" and not regex):
                break
            if character in "()":
                if regex and (character == "(" or depth):
                    depth += 1 if character == "(" else -1
                    parts.append(Text(text=character, quoted=False))
                    self.position += 1
                    continue
                if character == "(" and self._begins_array(start):
                    parts.append(self._array())
                break
            self._piece(parts, PLAIN_REGEX if regex else PLAIN)
        if self.position == start:
            raise ParseError("has a misplaced operator" if self.position < len(self.text) else "ends too early")
        return Word(parts=tuple(parts))

    def process(self, operator: str) -> Part:
        """Read the rest of a process substitution whose operator is here."""
        self.take_operator(operator)
        return Process(script=self._script(")"), is_fed=operator == ">(")

    def here_document(self, operator: str, target: Word) -> Redirect:
        """Return the redirection of a here-document; its target follows at the end of the line."""
        texts = [part for part in target.parts if isinstance(part, Text)]
        if len(texts) != len(target.parts):
            raise ParseError("has a here-document whose end is computed")
        redirect = Redirect(operator="<<", target=Word(parts=()))
        here = _Here(
            delimiter="".join(part.text for part in texts),
            quoted=any(part.quoted for part in texts),
            strip_tabs=operator == "<<-",
            redirect=redirect,
        )
        self._pending.append(here)
        return redirect

    def arithmetic_content(self) -> Word:
        """Read up to and including the `))` that ends an arithmetic expansion or command."""
        parts: list[Part] = []
        depth = 0
        while self.position < len(self.text):
            character = self.text[self.position]
            if character == ")" and not depth:
                if not self.text.startswith("))", self.position):
                    raise ParseError("has an arithmetic expansion that is not one")
                self.position += 2
                return Word(parts=tuple(parts))
            if character in "()":
                depth += 1 if character == "(" else -1
                self.position += 1
                self.budget.spend()
                continue
            self._piece(parts, IN_ARITHMETIC)
        raise ParseError("ends inside an arithmetic expansion")

    # pieces of words

    def _piece(self, parts: list[Part], plain: re.Pattern[str]) -> None:
        """Read one part of an unquoted word."""
        self.budget.spend()
        if match := plain.match(self.text, self.position):
            self.position = match.end()
            parts.append(Text(text=match[0], quoted=False))
            return
        character = self.text[self.position]
        if character == "\\":
            self._escapes(parts)
        elif character == "'":
            self._single(parts)
        elif character == '"':
            self.position += 1
            self._double(parts)
        elif character == "`":
            parts.append(self._backticks(quoted=False))
        else:
            self._dollar(parts, quoted=False)

    def _escapes(self, parts: list[Part]) -> None:
        if match := ESCAPES.match(self.text, self.position):
            self.position = match.end()
            parts.append(Text(text=match[0][1::2], quoted=True))
        elif self.text.startswith("\\\n", self.position):
            self.position += 2
            parts.append(Text(text="", quoted=False))
        else:  # a backslash at the very end is literal
            self.position += 1
            parts.append(Text(text="\\", quoted=True))

    def _single(self, parts: list[Part]) -> None:
        end = self.text.find("'", self.position + 1)
        if end < 0:
            raise ParseError("has an open quote")
        parts.append(Text(text=self.text[self.position + 1 : end], quoted=True))
        self.position = end + 1

    def _double(self, parts: list[Part]) -> None:
        parts.append(Text(text="", quoted=True))  # "" is a word too
        while True:
            self.budget.spend()
            if match := IN_DOUBLE.match(self.text, self.position):
                self.position = match.end()
                parts.append(Text(text=match[0], quoted=True))
            character = self.text[self.position : self.position + 1]
            if character == '"':
                self.position += 1
                return
            if not character:
                raise ParseError("has an open quote")
            self._quoted_piece(parts, character, '"\\$`')

    def _quoted_piece(self, parts: list[Part], character: str, escapable: str) -> None:
        if character == "\\":
            following = self.text[self.position + 1 : self.position + 2]
            kept = "" if following == "\n" else following if following in escapable else "\\" + following
            parts.append(Text(text=kept, quoted=True))
            self.position += 1 + len(following)
        elif character == "`":
            parts.append(self._backticks(quoted=True))
        else:
            self._dollar(parts, quoted=True)

    def _dollar(self, parts: list[Part], *, quoted: bool) -> None:
        following = self.text[self.position + 1 : self.position + 2]
        if following == "(":
            self._parenthesis(parts, quoted=quoted)
        elif following == "{":
            self.position += 2
            parts.append(self._braces(quoted=quoted))
        elif match := NAME.match(self.text, self.position + 1):
            self.position = match.end()
            parts.append(Parameter(name=match[0], operator="", argument=None, quoted=quoted))
        elif following and following in SPECIAL_PARAMETERS:
            self.position += 2
            parts.append(Parameter(name=following, operator="", argument=None, quoted=quoted))
        elif following == "'" and not quoted and not self.posix:
            self._ansi_c(parts)
        elif following == '"' and not quoted and not self.posix:
            self.position += 2
            self._double(parts)
        elif following == "[" and not self.posix:  # the old form of $((…))
            self.position += 1
            parts.append(Arithmetic(content=Word(parts=(Text(text="[", quoted=False),))))
        else:
            self.position += 1
            parts.append(Text(text="$", quoted=True))

    def _ansi_c(self, parts: list[Part]) -> None:
        match = ANSI_C.match(self.text, self.position + 2)
        if not match:
            raise ParseError("has an open quote")
        self.position = match.end()
        parts.append(Text(text=decode_ansi_c(match[1]), quoted=True))

    def _parenthesis(self, parts: list[Part], *, quoted: bool) -> None:
        self.budget.enter()
        if self.text.startswith("$((", self.position):
            self.position += 3
            parts.append(Arithmetic(content=self.arithmetic_content()))
        else:
            self.position += 2
            parts.append(Substitution(script=self._script(")"), quoted=quoted))
        self.budget.leave()

    def _script(self, end: str) -> Script:
        """Read nested commands; here-documents inside may not wait for a line outside of them."""
        outer, self._pending = self._pending, []
        script = self._nested(self, end)
        if self._pending:
            raise ParseError("has a here-document that starts after its substitution ended")
        self._pending = outer
        return script

    def _backticks(self, *, quoted: bool) -> Part:
        match = BACKTICK.match(self.text, self.position + 1)
        if not match:
            raise ParseError("has an open backtick")
        self.position = match.end()
        escapable = r'\\([$`\\"])' if quoted else r"\\([$`\\])"
        self.budget.enter()
        inner = Lexer(re.sub(escapable, r"\1", match[1]), self.budget, self._nested, posix=self.posix)
        script = self._nested(inner, "")
        self.budget.leave()
        return Substitution(script=script, quoted=quoted)

    def _braces(self, *, quoted: bool) -> Part:
        """Read a `${…}` whose opening was read."""
        self.budget.enter()
        operator = ""
        marker = self.text[self.position : self.position + 1]
        after = self.text[self.position + 1 : self.position + 2]
        if marker in ("#", "!") and after and after not in "}:-=?+#%/":
            operator = "length" if marker == "#" else "indirect"
            self.position += 1
        name = self._parameter_name()
        parts: list[Part] = []
        if not operator and (match := PARAMETER_OPERATOR.match(self.text, self.position)):
            operator = match[0]
            self.position = match.end()
        elif self.text.startswith("[", self.position):
            operator = operator or "["
        # in a pattern ("${x//'a'/b}") quotes quote, in a default value inside double quotes they do not
        self._until_brace(parts, quoted=quoted and operator in VALUE_OPERATORS)
        if parts and not operator:
            raise ParseError("has a parameter expansion that is not one")
        self.budget.leave()
        return Parameter(
            name=name, operator=operator, argument=Word(parts=tuple(parts)) if parts else None, quoted=quoted
        )

    def _parameter_name(self) -> str:
        match = NAME.match(self.text, self.position) or re.compile(r"[0-9]+").match(self.text, self.position)
        name = match[0] if match else self.text[self.position : self.position + 1]
        if not match and (not name or name not in SPECIAL_PARAMETERS):
            raise ParseError("has a parameter expansion that is not one")
        self.position += len(name)
        return name

    def _until_brace(self, parts: list[Part], *, quoted: bool) -> None:
        while self.position < len(self.text):
            character = self.text[self.position]
            if character == "}":
                self.position += 1
                return
            if not quoted:
                self._piece(parts, IN_BRACES)
                continue
            self.budget.spend()
            if character == '"':
                self.position += 1
                self._double(parts)
            elif character in "\\`$":
                self._quoted_piece(parts, character, '"\\$`}')
            elif match := IN_BRACES_QUOTED.match(self.text, self.position):
                self.position = match.end()
                parts.append(Text(text=match[0], quoted=True))
        raise ParseError("ends inside a parameter expansion")

    # arrays and here-documents

    def _begins_array(self, start: int) -> bool:
        match = None if self.posix else ARRAY_START.fullmatch(self.text, start, self.position)
        return match is not None

    def _array(self) -> Part:
        self.budget.enter()
        self.take_operator("(")
        words: list[Word] = []
        while (operator := self.peek_operator()) != ")":
            if operator in ("<(", ">("):
                words.append(Word(parts=(self.process(operator),)))
            elif operator == "\n":
                self.take_operator(operator)
            elif operator:
                raise ParseError("has a misplaced operator")
            else:
                words.append(self.word())
        self.take_operator(")")
        self.budget.leave()
        return Array(words=tuple(words))

    def _read_bodies(self) -> None:
        pending, self._pending = self._pending, []
        for here in pending:
            body = self._body(here)
            plain = Word(parts=(Text(text=body, quoted=True),))
            here.redirect.target = plain if here.quoted else self._expandable(body)

    def _body(self, here: _Here) -> str:
        if "\n" in here.delimiter:
            raise ParseError("has a here-document whose end spans lines")
        tabs = "\t*" if here.strip_tabs else ""
        line = re.compile(f"^{tabs}{re.escape(here.delimiter)}$", re.MULTILINE)
        start = self.position
        found = line.search(self.text, start)
        # a line that the one before continues is part of that one, not the end
        while found and not here.quoted and _continues(self.text, start, found.start()):
            found = line.search(self.text, found.end())
        self.position = min(found.end() + 1, len(self.text)) if found else len(self.text)
        return self.text[start : found.start() if found else len(self.text)]

    def _expandable(self, body: str) -> Word:
        self.budget.enter()
        inner = Lexer(body, self.budget, self._nested, posix=self.posix)
        parts: list[Part] = []
        while inner.position < len(body):
            self.budget.spend()
            if match := IN_HERE.match(body, inner.position):
                inner.position = match.end()
                parts.append(Text(text=match[0], quoted=True))
            else:
                inner._quoted_piece(parts, body[inner.position], "\\$`")
        self.budget.leave()
        return Word(parts=tuple(parts))


def _continues(text: str, start: int, end: int) -> bool:
    """Return whether the line that ends in front of `end` ends with a backslash that is not escaped."""
    line = text[start:end].removesuffix("\n")
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1
