"""From a command line to its risk. Pure: nothing is run, looked up or resolved.

Says what a command may do, so that a policy can ask; the wall around it is the sandbox (R-84).
"""

from __future__ import annotations

import re

from odek.danger.fallback import scan_text
from odek.danger.paths import Place
from odek.danger.risk import Finding, Risk, RiskClass, summarise
from odek.danger.shell import marks
from odek.danger.shell.limits import Budget, Unparsable
from odek.danger.shell.parser import parse_prefix
from odek.danger.shell.scope import Scope
from odek.danger.walk import Walker

_AMBIGUOUS = re.compile(r"\[\[|\(\(|\$'|\$\"|&>|\|&|\bfunction\b|\bselect\b|=\(|<\(|>\(|<<<|;;?&")
"""what bash reads in one way and a plain shell in another"""


def classify(command: str, place: Place) -> Risk:
    """Return what `command` may do when `place` runs it with `sh -c`, whichever shell that is."""
    if not marks.is_exact(command):
        return _unreadable(command, "holds control characters", ())
    walker = Walker(place, Budget())
    error = _follow(walker, command, place, posix=False)
    walkers = [walker]
    if _AMBIGUOUS.search(command):  # the shell may be dash or busybox: both readings count
        plain = Walker(place, Budget(), lenient=error is None)
        other = _follow(plain, command, place, posix=True)
        walkers.append(plain)
        error = error if other and error else other if other and other.limit else None
    failure = str(error) if error else ""
    findings = [finding for each in walkers for finding in each.findings.values()]
    if failure:
        return _unreadable(command, failure, findings, walkers)
    return _summary(findings, walkers)


def _follow(walker: Walker, command: str, place: Place, *, posix: bool) -> Unparsable | None:
    """Let `walker` judge `command`, up to its first error if it has one; return that."""
    script, error = parse_prefix(command, Budget(), posix=posix)
    try:
        walker.start(script, Scope(cwds=(place.cwd,)))
    except Unparsable as limit:
        return limit
    return error


def _unreadable(
    command: str, why: str, findings: list[Finding] | tuple[()], walkers: list[Walker] | None = None
) -> Risk:
    unknown = Finding(level=RiskClass.UNKNOWN, rule="unreadable", reason=f"the command {why}")
    return _summary([unknown, *findings, *scan_text(command)], walkers or [], readable=False)


def _summary(findings: list[Finding], walkers: list[Walker], *, readable: bool = True) -> Risk:
    doubts = [
        Finding(level=RiskClass.UNKNOWN, rule="form", reason=why, form=True) for each in walkers for why in each.doubts
    ]
    return summarise(
        [*findings, *doubts],
        trusted_files=(name for each in walkers for name in each.trusted_files),
        commands=dict.fromkeys(fields for each in walkers for fields in each.commands),
        readable=readable,
    )
