"""Findings for text that cannot be parsed: it is unknown, and the programs that it names count.

A shell may run the first lines of a script before it stumbles over a later one, so unreadable text
is not harmless. Inside the sandbox unknown commands are allowed; the findings made here, all of
lesser rank, keep a deletion or an upload from passing among them.
"""

from __future__ import annotations

from odek.danger.risk import Finding, RiskClass
from odek.patterns import pattern

_QUOTES = pattern(r"\\\n|[\\'\"]|\$(?=['\"])")
_WORD = pattern(r"[a-z_][a-z0-9_.+-]*")
_DELETING = frozenset(
    """
    rm rmdir unlink shred dd mkfs wipefs blkdiscard truncate mv chmod chown git find rsync sudo su doas docker podman
    kubectl
    dropdb crontab eval shutdown reboot kill
    """.split()
)
_FILES = (".git/", ".envrc", ".vscode", "odek.json", "agents.md", "dockerfile.odek")
_NETWORK = frozenset(
    """
    curl wget nc ncat netcat socat ssh scp sftp ftp tftp telnet rclone rsync aria2c git dig nslookup http https
    """.split()
)


def scan_text(text: str) -> tuple[Finding, ...]:
    """Return what `text` names that must not pass unseen; the class unknown is the caller's to add."""
    plain = _QUOTES.sub("", text).lower()
    words = set(_WORD.findall(plain))
    findings: list[Finding] = []
    if words & _DELETING or any(word.startswith("mkfs.") for word in words) or any(name in plain for name in _FILES):
        findings.append(
            Finding(
                level=RiskClass.SYSTEM_WRITE,
                rule="unreadable.deletes",
                reason="names a program that deletes or changes much, in text that cannot be parsed",
            )
        )
    if words & _NETWORK or "/dev/tcp/" in plain or "/dev/udp/" in plain:
        findings.append(
            Finding(
                level=RiskClass.NETWORK_EGRESS,
                rule="unreadable.network",
                reason="names a program of the network, in text that cannot be parsed",
            )
        )
    return tuple(findings)
