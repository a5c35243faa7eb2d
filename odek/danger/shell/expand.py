"""Words to fields, as far as their text can be known (POSIX XCU 2.6).

A field is text with marks for what is unknown. A word whose variables have several candidates gives
several readings; all of them are judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from odek.danger.shell import abstract_text
from odek.danger.shell.state import MAX_CANDIDATES, UNKNOWN, ShellState, Values
from odek.danger.shell.syntax import (
    Arithmetic,
    Array,
    Parameter,
    Part,
    Process,
    Script,
    Substitution,
    Text,
    Word,
    literal_text,
)
from odek.patterns import pattern
from odek.secret_names import is_secret_name

if TYPE_CHECKING:
    from odek.danger.paths import Place

MAX_WORDS = 64
_MAX_DEPTH = 6
_SEQUENCE = pattern(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.-?\d+)?")

_Item = Part | str
"""a part that is left alone, or one character of unquoted text"""


def expand_braces(word: Word) -> tuple[Word, ...]:
    """Return the words that `word` expands to; one unknown word when there are too many."""
    if not any(isinstance(part, Text) and not part.quoted and "{" in part.text for part in word.parts):
        return (word,)
    if sum(len(part.text) for part in word.parts if isinstance(part, Text) and not part.quoted) > 4096:
        return (_UNKNOWN,)
    items: list[_Item] = []
    for part in word.parts:
        if isinstance(part, Text) and not part.quoted:
            items.extend(part.text)
        else:
            items.append(part)
    try:
        return tuple(_joined(expanded) for expanded in _expand(items, 0))
    except OverflowError:
        return (_UNKNOWN,)


_UNKNOWN = Word(parts=(Text(text=abstract_text.SPLIT, quoted=False),))


def _expand(items: list[_Item], depth: int) -> list[list[_Item]]:
    """Return all expansions. Raises OverflowError when there are too many."""
    if depth > _MAX_DEPTH:
        raise OverflowError
    results: list[list[_Item]] = [[]]
    position = 0
    while position < len(items):
        if items[position] != "{":
            for result in results:
                result.append(items[position])
            position += 1
            continue
        end, alternatives = _alternatives(items, position, depth)
        results = [[*result, *alternative] for result in results for alternative in alternatives]
        if len(results) > MAX_WORDS:
            raise OverflowError
        position = end
    return results


def _alternatives(items: list[_Item], start: int, depth: int) -> tuple[int, list[list[_Item]]]:
    """Return where the group at `start` ends and what it expands to; a lone brace is itself."""
    level, begin, end = 0, start + 1, start
    pieces: list[list[_Item]] = []
    while end < len(items):
        item = items[end]
        level += 1 if item == "{" else -1 if item == "}" else 0
        if level == 0 or (level == 1 and item == ","):
            pieces.append(items[begin:end])
            begin = end + 1
            if level == 0:
                break
        end += 1
    else:
        return start + 1, [["{"]]
    if len(pieces) > 1:
        expanded = [alternative for piece in pieces for alternative in _expand(piece, depth + 1)]
        return end + 1, expanded
    text = "".join(item for item in pieces[0] if isinstance(item, str))
    if len(text) == len(pieces[0]) and _SEQUENCE.fullmatch(text):
        return end + 1, [[abstract_text.NAME]]
    return start + 1, [["{"]]


def _joined(items: list[_Item]) -> Word:
    parts: list[Part] = []
    run: list[str] = []
    for item in items:
        if isinstance(item, str):
            run.append(item)
            continue
        if run:
            parts.append(Text(text="".join(run), quoted=False))
            run = []
        parts.append(item)
    if run:
        parts.append(Text(text="".join(run), quoted=False))
    return Word(parts=tuple(parts) or (Text(text="", quoted=False),))


Fields = tuple[str, ...]

_BRACKETS = pattern(r"\[[^\[\]/]*\]")
_NUMBERS = frozenset(
    """
    ? # $ ! - RANDOM SECONDS UID EUID PPID LINENO USER LOGNAME HOSTNAME EPOCHSECONDS
    """.split()
)
_IDENTIFIER = pattern(r"(?<![0-9A-Za-z_#])[A-Za-z_]\w*")
_ARITHMETIC_SET = pattern(
    r"([A-Za-z_]\w*)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|([A-Za-z_]\w*)(?:\+\+|--)|(?:\+\+|--)([A-Za-z_]\w*)"
)
MAX_COMBINATIONS = 32
_UNUSED = ("length", ":+", "+", ":?", "?")  # expansions that do not show a value of the environment


@dataclass(slots=True)
class Expander:
    """Expands words in one state."""

    place: Place
    state: ShellState
    run: Callable[[Script], str]
    """judges a substitution and returns what it prints, as far as that is known"""
    warn: Callable[[str], None]
    """takes the name of a rule that an expansion itself breaks"""
    doubt: Callable[..., None]
    """takes what is not understood of an expansion, or a variable that it sets, with its values"""
    secrets: set[str] = field(default_factory=set)
    """names of variables that look secret and were put into words"""

    def readings(self, word: Word) -> tuple[Fields, ...]:
        """Return every way in which `word` may expand."""
        braced = expand_braces(word)
        if len(braced) > 1:
            return (tuple(text for part in braced for reading in self._readings(part) for text in reading),)
        return self._readings(braced[0])

    def value(self, word: Word, *, globs: bool = False) -> Values:
        """Return the candidates for `word` where it is not split: assignments, redirections, quotes."""
        texts = [""]
        for index, part in enumerate(word.parts):
            candidates = self._candidates(part, first=index == 0, keep_globs=not globs)
            texts = [text + candidate for text in texts for candidate in candidates]
            if len(texts) > MAX_CANDIDATES:
                texts = [abstract_text.ANY]
        return tuple(dict.fromkeys(texts))

    def _readings(self, word: Word) -> tuple[Fields, ...]:
        if all(isinstance(part, Text) for part in word.parts):
            return (self._plain(word),)
        readings: list[list[str | None]] = [[None]]
        for index, part in enumerate(word.parts):
            arguments = self._split_arguments(part)
            quoted = not arguments and (isinstance(part, Text) or getattr(part, "quoted", True))
            candidates = arguments or self._candidates(part, first=index == 0)
            if len(readings) * len(candidates) > 2 * MAX_CANDIDATES:
                candidates = (abstract_text.SPLIT,)
                readings = readings[:1]
            readings = [
                self._appended(reading, candidate, part, quoted=quoted)
                for reading in readings
                for candidate in candidates
            ]
        kept = dict.fromkeys(tuple(text for text in reading if text is not None) for reading in readings)
        return tuple(kept)

    def _plain(self, word: Word) -> Fields:
        """Return the field of a word that has no expansions, which is most of them; none for an empty one."""
        field: str | None = None
        for index, part in enumerate(word.parts):
            (text,) = self._candidates(part, first=index == 0)
            if text or getattr(part, "quoted", True):
                field = (field or "") + text
        return () if field is None else (field,)

    def _appended(self, reading: list[str | None], text: str, part: Part, *, quoted: bool) -> list[str | None]:
        """Return `reading` with `text` added to its open field, split when it is outside quotes."""
        open_field = reading[-1]
        if quoted:
            if not text and not getattr(part, "quoted", True):
                return reading
            return [*reading[:-1], (open_field or "") + text]
        if self.state.splits_oddly and text not in ("", abstract_text.NAME):
            text = abstract_text.SPLIT
        if abstract_text.ANY in text:
            text = text.replace(abstract_text.ANY, abstract_text.SPLIT)
        pieces = _globbed(text).split()
        result = list(reading)
        if text[:1].isspace() and open_field is not None:
            result.append(None)
        for index, piece in enumerate(pieces):
            if index:
                result.append(None)
            result[-1] = (result[-1] or "") + piece
        if text[-1:].isspace() and result[-1] is not None:
            result.append(None)
        return result

    def _split_arguments(self, part: Part) -> Values:
        """Return `$@` and `$*` as one blank-separated text, () for any other part."""
        if not isinstance(part, Parameter) or part.name not in ("@", "*") or part.operator:
            return ()
        arguments = self.state.arguments
        if arguments is None:
            return (abstract_text.SPLIT,)
        return (" ".join(arguments),)

    def _candidates(self, part: Part, *, first: bool, keep_globs: bool = False) -> Values:
        if isinstance(part, Text):
            return (part.text if part.quoted else self._literal(part.text, first, keep_globs),)
        if isinstance(part, Parameter):
            return self._parameter(part)
        if isinstance(part, Substitution):
            return tuple(text.rstrip("\n") for text in self.run(part.script).split(abstract_text.EITHER))
        if isinstance(part, Arithmetic):
            self.arithmetic(part.content)
            return (abstract_text.NAME,)
        if isinstance(part, Process):
            if part.is_fed:
                self.doubt("feeds a command through a file name")
            self.run(part.script)
            return ("/dev/fd/63",)
        return self._array(part)

    def _array(self, part: Array) -> Values:
        values: list[str] = []
        for word in part.words:
            for reading in self.readings(word):
                values.extend(reading)
        return tuple(dict.fromkeys(values)) if 0 < len(values) <= MAX_CANDIDATES else UNKNOWN

    def _literal(self, text: str, first: bool, keep_globs: bool) -> str:
        if first and text.startswith("~"):
            name, slash, rest = text[1:].partition("/")
            text = self._tilde(name) + slash + rest
        return text if keep_globs else _globbed(text)

    def _tilde(self, name: str) -> str:
        home = self.place.home
        if not name:
            return self.state.variables.get("HOME", (home or abstract_text.ANY,))[0]
        if name == "+":
            return self.state.cwds[0] if len(self.state.cwds) == 1 else abstract_text.ANY
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name):
            return abstract_text.ANY
        if home.endswith(f"/{name}"):
            return home
        return "/root" if name == "root" else f"/home/{name}"

    def _parameter(self, part: Parameter) -> Values:
        operator = part.operator
        self._doubt_unless_plain(part)
        values = self._lookup(part.name)
        default = self._default(part, values)
        exact = all(abstract_text.is_exact(value) for value in values)
        if is_secret_name(part.name) and operator not in _UNUSED and not exact:
            self.secrets.add(part.name)
        if operator == "length":
            return (abstract_text.NAME,)
        if operator in (":?", ":-", ":="):
            values = _filled(values)
        if operator == ":?" and not exact:  # or the shell ends here
            self.state.assign(part.name, values)
        if operator in ("", ":?", "?"):
            return values
        if operator in (":-", "-", ":=", "="):
            values = values if exact and all(values) else tuple(dict.fromkeys((*values, *default)))
            if operator in (":=", "="):
                self._assign_default(part, values)
            return values
        if operator in (":+", "+"):
            return ("", *default)
        return _trimmed(values, default) if operator in ("%", "%%") else UNKNOWN

    def _doubt_unless_plain(self, part: Parameter) -> None:
        if not _is_plain(part):
            self.doubt("has an expansion that may run commands in bash")

    def _default(self, part: Parameter, values: Values) -> Values:
        """Return the candidates for the text behind the operator; behind `:+` the variable is not empty."""
        if not part.argument:
            return ("",)
        if part.operator != ":+" or part.name.isdigit() or part.name in ("@", "*"):
            return self.value(part.argument)
        before = self.state.variables.copy()
        self.state.assign(part.name, _filled(values))
        default = self.value(part.argument)
        self.state.variables = before
        return default

    def _assign_default(self, part: Parameter, values: Values) -> None:
        self.state.assign(part.name, values)
        self.doubt("", part.name, values)
        if part.argument and any(isinstance(inner, Substitution) for inner in part.argument.parts):
            self.warn("expansion.assign")

    def _lookup(self, name: str) -> Values:
        if name in ("@", "*") or name.isdigit():
            return self._positional(name)
        if name in self.state.variables:
            return self.state.variables[name]
        if name in _NUMBERS:
            return (abstract_text.NAME,)
        if "" in self.state.variables:
            return UNKNOWN
        if name == "HOME":
            return (self.place.home,) if self.place.home else UNKNOWN
        if name == "PWD":
            return _filled(self.state.cwds)
        if name == "IFS":
            return (" ",)
        if name == "TMPDIR" and self.place.temp:
            return self.place.temp[:1]
        return UNKNOWN

    def _positional(self, name: str) -> Values:
        arguments = self.state.arguments
        if name == "0":
            return UNKNOWN
        if arguments is None:
            return UNKNOWN
        if name in ("@", "*"):
            return (" ".join(arguments),)
        index = int(name[:4]) - 1
        return (arguments[index],) if 0 <= index < len(arguments) else ("",)

    def arithmetic(self, content: Word) -> None:
        """Check what an arithmetic expression runs and sets; a variable in it is evaluated in turn."""
        subscript, names = False, set[str]()
        for part in content.parts:
            if isinstance(part, Text):
                subscript = subscript or "[" in part.text
                names.update(_IDENTIFIER.findall(part.text))
                for name in filter(None, (name for found in _ARITHMETIC_SET.findall(part.text) for name in found)):
                    self.doubt("", name, (abstract_text.NAME,))
                    self.state.assign(name, (abstract_text.NAME,))
                continue
            values = self._candidates(part, first=False)
            if not all(_is_number(value) for value in values):
                self.doubt("evaluates text as arithmetic, which may run commands in bash")
            if subscript and isinstance(part, Parameter | Substitution):
                self.warn("expansion.subscript")
        own = [name for name in names if name in self.state.variables or "" in self.state.variables]
        if subscript or not all(_is_number(value) for name in own for value in self._lookup(name)):
            self.doubt("evaluates text as arithmetic, which may run commands in bash")


def merge_readings(readings: Sequence[tuple[Fields, ...]]) -> tuple[Fields, ...]:
    """Return the fields of a simple command, once for every program that its first word may name.

    Operands that have several readings are all put into one: what any of them may do is found in it.
    """
    if not readings:
        return ()
    operands: list[str] = []
    for reading in readings[1:]:
        operands.extend(
            reading[0] if len(reading) == 1 else dict.fromkeys(text for fields in reading for text in fields)
        )
    return tuple(fields for program in readings[0] if (fields := (*program, *operands)))


def combine_readings(readings: Sequence[tuple[Fields, ...]]) -> tuple[Fields, ...] | None:
    """Return every way in which the words together may expand; None for too many."""
    combined: list[Fields] = [()]
    for reading in readings:
        if len(combined) * len(reading) > MAX_COMBINATIONS:
            return None
        combined = [(*fields, *more) for fields in combined for more in reading]
    return tuple(combined)


def _trimmed(values: Values, endings: Values) -> Values:
    """Return what `${x%ending}` gives: exactly, where the end of the value is known."""
    ending = endings[0]
    is_exact = len(endings) == 1 and ending != "" and abstract_text.is_exact(ending)
    if is_exact and all(value.endswith(ending) or abstract_text.is_exact(value) for value in values):
        return tuple(dict.fromkeys(value.removesuffix(ending) for value in values))
    return (abstract_text.BELOW,) if all(_stays_below(value) for value in values) else UNKNOWN


def _filled(values: Values) -> Values:
    """Return `values` without the empty one; what is unknown is not empty either."""
    unknown = "".join(abstract_text.UNKNOWN)
    return tuple(value if value.strip(unknown) else abstract_text.SOME for value in values if value) or values


def _is_number(value: str) -> bool:
    return value == abstract_text.NAME or bool(re.fullmatch(r"[-+]?[0-9]*", value))


def _is_plain(part: Parameter) -> bool:
    """Return whether an expansion neither evaluates arithmetic nor text, in any shell."""
    text = literal_text(part.argument) if part.argument else ""
    if part.operator in ("indirect", "@"):
        return False
    if part.operator in ("[", "length") and part.argument:
        return bool(re.fullmatch(r"\[(?:[@*]|-?[0-9]+)\]", text or ""))
    if part.operator == ":":
        return bool(re.fullmatch(r"[-0-9 ]+(?::[-0-9 ]+)?", text or ""))
    return True


def _globbed(text: str) -> str:
    """Return `text` with its active glob characters as marks."""
    if not any(character in text for character in "*?["):
        return text
    inner = _BRACKETS.sub(abstract_text.ONE, text)  # twice, for [[:alpha:]]
    return _BRACKETS.sub(abstract_text.ONE, inner).replace("*", abstract_text.STAR).replace("?", abstract_text.ONE)


def _stays_below(value: str) -> bool:
    return not value.startswith("/") and not abstract_text.holds_unknown(value) and ".." not in value.split("/")
