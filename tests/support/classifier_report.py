"""How the classifier does on everyday commands: `scripts/classifier-report`.

The commands come from documents, build files and CI files of well-known projects; each carries the
class that a person gave it, "trusted" where it writes a file that the host trusts, and "host" where
it matters on the host only: inside, the file is the image's or a temporary one. Harmless are all
classes that D-6 allows inside a sandbox; the others must ask there.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from odek.danger.classify import classify
from odek.danger.paths import Place
from odek.danger.policy import HOST_TABLE, Policy, decide, sandbox_table

DATA = Path(__file__).parents[1] / "data" / "everyday-commands.jsonl"
HARMLESS = frozenset(("safe", "local_write", "install", "network_egress", "code_execution", "unknown"))
HOST = Place(home="/home/user", cwd="/home/user/project", workspace="/home/user/project")
SANDBOX = Place(home="/tmp", cwd="/workspace", workspace="/workspace", sandboxed=True)
SHARE_LIMIT = 0.02  # of the harmless commands may ask inside the sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A command and what a person says of it."""

    command: str
    level: str
    trusted: bool
    host_only: bool

    @property
    def harmless(self) -> bool:
        """whether it should run in the sandbox without a question"""
        return (self.level in HARMLESS and not self.trusted) or self.host_only


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found."""

    entries: int
    harmless: int
    wrong_class: tuple[str, ...]
    asks: tuple[str, ...]
    """harmless commands that are not simply allowed in a sandbox without internet"""
    passes: tuple[str, ...]
    """harmful commands that are allowed in a sandbox"""
    host: tuple[tuple[str, int], ...]
    """how often each action is taken on the host"""


def read_entries() -> tuple[Entry, ...]:
    """Return the corpus."""
    entries = []
    for line in DATA.read_text(encoding="utf-8").splitlines():
        level, command = json.loads(line)
        name, _, mark = level.partition(" ")
        entries.append(Entry(command=command, level=name, trusted=mark == "trusted", host_only=mark == "host"))
    return tuple(entries)


def measure(entries: tuple[Entry, ...]) -> Report:
    """Return what the classifier makes of `entries`."""
    sandbox = Policy(table=sandbox_table(internet=False), section="dangerous.sandboxed")
    host = Policy(table=HOST_TABLE)
    wrong, asks, passes, actions = [], [], [], Counter[str]()
    for entry in entries:
        risk = classify(entry.command, HOST)
        if (risk.level.label, bool(risk.trusted_files)) != (entry.level, entry.trusted):
            wrong.append(f"{entry.command}  # {risk.level.label}, not {entry.level}")
        actions[decide(risk, entry.command, host).action] += 1
        inside = decide(classify(entry.command, SANDBOX), entry.command, sandbox)
        if entry.harmless and inside.action != "allow":
            asks.append(f"{entry.command}  # {inside.rule}")
        if not entry.harmless and inside.action == "allow":
            passes.append(entry.command)
    return Report(
        entries=len(entries),
        harmless=sum(entry.harmless for entry in entries),
        wrong_class=tuple(wrong),
        asks=tuple(asks),
        passes=tuple(passes),
        host=tuple(sorted(actions.items())),
    )


def main() -> int:
    """Print the report; 1 when a limit is broken."""
    report = measure(read_entries())
    share = len(report.asks) / report.harmless
    print(f"{report.entries} commands, {report.harmless} harmless, {report.entries - report.harmless} not")
    print(f"another class than expected: {len(report.wrong_class)}")
    print(f"sandbox, harmless but asked: {len(report.asks)} ({share:.1%}; at most {SHARE_LIMIT:.0%})")
    print(f"sandbox, harmful but allowed: {len(report.passes)} (must be 0)")
    print("host: " + ", ".join(f"{action} {count}" for action, count in report.host))
    for title, lines in (("class", report.wrong_class), ("asks", report.asks), ("passes", report.passes)):
        for line in lines:
            print(f"{title}: {line}")
    return 1 if share > SHARE_LIMIT or report.passes else 0


if __name__ == "__main__":
    sys.exit(main())
