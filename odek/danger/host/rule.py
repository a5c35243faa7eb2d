"""One simple command on the host: understood to its last word, or which word is not."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from odek.danger.host.checkout import Checkout
from odek.danger.host.command import At
from odek.danger.host.forms import AFTER, SPECIAL
from odek.danger.host.kinds import KINDS
from odek.danger.host.obeyed import require_own_code
from odek.danger.host.places import Places
from odek.danger.host.table import Layout, Row, lay_out, rows
from odek.danger.host.variables import require_settable
from odek.danger.paths import Place
from odek.danger.program import identify_program
from odek.danger.risk import NotUnderstood
from odek.danger.shell import abstract_text

MAX_WRAPPERS = 8  # programs that run programs that run programs
_BUILTINS = frozenset(("eval", "source", ".", "trap", "alias", "unalias", "let", "enable", "bind", "complete", "shopt"))
_EXCLUDES_NAMES = ("grep", "egrep", "fgrep", "ggrep")
_VERSIONS = ("--version", "--help")
_VERSION_FLAGS = frozenset(("-v", "-V", "--info", "--list-sdks", "--list-runtimes"))


class HostRule:
    """Judges the simple commands of one command line, in the order in which they run."""

    def __init__(self, place: Place, asked: Container[str]) -> None:
        """`asked`: as for Places."""
        self.places = Places(place, asked)
        self._checkout = Checkout(place, self.places)
        self._links_made = False

    def why_not(self, words: Sequence[str], at: At) -> str:
        """Return what is not understood of a command, "" for nothing; its words are expanded."""
        try:
            self.check(tuple(words), at)
        except NotUnderstood as doubt:
            return str(doubt)
        return ""

    def why_not_redirect(self, operator: str, path: str, cwds: Sequence[str]) -> str:
        """Return what is not understood of a redirection to or from a file."""
        try:
            self._require_no_links()
            if operator in ("<", "<&"):
                self.places.read(path, cwds)
            elif any(mark in path for mark in abstract_text.GLOBS):
                raise NotUnderstood("redirects to a place that cannot be known beforehand")
            else:
                self.places.write(path, cwds)
        except NotUnderstood as doubt:
            return str(doubt)
        return ""

    def why_not_assign(self, name: str, values: Sequence[str]) -> str:
        """Return why the variable `name` may not be set."""
        try:
            require_settable(name, values)
        except NotUnderstood as doubt:
            return str(doubt)
        return ""

    def note_links(self) -> None:
        """Note that from now on a path may lead elsewhere than it did when this was judged."""
        self._links_made = self.places.contents_unknown = True

    def is_known(self, name: str) -> bool:
        """Return whether `name` is a program or a builtin that the table knows."""
        return name in rows() or name in _BUILTINS

    def expects_links(self, program: str | None) -> None:
        """Note that `program` runs in a loop: what it links, later rounds of the loop follow."""
        row = rows().get(program or "")
        self._links_made = self._links_made or (row is not None and row.links)
        self.places.contents_unknown = self.places.contents_unknown or self._links_made or bool(row and row.changes)

    def check(self, words: tuple[str, ...], at: At, depth: int = 0) -> None:
        """Raise NotUnderstood for what is not understood."""
        if not words or not abstract_text.is_exact(words[0]) or depth > MAX_WRAPPERS:
            raise NotUnderstood("runs a program that cannot be known beforehand")
        program = identify_program(words[0], rows())
        if program.origin == "file":
            raise NotUnderstood(f"runs the program {words[0]} of the project")
        if len(words) == 2 and words[1] in _VERSIONS and program.name in rows():
            require_own_code(self.places, program.name, (), at.cwds)
            return
        row, rest, at = self._row(program.name, words[1:], at)
        require_own_code(self.places, program.name, row.name.split()[1:], at.cwds)
        at = replace(at, row=row.name, depth=depth, modes=frozenset())
        special = SPECIAL.get(row.name)
        if special is not None:
            rest = special(self, row, rest, at)
        layout = lay_out(row, rest, lambda word: not row.globs and self.places.has_option_names(word, at.cwds))
        excluded = tuple(
            value for option, _, value in layout.values if option == "--exclude" and abstract_text.is_exact(value)
        )
        if layout.modes or excluded:
            at = replace(at, modes=layout.modes, excluded=excluded if row.name in _EXCLUDES_NAMES else ())
        for option, kind, value in layout.values:
            self._apply(kind, value, at, f"the value of option {option} of {row.name}")
        self._operands(row, layout, at)
        after = AFTER.get(row.name)
        if after is not None:
            after(self, layout, at)
        self._links_made = self._links_made or row.links
        self.places.contents_unknown = self.places.contents_unknown or row.links or row.changes

    def run(self, words: tuple[str, ...], at: At) -> None:
        """Check a command that another one runs."""
        self.check(words, replace(at, modes=frozenset()), at.depth + 1)

    def _row(self, name: str, words: tuple[str, ...], at: At) -> tuple[Row, tuple[str, ...], At]:
        """Return the row of a program or of its subcommand, and the words that belong to it."""
        table = rows()
        row = table.get(name)
        if row is None:
            raise NotUnderstood(f"{name} is not known to be harmless")
        if row.operands != ("sub",):
            return row, words, at
        layout = lay_out(replace(row, stops=True), words)
        for option, kind, value in layout.values:
            self._apply(kind, value, at, f"the value of option {option} of {name}")
        if name == "git":
            at = replace(at, cwds=self._checkout.enter(layout, at))
        operands = layout.operands
        if not operands:
            if layout.options and layout.options <= _VERSION_FLAGS:
                return replace(row, operands=()), (), at
            raise NotUnderstood(f"{name} without a subcommand is not known to be harmless")
        for length in (3, 2, 1):
            path = " ".join((name, *operands[:length]))
            if path in table and len(operands) >= length and table[path].operands != ("sub",):
                if name == "git":
                    self._checkout.require(path, at)
                return table[path], operands[length:], at
        raise NotUnderstood(f"{name} {abstract_text.rendered(operands[0])} is not known to be harmless")

    def _operands(self, row: Row, layout: Layout, at: At) -> None:
        for kind, value in _assigned_kinds(row, layout):
            if kind == "cmd":
                self.run(value if isinstance(value, tuple) else (value,), at)
            elif isinstance(value, str):
                if not kind.startswith("any") and not KINDS[kind].is_path and kind != "names":
                    self._require_one_word(row, value)
                self._apply(kind, value, at, f"an operand of {row.name}")

    def _require_one_word(self, row: Row, value: str) -> None:
        """A glob in place of a word shifts the words behind it: a pattern becomes a file."""
        if any(mark in value for mark in abstract_text.GLOBS):
            raise NotUnderstood(f"{abstract_text.rendered(value)[:60]} may be several words for {row.name}")

    def _apply(self, kind: str, value: str, at: At, what: str) -> None:
        function = KINDS[kind]
        if function.is_path:
            self._require_no_links()
        try:
            function.check(self, value, at)
        except ValueError:
            raise NotUnderstood(f"{what} is not known to be harmless: {abstract_text.rendered(value)[:60]}") from None

    def _require_no_links(self) -> None:
        if self._links_made:
            raise NotUnderstood("works on files after a link may have been made")


def _assigned_kinds(row: Row, layout: Layout) -> list[tuple[str, str | tuple[str, ...]]]:
    """Return every operand with its kind; "." is read where a tree is and none is named."""
    specs = [spec.partition("/")[0] for spec in row.operands if not set(spec.split("/")[1:]) & layout.modes]
    operands = list(layout.operands)
    found: list[tuple[str, str | tuple[str, ...]]] = []
    last = _taken_from_end(row, specs, operands)
    for spec in specs:
        if spec == "cmd":
            return [*found, ("cmd", tuple(operands))]
        kind = spec.rstrip("*+?")
        if spec[-1] in "*+":
            found += [(kind, operand) for operand in _several(row, spec, operands, layout)]
            operands = []
        elif operands:
            found.append((kind, operands.pop(0)))
    if operands:
        raise NotUnderstood(f"{row.name} is not known to be harmless with {abstract_text.rendered(operands[0])[:60]}")
    return [*found, *last]


def _taken_from_end(row: Row, specs: list[str], operands: list[str]) -> list[tuple[str, str | tuple[str, ...]]]:
    """Take the operands off that stand behind a number of others, as the target of `cp`."""
    taken: list[tuple[str, str | tuple[str, ...]]] = []
    while len(specs) > 1 and specs[0][-1] in "*+?" and specs[-1][-1] not in "*+?" and specs[-1] != "cmd":
        if not operands:
            raise NotUnderstood(f"{row.name} lacks an operand")
        taken.insert(0, (specs.pop(), operands.pop()))
    return taken


def _several(row: Row, spec: str, operands: list[str], layout: Layout) -> list[str]:
    if spec[-1] == "+" and not operands and "done" not in layout.modes:
        raise NotUnderstood(f"{row.name} lacks an operand, or takes it from its input")
    if not operands and (spec == "visible*" or (spec == "read*" and {"tree", "follow"} & layout.modes)):
        return ["."]
    return operands
