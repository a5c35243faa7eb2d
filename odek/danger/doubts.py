"""On the host: what of a command line is not understood, found while it is followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odek.danger.paths import Place
from odek.danger.risk import RiskClass
from odek.danger.shell import abstract_text
from odek.danger.shell.expand import Fields, combine_readings
from odek.danger.shell.queries import assigned, changed_names, simple_commands
from odek.danger.shell.state import UNKNOWN, ShellState, Values
from odek.danger.shell.syntax import Compound, Simple, literal_text
from odek.patterns import pattern

if TYPE_CHECKING:
    from odek.danger.host.command import At
    from odek.danger.host.rule import HostRule

_MOVING = frozenset(("cd", "pushd", "popd", "eval", "source", "."))
_NO_PROGRAM = pattern(r"[A-Za-z_]\w*(?:\+\+|--|[-+*/%]?=)")  # `((i++))`, read as dash reads it


class Doubts:
    """The part of a ShellInterpreter that holds commands against the host table; it does nothing in a container."""

    def __init__(self, place: Place, asked: set[str], *, second_reading: bool) -> None:
        """`asked`: the trusted files that are asked about by name; it grows. `second_reading`: see ShellInterpreter."""
        self._place = place
        self._second_reading = second_reading
        self.doubts: dict[str, None] = {}
        """on the host: what of the commands is not understood, in the order found"""
        self._host = None if place.sandboxed else _host_rule(place, asked)
        self._worst = RiskClass.SAFE
        """the worst finding since it was last set back"""
        self._pending: list[str] | None = None
        """what is not understood of the simple command at hand"""
        self._fed_from = ""
        self._fed_by: Fields = ()
        """the file, or the command before it in a pipe, that feeds the simple command at hand"""
        self._last: Fields = ()
        self._inner = 0
        """how many programs that run programs are being judged"""

    def _doubt_simple(
        self,
        command: Simple,
        readings: list[tuple[Fields, ...]],
        values: list[tuple[str, Values, bool]],
        cwds: Values,
        fed: str | None,
        state: ShellState,
    ) -> None:
        """On the host: take note of what is not understood of a command that the rules hold for harmless."""
        assert self._host is not None
        for (name, candidates, _), assignment in zip(values, command.assignments, strict=True):
            self._doubt(self._host.why_not_assign(name, candidates))
            if assignment.subscript:
                self._doubt(f"sets an element of {name}, whose subscript may run commands")
        combinations = combine_readings(readings)
        self._last = combinations[0] if combinations and len(combinations) == 1 else ()
        if combinations is None:
            self._doubt("has more readings than are looked at")
        for fields in combinations or ():
            if not fields or (self._second_reading and _NO_PROGRAM.match(fields[0])):
                continue
            if fields[0] not in state.functions:
                self._doubt(self._host.why_not(fields, self._circumstances(cwds, fed)))
            elif fields[0] in state.maybe:
                self._doubt(f"runs {fields[0]}, which may or may not be a function")

    def _circumstances(self, cwds: Values, fed: str | None) -> At:
        from odek.danger.host.command import At

        return At(cwds=cwds, stdin=fed, fed_from=self._fed_from, fed_by=self._fed_by)

    def _doubt(self, why: str) -> None:
        if not why or self._host is None or self._inner:
            return
        if self._pending is None:
            self.doubts.setdefault(why)
        else:
            self._pending.append(why)

    def _doubt_expansion(self, why: str, name: str = "", values: Values = ()) -> None:
        """Note that an expansion is not understood, or that it sets the variable `name`."""
        self._doubt(self._host.why_not_assign(name, values) if name and self._host else why)

    def _forget_changes(self, command: Compound, state: ShellState) -> None:
        """At the start of a loop: forget what its body changes, so that one round covers all."""
        changes: dict[str, bool] = {}
        if self._host:
            bodies = tuple(script for function in state.functions.values() for script in function.scripts)
            changes = changed_names((*command.scripts, *bodies))
        for name, counts in changes.items():
            known = state.variables.get(name, UNKNOWN)
            is_number = counts and all(value == abstract_text.NAME or value.isdigit() for value in known)
            state.assign(name, (abstract_text.NAME,) if is_number else UNKNOWN)
        if "" in changes:
            state.variables = dict.fromkeys(state.variables, UNKNOWN)
        for part in simple_commands(command.scripts):
            for name in assigned(part):
                if name not in changes:
                    state.assign(name, UNKNOWN)
            program = literal_text(part.words[0]) if part.words else None
            if program in _MOVING or program in state.functions:
                state.cwds = UNKNOWN
            if self._host:
                self._host.expects_links(program)


def _host_rule(place: Place, asked: set[str]) -> HostRule:
    from odek.danger.host.rule import HostRule  # what runs in a container needs none of it

    return HostRule(place, asked)
