"""Follows a script through its branches and judges every command in it. Nothing is run.

Each part is judged in the state that the parts before it leave behind: variables, directory, functions.
Loops are judged once, with everything that their body changes unknown at the start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from odek import trusted_files
from odek.danger.doubts import Doubts
from odek.danger.paths import (
    Place,
    Reading,
    classify_read,
    classify_write,
    is_below,
    resolve,
    trusted_name,
    writable_root,
)
from odek.danger.program import check_call, trusted_output
from odek.danger.risk import Finding, Hosts, RiskClass, Scope, contained
from odek.danger.rules.environment import check_assignment
from odek.danger.shell import abstract_text
from odek.danger.shell.expand import Expander, Fields, merge_readings
from odek.danger.shell.limits import Budget, ParseError
from odek.danger.shell.parser import parse_script
from odek.danger.shell.queries import compares_numbers, is_bomb, is_move, leaves, loop_values
from odek.danger.shell.state import UNKNOWN, ShellState
from odek.danger.shell.syntax import AndOr, Command, Compound, Pipeline, Redirect, Script, Simple
from odek.danger.unparsed import scan_text
from odek.patterns import pattern

_PLAIN = pattern(r"(?!id_|auth)[a-zA-Z0-9_+-]+")  # names that no rule of paths knows
_EXPANSION_RULES = {
    "expansion.assign": "an expansion assigns what a command prints",
    "expansion.subscript": "arithmetic evaluates a subscript, which can run commands",
}


class ShellInterpreter(Doubts):
    """Collects what one command line does."""

    def __init__(self, place: Place, budget: Budget, *, second_reading: bool = False) -> None:
        """`second_reading`: a second reading of ambiguous text, in which unknown programs mean nothing."""
        self.trusted_files: set[str] = set()
        super().__init__(place, self.trusted_files, second_reading=second_reading)
        self._budget = budget
        self._ignore_unknown = False
        self.findings: dict[RiskClass, Finding] = {}
        self.commands: list[Fields] = []
        self.assigned: set[str] = set()

    @property
    def place(self) -> Place:
        """where the command would run"""
        return self._place

    def assign(self, name: str) -> None:
        """See call.RuleContext."""
        self.assigned.add(name)

    def add(
        self, level: RiskClass, rule: str, reason: str, *, scope: Scope = Scope.WORKSPACE, hosts: Hosts = None
    ) -> None:
        """See call.RuleContext."""
        if level is RiskClass.UNKNOWN and (self._second_reading or self._ignore_unknown):
            return
        finding = Finding(level=level, rule=rule, reason=reason, scope=scope, hosts=hosts)
        if self._place.sandboxed:
            finding = contained(finding, self._place.peers)
        self._worst = max(self._worst, finding.level)
        self.findings.setdefault(finding.level, finding)

    def note(self, words: Sequence[str]) -> None:
        """See call.RuleContext."""
        if tuple(words) != self.commands[-1]:
            self.commands.append(tuple(words))

    def write(self, path: str, state: ShellState) -> None:
        """See call.RuleContext."""
        if self._second_reading and not abstract_text.is_exact(path):
            return
        if path.startswith(("/dev/tcp/", "/dev/udp/")):
            self.add(RiskClass.NETWORK_EGRESS, "redirect.network", "opens a network connection")
            return
        for cwd in state.cwds:
            resolved = resolve(self._shortened(path, cwd), cwd)
            finding = classify_write(resolved, self._place)
            if finding.level > RiskClass.LOCAL_WRITE:  # its reason names the file
                finding = classify_write(resolve(path, cwd), self._place)
            self.add(finding.level, finding.rule, finding.reason)
            if name := trusted_name(resolved, self._place):
                self.trusted_files.add(name)

    def read(self, path: str, state: ShellState, how: Reading) -> None:
        """See call.RuleContext."""
        if "/dev/tcp/" in path or "/dev/udp/" in path:
            self.add(RiskClass.NETWORK_EGRESS, "redirect.network", "opens a network connection")
        for cwd in state.cwds:
            finding = classify_read(resolve(self._shortened(path, cwd), cwd), self._place, how)
            finding = finding and classify_read(resolve(path, cwd), self._place, how)
            if finding:
                self.add(finding.level, finding.rule, finding.reason)

    def _shortened(self, path: str, cwd: str) -> str:
        """Return one name for all names that mean the same in `cwd`, which are then looked up once."""
        ordinary = "/." not in cwd and is_below(cwd, writable_root(self._place))
        plain = ordinary and _PLAIN.fullmatch(path) and not trusted_files.may_count(path.casefold())
        return "x" if plain else path

    def run(self, argv: Sequence[str], state: ShellState, *, stdin: str | None, ignore_unknown: bool) -> str:
        """See call.RuleContext."""
        self._budget.spend()
        self._budget.enter()
        before, self._ignore_unknown = self._ignore_unknown, self._ignore_unknown or ignore_unknown
        self._inner += 1
        output = self._fields(tuple(argv), state, stdin, frozenset())
        self._inner -= 1
        self._ignore_unknown = before
        self._budget.leave()
        return output

    def text(self, text: str, state: ShellState, *, stdin: str | None) -> None:
        """See call.RuleContext."""
        ignore_unknown = self._ignore_unknown
        if abstract_text.holds_unknown(text):
            self.add(RiskClass.CODE_EXECUTION, "shell.computed", "runs commands that cannot be known beforehand")
            self._ignore_unknown = True
        self._budget.enter()
        self._inner += 1
        depth = self._budget.depth
        try:
            script = parse_script(text, self._budget)
        except ParseError as error:
            self._budget.depth = depth
            self.add(RiskClass.UNKNOWN, "shell.unreadable", f"hands text to a shell that {error}")
            for finding in scan_text(text):
                self.add(finding.level, finding.rule, finding.reason)
        else:
            self.script(script, state, stdin)
        self._inner -= 1
        self._budget.leave()
        self._ignore_unknown = ignore_unknown

    def start(self, script: Script, state: ShellState) -> None:
        """Check a whole command line. Raises ParseError when it is too much."""
        self.script(script, state)

    def script(self, script: Script, state: ShellState, stdin: str | None = None) -> str:
        """Check `script` and return what it prints, as far as that is known."""
        output = "" if not script.items else abstract_text.ANY
        for item in script.items:
            printed = self._and_or(item, state, stdin)
            output = printed if len(script.items) == 1 else abstract_text.ANY
        return output

    def _and_or(self, item: AndOr, state: ShellState, stdin: str | None) -> str:
        target = state.copy() if item.background else state
        failed = target.copy() if item.operators or is_move(item.pipelines[0]) else None
        output = self._pipeline(item.pipelines[0], target, stdin)
        if failed is not None:
            failed.join(target)
            self._chain(item, target, failed, stdin)
        return output if not item.operators else abstract_text.ANY

    def _chain(self, item: AndOr, state: ShellState, failed: ShellState | None, stdin: str | None) -> None:
        """Follow `&&` and `||`; `state` ends as any of the states in which the chain can end."""
        succeeded = state.copy()
        for operator, pipeline in zip(item.operators, item.pipelines[1:], strict=True):
            current = succeeded.copy()
            if operator == "||" and failed is not None:
                current.join(failed)
            before = current.copy()
            self._pipeline(pipeline, current, stdin)
            if operator == "&&":
                succeeded = current
                failed = _joined(_joined(failed, before), current)
            elif leaves(pipeline, state):
                failed = None
            else:
                succeeded.join(current)
                failed = _joined(before, current)
        if failed is not None:
            succeeded.join(failed)
        state.become(succeeded)

    def _pipeline(self, pipeline: Pipeline, state: ShellState, stdin: str | None) -> str:
        if len(pipeline.commands) == 1:
            return self._command(pipeline.commands[0], state, stdin)
        output = stdin
        for index, command in enumerate(pipeline.commands):
            self._fed_by = self._last if index else ()
            output = self._command(command, state.copy(), output)
        return output if output is not None else ""

    # commands

    def _command(self, command: Command, state: ShellState, stdin: str | None) -> str:
        self._budget.spend()
        if isinstance(command, Simple):
            return self._simple(command, state, stdin)
        self._budget.enter()
        fed = self._redirects(command.redirects, self._expander(state), state, stdin)
        output = _COMPOUND[command.kind](self, command, state, fed)
        self._budget.leave()
        return output

    def _simple(self, command: Simple, state: ShellState, stdin: str | None) -> str:
        outer, self._pending = (self._worst, self._pending), []
        self._fed_from, fed_by = "", self._fed_by
        self._worst = RiskClass.SAFE
        output = self._check_simple(command, state, stdin, fed_by)
        if self._worst <= RiskClass.LOCAL_WRITE:  # else it is asked about by its class
            self.doubts.update(dict.fromkeys(self._pending))
        self._worst, self._pending = max(outer[0], self._worst) if self._inner else outer[0], outer[1]
        return output

    def _check_simple(self, command: Simple, state: ShellState, stdin: str | None, fed_by: Fields) -> str:
        expander = self._expander(state)
        readings = [expander.readings(word) for word in command.words]
        commands = merge_readings(readings)
        values = [(a.name, expander.value(a.value), a.append) for a in command.assignments]
        self._fed_from, self._fed_by = "", fed_by
        fed = self._redirects(command.redirects, expander, state, stdin)
        cwds = state.cwds
        for name, candidates, _ in values:
            check_assignment(self, name, candidates, program=commands[0][0] if commands else "")
        if not commands:
            for name, candidates, append in values:
                state.assign(name, UNKNOWN if append else candidates)
                state.splits_oddly = state.splits_oddly or name == "IFS"
            output = ""
        else:
            output = self._run_simple(commands, state, fed, frozenset(expander.secrets))
        if self._host and not self._inner and self._worst <= RiskClass.LOCAL_WRITE:
            self._doubt_simple(command, readings, values, cwds, fed, state)
        return abstract_text.ANY if any(redirect.operator not in _FEEDING for redirect in command.redirects) else output

    def _run_simple(
        self, commands: tuple[Fields, ...], state: ShellState, fed: str | None, secrets: frozenset[str]
    ) -> str:
        output = self._fields(commands[0], state, fed, secrets)
        for fields in commands[1:]:
            self._budget.spend()
            self._fields(fields, state.copy(), fed, secrets)
            output = abstract_text.ANY
        return output

    def _fields(self, fields: Fields, state: ShellState, stdin: str | None, secrets: frozenset[str]) -> str:
        self.commands.append(fields)
        function = state.functions.get(fields[0])
        if function is not None:
            return self._function_call(function, fields, state, stdin)
        output = check_call(self, state, fields, stdin, secrets)
        return output if self._host is None else trusted_output(fields, output)

    def _function_call(self, function: Compound, fields: Fields, state: ShellState, stdin: str | None) -> str:
        self._budget.spend(8)  # calls repeat work, so they must run out
        self._budget.enter()
        arguments, state.arguments = state.arguments, fields[1:]
        state.functions[fields[0]] = _NOTHING  # what it does when it calls itself is what it does
        output = self.script(function.scripts[0], state, stdin)
        state.functions[fields[0]] = function
        state.arguments = arguments
        self._budget.leave()
        return output

    def _redirects(
        self, redirects: tuple[Redirect, ...], expander: Expander, state: ShellState, stdin: str | None
    ) -> str | None:
        """Check redirections and return what is fed to the command."""
        for redirect in redirects:
            for target in expander.value(redirect.target, globs=redirect.operator not in ("<<", "<<<")):
                if redirect.operator in ("<<", "<<<"):
                    stdin = target
                    continue
                if redirect.operator in ("<&", ">&") and re.fullmatch(r"\d+-?|-", target):
                    continue
                worst, self._worst = self._worst, RiskClass.SAFE
                if redirect.operator in ("<", "<&"):
                    self.read(target, state, "contents")
                    stdin, self._fed_from = abstract_text.ANY, target if abstract_text.is_exact(target) else ""
                else:
                    self.write(target, state)
                if self._host and self._worst <= RiskClass.LOCAL_WRITE:
                    self._doubt(self._host.why_not_redirect(redirect.operator, target, state.cwds))
                self._worst = max(self._worst, worst)
        return stdin

    def _expander(self, state: ShellState) -> Expander:
        return Expander(
            place=self._place,
            state=state,
            run=lambda script: self._substitution(script, state),
            warn=self._warn,
            doubt=self._doubt_expansion,
        )

    def _substitution(self, script: Script, state: ShellState) -> str:
        self._budget.enter()
        output = self.script(script, state.copy())
        self._budget.leave()
        return output

    def _warn(self, rule: str) -> None:
        self.add(RiskClass.CODE_EXECUTION, rule, _EXPANSION_RULES[rule])

    # compound commands

    def _subshell(self, command: Compound, state: ShellState, stdin: str | None) -> str:
        return self.script(command.scripts[0], state.copy(), stdin)

    def _group(self, command: Compound, state: ShellState, stdin: str | None) -> str:
        return self.script(command.scripts[0], state, stdin)

    def _if(self, command: Compound, state: ShellState, stdin: str | None) -> str:
        ends: ShellState | None = None
        scripts = command.scripts
        for index in range(0, len(scripts) - 1, 2):
            self.script(scripts[index], state, stdin)
            branch = state.copy()
            self.script(scripts[index + 1], branch, stdin)
            ends = _joined(ends, branch)
        if len(scripts) % 2:
            self.script(scripts[-1], state, stdin)
        if ends is not None:
            state.join(ends)
        return abstract_text.ANY

    def _loop(self, command: Compound, state: ShellState, stdin: str | None) -> str:
        self._forget_changes(command, state)
        self.script(command.scripts[0], state, stdin)
        body = state.copy()
        self.script(command.scripts[1], body, stdin)
        state.join(body)
        return abstract_text.ANY

    def _for(self, command: Compound, state: ShellState, stdin: str | None) -> str:
        expander = self._expander(state)
        fields = tuple(text for word in command.words for reading in expander.readings(word) for text in reading)
        self._forget_changes(command, state)
        body = state.copy()
        if command.name:
            body.assign(command.name, loop_values(fields))
            self._doubt_expansion("", command.name, loop_values(fields))
        elif command.words:
            expander.arithmetic(command.words[0])
        self.script(command.scripts[0], body, stdin)
        state.join(body)
        return abstract_text.ANY

    def _case(self, command: Compound, state: ShellState, stdin: str | None) -> str:
        expander = self._expander(state)
        for word in command.words:
            expander.readings(word)
        start = state.copy()
        for script in command.scripts:
            branch = start.copy()
            self.script(script, branch, stdin)
            state.join(branch)
        return abstract_text.ANY

    def _function(self, command: Compound, state: ShellState, stdin: str | None) -> str:
        if is_bomb(command):
            self.add(RiskClass.BLOCKED, "fork_bomb", "starts copies of itself without end")
        state.functions[command.name] = command
        state.maybe.discard(command.name)
        if self._host and self._host.is_known(command.name):
            self._doubt(f"makes a function of {command.name}, which is a program")
        body = state.copy()  # judged as if called with anything; a call judges it again
        body.arguments = None
        body.functions[command.name] = _NOTHING
        self.script(command.scripts[0], body, stdin)
        return ""

    def _words(self, command: Compound, state: ShellState, _stdin: str | None) -> str:
        expander = self._expander(state)
        fields = [text for word in command.words for reading in expander.readings(word) for text in reading]
        if command.kind == "arithmetic":
            for word in command.words:
                expander.arithmetic(word)
        elif compares_numbers(fields):
            self._doubt("compares as numbers what may run commands in bash")
        return ""


_COMPOUND = {
    "subshell": ShellInterpreter._subshell,
    "group": ShellInterpreter._group,
    "if": ShellInterpreter._if,
    "loop": ShellInterpreter._loop,
    "for": ShellInterpreter._for,
    "case": ShellInterpreter._case,
    "function": ShellInterpreter._function,
    "test": ShellInterpreter._words,
    "arithmetic": ShellInterpreter._words,
}
_FEEDING = ("<", "<<", "<<<", "<&")
_NOTHING = Compound(kind="function", scripts=(Script(items=()),))


def _joined(first: ShellState | None, second: ShellState) -> ShellState:
    first = first or second.copy()
    first.join(second)
    return first
