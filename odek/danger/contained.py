"""What is a matter of the system on the host, and of nobody inside a container that is thrown away (D-6).

D-6 names neither kind for the sandbox. What counts there is what gets out of the container: work and secrets in
the mounted project, files that the host trusts, the network. The container's own system, its users and
packages, and an environment that holds what the operator put into it do not.
"""

from __future__ import annotations

from odek.danger.risk import RiskClass

REASONS = frozenset((
    "manages the system",
    "changes the system",
    "changes the system's packages",
    "changes the runlevel of the machine",
    "changes git's settings for all repositories of the user",
    "acts with the rights of another user or on another root",
    "runs a command with the rights of another user",
    "runs a command as another user or on another root",
    "shows the environment, which may hold secrets",
    "shows all variables, which may hold secrets",
))  # fmt: skip
SHOWS_VALUE = "shows the value of "
"""begins the reason of a command that prints a variable whose name says secret"""


def contain(level: RiskClass, reason: str) -> RiskClass:
    """Return the class that a finding has inside a container."""
    if level is RiskClass.SYSTEM_WRITE and (reason in REASONS or reason.startswith(SHOWS_VALUE)):
        return RiskClass.LOCAL_WRITE
    return level
