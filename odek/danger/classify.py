"""From a command line to its risk. Pure: nothing is run, looked up or resolved.

Says what a command may do, so that a policy can ask; the wall around it is the sandbox (R-84).
"""

from __future__ import annotations

from odek.danger.interpreter import ShellInterpreter
from odek.danger.paths import Place
from odek.danger.risk import Finding, Risk, RiskClass, summarise
from odek.danger.shell import abstract_text
from odek.danger.shell.limits import Budget, ParseError
from odek.danger.shell.parser import parse_prefix
from odek.danger.shell.state import ShellState
from odek.danger.unparsed import scan_text
from odek.patterns import pattern

_AMBIGUOUS = pattern(r"\[\[|\(\(|\$'|\$\"|&>|\|&|\bfunction\b|\bselect\b|=\(|<\(|>\(|<<<|;;?&")
"""what bash reads in one way and a plain shell in another"""


def classify(command: str, place: Place) -> Risk:
    """Return what `command` may do when `place` runs it with `sh -c`, whichever shell that is."""
    if not abstract_text.is_exact(command):
        return _unreadable(command, "holds control characters", ())
    interpreter = ShellInterpreter(place, Budget())
    error = _follow(interpreter, command, place, posix=False)
    interpreters = [interpreter]
    if _AMBIGUOUS.search(command):  # the shell may be dash or busybox: both readings count
        plain = ShellInterpreter(place, Budget(), second_reading=error is None)
        other = _follow(plain, command, place, posix=True)
        interpreters.append(plain)
        error = error if other and error else other if other and other.limit else None
    failure = str(error) if error else ""
    findings = [finding for each in interpreters for finding in each.findings.values()]
    if failure:
        return _unreadable(command, failure, findings, interpreters)
    return _summary(findings, interpreters)


def _follow(interpreter: ShellInterpreter, command: str, place: Place, *, posix: bool) -> ParseError | None:
    """Let `interpreter` judge `command`, up to its first error if it has one; return that."""
    script, error = parse_prefix(command, Budget(), posix=posix)
    try:
        interpreter.start(script, ShellState(cwds=(place.cwd,)))
    except ParseError as limit:
        return limit
    return error


def _unreadable(
    command: str, why: str, findings: list[Finding] | tuple[()], interpreters: list[ShellInterpreter] | None = None
) -> Risk:
    unknown = Finding(level=RiskClass.UNKNOWN, rule="unreadable", reason=f"the command {why}")
    return _summary([unknown, *findings, *scan_text(command)], interpreters or [], readable=False)


def _summary(findings: list[Finding], interpreters: list[ShellInterpreter], *, readable: bool = True) -> Risk:
    doubts = [
        Finding(level=RiskClass.UNKNOWN, rule="form", reason=why, form=True)
        for each in interpreters
        for why in each.doubts
    ]
    return summarise(
        [*findings, *doubts],
        trusted_files=(name for each in interpreters for name in each.trusted_files),
        commands=dict.fromkeys(fields for each in interpreters for fields in each.commands),
        readable=readable,
    )
