"""Shell scripts to trees (POSIX XCU 2.9 and 2.10, and the compound commands of bash).

Accepts what `sh -n` or `bash -n` accepts, with few exceptions towards "unreadable": such text is of
class `unknown`. `posix=True` reads as dash and busybox do, for which `[[`, `((`, `$'…'` and `&>` have
no meaning of their own: a command that differs is judged in both readings.
"""

from __future__ import annotations

from odek.danger.shell.lexer import Lexer
from odek.danger.shell.limits import Budget, ParseError
from odek.danger.shell.syntax import (
    AndOr,
    Assignment,
    Command,
    Compound,
    Kind,
    Parameter,
    Pipeline,
    Redirect,
    Script,
    Simple,
    Word,
    literal_text,
    parse_assignment,
)
from odek.patterns import pattern

REDIRECTS = frozenset(("<", ">", ">>", ">|", "<>", ">&", "<&", "&>", "&>>", "<<", "<<-", "<<<"))
_DESCRIPTOR = pattern(r"[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\}")
_BARE = pattern(r"[A-Za-z!{}\[\]=~-]{1,8}")


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
            raise ParseError("has a misplaced operator")
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
            raise ParseError("ends too early")
        self._lexer.word()

    def _expect_word(self, word: str) -> None:
        if self._reserved() != word:
            raise ParseError(f"lacks {word}")
        self._lexer.word()

    def _expect_operator(self, operator: str) -> None:
        if self._lexer.peek_operator() != operator:
            raise ParseError(f"lacks {operator}")
        self._lexer.take_operator(operator)

    def _literal_word(self) -> str:
        if self._lexer.peek_operator():
            raise ParseError("has a misplaced operator")
        name = literal_text(self._lexer.word())
        if not name:
            raise ParseError("has a computed name where a plain one must stand")
        return name


_CLOSING = frozenset(("then", "else", "elif", "fi", "do", "done", "esac", "}"))
_FUNCTION_END = pattern(r"[ \t]*\([ \t]*\)")


def parse_script(text: str, budget: Budget, *, posix: bool = False) -> Script:
    """Return the tree of `text`. Raises ParseError."""
    lexer = Lexer(text, budget, _nested, posix=posix)
    return _nested(lexer, "")


def parse_prefix(text: str, budget: Budget, *, posix: bool = False) -> tuple[Script, ParseError | None]:
    """Return the commands in front of the first error, and the error.

    Shells run a script line by line, so what comes before an error is run.
    """
    lexer = Lexer(text, budget, _nested, posix=posix)
    items: list[AndOr] = []
    try:
        _Parser(lexer).script("", items)
    except ParseError as error:
        return Script(items=tuple(items)), error
    return Script(items=tuple(items)), None


def _nested(lexer: Lexer, end: str) -> Script:
    script = _Parser(lexer).script(end)
    if end:
        lexer.take_operator(end)
    return script


class _Parser(Reader):
    """Recursive descent over one Lexer; every compound command is a level of the budget's depth."""

    def script(self, end: str, items: list[AndOr] | None = None) -> Script:
        """Read commands up to the operator `end`, which stays ("" = the end of the text).

        `items` takes the commands as they are read, for callers that want them despite an error.
        """
        script = self._list((), items)
        operator = self._lexer.peek_operator()
        if not end:
            if operator or not self._lexer.at_end():
                raise ParseError("has a misplaced operator or word")
            self._lexer.finish()
        elif operator != end:
            raise ParseError("has an open substitution or subshell")
        return script

    # lists

    def _list(self, closing: tuple[str, ...], items: list[AndOr] | None = None) -> Script:
        """Read commands until a reserved word of `closing`, a closing operator or the end."""
        items = [] if items is None else items
        while True:
            self._newlines()
            operator = self._lexer.peek_operator()
            if operator in (")", ";;", ";&", ";;&") or self._lexer.at_end():
                break
            word = self._reserved() if not operator else ""
            if word in _CLOSING:
                if word in closing:
                    break
                raise ParseError(f"has a misplaced {word}")
            item, separated = self._and_or()
            items.append(item)
            if not separated:
                break
        return Script(items=tuple(items))

    def _and_or(self) -> tuple[AndOr, bool]:
        """Return one and-or list, and whether a separator followed it."""
        pipelines = [self._pipeline()]
        operators: list[str] = []
        while (operator := self._lexer.peek_operator()) in ("&&", "||"):
            self._lexer.take_operator(operator)
            self._newlines()
            operators.append(operator)
            pipelines.append(self._pipeline())
        if operator in (";", "&", "\n"):
            self._lexer.take_operator(operator)
        item = AndOr(pipelines=tuple(pipelines), operators=tuple(operators), background=operator == "&")
        return item, operator in (";", "&", "\n")

    def _pipeline(self) -> Pipeline:
        prefixed = False
        while (word := self._reserved()) in ("!", "time", "coproc"):
            prefixed = True
            self._take_word()
            if word == "time" and self._reserved() == "-p":
                self._take_word()
        if prefixed and (self._lexer.at_end() or self._lexer.peek_operator() in (";", "\n", "&", ")")):
            return Pipeline(commands=())
        commands = [self._command()]
        while (operator := self._lexer.peek_operator()) in ("|", "|&"):
            self._lexer.take_operator(operator)
            self._newlines()
            commands.append(self._command())
        return Pipeline(commands=tuple(commands))

    # commands

    def _command(self) -> Command:
        operator = self._lexer.peek_operator()
        word = "" if operator else self._reserved()
        if word in _CLOSING or word == "!":
            raise ParseError(f"has a misplaced {word}")
        if operator == "(" or word in ("{", "if", "while", "until", "for", "select", "case", "function", "[["):
            self._lexer.budget.enter()
            command = self._compound(operator or word)
            self._lexer.budget.leave()
            if command is not None:
                return command
        return self._simple()

    def _compound(self, word: str) -> Compound | None:
        posix = self._lexer.posix
        if word == "(":
            return self._subshell()
        if word == "{":
            return self._group()
        if word == "if":
            return self._if()
        if word in ("while", "until"):
            return self._loop()
        if word == "for" or (word == "select" and not posix):
            return self._for()
        if word == "case":
            return self._case()
        if word == "function" and not posix:
            return self._function_keyword()
        if word == "[[" and not posix:
            return self._test()
        return None

    def _subshell(self) -> Compound:
        if self._lexer.text.startswith("((", self._lexer.position) and not self._lexer.posix:
            mark = self._lexer.mark()
            self._lexer.position += 2
            try:
                content = self._lexer.arithmetic_content()
                return self._finished("arithmetic", words=(content,))
            except ParseError:  # `((` may also open two subshells; the pieces spent bound the retries
                self._lexer.rewind(mark)
        self._lexer.take_operator("(")
        body = self._body(self._list(()))
        self._expect_operator(")")
        return self._finished("subshell", scripts=(body,))

    def _group(self) -> Compound:
        self._take_word()
        body = self._block("}")
        return self._finished("group", scripts=(body,))

    def _if(self) -> Compound:
        scripts: list[Script] = []
        self._take_word()
        while True:
            scripts += [self._block("then"), self._body(self._list(("else", "elif", "fi")))]
            word = self._reserved()
            self._take_word()
            if word == "else":
                scripts.append(self._block("fi"))
            if word != "elif":
                break
        if word not in ("else", "fi"):
            raise ParseError("has an open if")
        return self._finished("if", scripts=tuple(scripts))

    def _loop(self) -> Compound:
        self._take_word()
        return self._finished("loop", scripts=(self._block("do"), self._block("done")))

    def _for(self) -> Compound:
        self._take_word()
        if self._lexer.peek_operator() == "(" and self._lexer.text.startswith("((", self._lexer.position):
            self._lexer.position += 2
            name = ""
            words: tuple[Word, ...] = (self._lexer.arithmetic_content(),)
        else:
            name = self._literal_word()
            words = self._for_words()
        self._separator()
        if self._reserved() == "{" and not self._lexer.posix:
            self._take_word()
            return self._finished("for", name=name, words=words, scripts=(self._block("}"),))
        self._expect_word("do")
        return self._finished("for", name=name, words=words, scripts=(self._block("done"),))

    def _for_words(self) -> tuple[Word, ...]:
        self._newlines()
        if self._reserved() != "in":
            return (Word(parts=(Parameter(name="@", operator="", argument=None, quoted=True),)),)
        self._take_word()
        words: list[Word] = []
        while (operator := self._lexer.peek_operator()) not in (";", "\n") and not self._lexer.at_end():
            words.append(self._word_or_process(operator))
        if not operator:
            raise ParseError("has an open for")
        return tuple(words)

    def _case(self) -> Compound:
        self._take_word()
        words = [self._word_or_process(self._lexer.peek_operator())]
        self._newlines()
        self._expect_word("in")
        scripts: list[Script] = []
        while True:
            self._newlines()
            if self._reserved() == "esac":
                self._take_word()
                break
            if self._lexer.peek_operator() == "(":
                self._lexer.take_operator("(")
            words.append(self._word_or_process(self._lexer.peek_operator()))
            while self._lexer.peek_operator() == "|":
                self._lexer.take_operator("|")
                words.append(self._word_or_process(self._lexer.peek_operator()))
            self._expect_operator(")")
            scripts.append(self._list(("esac",)))
            operator = self._lexer.peek_operator()
            if operator in (";;", ";&", ";;&"):
                self._lexer.take_operator(operator)
            elif self._reserved() != "esac":
                raise ParseError("has an open case")
        return self._finished("case", words=tuple(words), scripts=tuple(scripts))

    def _function_keyword(self) -> Compound:
        self._take_word()
        name = self._literal_word()
        if match := _FUNCTION_END.match(self._lexer.text, self._lexer.position):
            self._lexer.position = match.end()
        return self._function(name)

    def _function(self, name: str) -> Compound:
        self._newlines()
        self._lexer.budget.enter()
        body = self._command()
        self._lexer.budget.leave()
        item = AndOr(pipelines=(Pipeline(commands=(body,)),), operators=(), background=False)
        return Compound(kind="function", name=name, scripts=(Script(items=(item,)),))

    def _test(self) -> Compound:
        self._take_word()
        words: list[Word] = []
        regex = False
        depth = 0
        while True:
            operator = self._lexer.peek_operator()
            word = "" if operator or regex else self._reserved()
            if word == "]]" and not depth:
                self._take_word()
                return self._finished("test", words=tuple(words))
            if operator and not regex:
                if operator not in ("(", ")", "&&", "||", "<", ">", "\n"):
                    raise ParseError("has a misplaced operator in [[")
                depth += {"(": 1, ")": -1}.get(operator, 0)
                self._lexer.take_operator(operator)
                continue
            words.append(self._lexer.word(regex=regex))
            regex = word in ("=~", "==", "!=", "=")

    # simple commands

    def _simple(self) -> Command:
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while not self._lexer.at_end():
            operator = self._lexer.peek_operator()
            if operator in REDIRECTS:
                redirects.append(self._redirect(operator))
                continue
            if operator == "(" and len(words) == 1 and not assignments and not redirects:
                return self._named_function(words[0])
            if operator and operator not in ("<(", ">("):
                break
            if not operator and (match := self._descriptor()):
                self._lexer.position += len(match)
                continue
            word = self._word_or_process(operator)
            assignment = None if words else parse_assignment(word)
            if assignment:
                assignments.append(assignment)
            else:
                words.append(word)
        if not (assignments or words or redirects):
            raise ParseError("ends too early or has a misplaced operator")
        return Simple(assignments=tuple(assignments), words=tuple(words), redirects=tuple(redirects))

    def _named_function(self, word: Word) -> Compound:
        match = _FUNCTION_END.match(self._lexer.text, self._lexer.position)
        name = literal_text(word)
        if not match or name is None:
            raise ParseError("has a misplaced parenthesis")
        self._lexer.position = match.end()
        return self._function(name)

    def _finished(
        self, kind: Kind, *, name: str = "", words: tuple[Word, ...] = (), scripts: tuple[Script, ...] = ()
    ) -> Compound:
        """Return the compound command with the redirections that follow it."""
        return Compound(kind=kind, name=name, words=words, scripts=scripts, redirects=self._redirects())

    def _block(self, end: str) -> Script:
        """Read a list that must not be empty and the reserved word `end` after it."""
        script = self._body(self._list((end,)))
        self._expect_word(end)
        return script

    def _body(self, script: Script) -> Script:
        if not script.items:
            raise ParseError("has an empty body")
        return script
