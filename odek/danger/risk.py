"""What a command may do: the nine classes, one finding per class, and the whole verdict.

The worst class names the command. The lesser ones are kept as well, because a policy need not follow
the ranks: inside the sandbox `code_execution` is allowed while `network_egress`, of a lower rank, asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum


class RiskClass(IntEnum):
    """The classes in rank order; a command has the class of its worst part (R-84)."""

    SAFE = 1
    LOCAL_WRITE = 2
    INSTALL = 3
    NETWORK_EGRESS = 4
    CODE_EXECUTION = 5
    SYSTEM_WRITE = 6
    UNKNOWN = 7
    DESTRUCTIVE = 8
    BLOCKED = 9

    @property
    def label(self) -> str:
        """the name that settings and prompts use"""
        return self.name.lower()


Hosts = tuple[str, ...] | None
"""every host that something talks to; None when that is not certain"""


class Scope(Enum):
    """What a finding is about. It decides what a container makes of the finding."""

    WORKSPACE = "workspace"
    """files and secrets of the project and of people, and what is shown or changed outside: counts everywhere"""
    SYSTEM = "system"
    """the machine's own packages, users, settings and environment, which a container throws away"""
    NETWORK = "network"
    """a connection; `Finding.hosts` says where to, if that is certain"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One reason why a command has a class."""

    level: RiskClass
    rule: str
    """short name of the rule, "git.push" """
    reason: str
    """a clause for a person: lower case, no full stop"""
    scope: Scope = Scope.WORKSPACE
    hosts: Hosts = None
    """every host that is talked to, of a finding in the scope NETWORK"""
    form: bool = False
    """whether it is the form of a known command that is not understood: asked about rather than refused"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """The verdict on one whole command line."""

    level: RiskClass
    rule: str
    reason: str
    findings: tuple[Finding, ...] = field(default=(), repr=False)
    """the first finding of every class that occurs, worst first; never empty from classify"""
    trusted_files: tuple[str, ...] = ()
    """paths it would write that the host reads or runs later (D-6), sorted"""
    commands: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    """every simple command found, as words; for the denylist"""
    readable: bool = True
    """False when the text could not be parsed: `commands` is then incomplete"""


def contained(finding: Finding, peers: frozenset[str]) -> Finding:
    """Return what `finding` means inside a container that is thrown away, on networks with the hosts `peers` (D-6).

    What counts there is what gets out: work and secrets in the mounted project, files that the host trusts, the
    network. The container's own system does not, nor its environment, which holds what the operator put into it.
    """
    if finding.scope is Scope.SYSTEM and finding.level is RiskClass.SYSTEM_WRITE:
        return replace(finding, level=RiskClass.LOCAL_WRITE)
    if finding.hosts is not None and finding.scope is Scope.NETWORK and peers.issuperset(finding.hosts):
        return replace(finding, level=RiskClass.LOCAL_WRITE, reason=_NEAR)
    return finding


_NEAR = "talks to the sandbox itself or to a service on an attached network"
NOTHING = Finding(level=RiskClass.SAFE, rule="empty", reason="runs nothing")


class NotUnderstood(Exception):
    """Says, as a clause for a person, which part of a command is not known to be harmless."""


def summarise(
    findings: Iterable[Finding],
    *,
    trusted_files: Iterable[str] = (),
    commands: Iterable[tuple[str, ...]] = (),
    readable: bool = True,
) -> Risk:
    """Return the verdict that `findings` add up to: the worst one, and the first of every class."""
    first: dict[RiskClass, Finding] = {}
    for finding in findings:
        first.setdefault(finding.level, finding)
    kept = tuple(first[level] for level in sorted(first, reverse=True)) or (NOTHING,)
    return Risk(
        level=kept[0].level,
        rule=kept[0].rule,
        reason=kept[0].reason,
        findings=kept,
        trusted_files=tuple(sorted(set(trusted_files))),
        commands=tuple(commands),
        readable=readable,
    )
