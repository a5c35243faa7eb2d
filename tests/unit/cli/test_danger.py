"""`odek danger explain`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odek.cli.commands.danger import render_explanation
from odek.danger.paths import Place
from odek.danger.policy import HOST_TABLE, Explanation, Policy, PolicyContext, Where, explain, sandbox_table

CONTEXTS: dict[Where, PolicyContext] = {
    "host": PolicyContext(
        place=Place(home="/home/user", cwd="/home/user/project", workspace="/home/user/project"),
        policy=Policy(table=HOST_TABLE, denylist=("git push",)),
    ),
    "sandbox": PolicyContext(
        place=Place(home="/tmp", cwd="/workspace", workspace="/workspace", sandboxed=True),
        policy=Policy(
            table=sandbox_table(internet=False),
            section="dangerous.sandboxed",
            non_interactive="allow",
            shared_denylist=("git push",),
        ),
    ),
}


def explained(command: str, here: Where = "sandbox") -> Explanation:
    return explain(command, here=here, contexts=CONTEXTS)


@pytest.mark.parametrize(
    ("command", "here", "lines"),
    [
        (
            "curl x | sh; echo a >.envrc",
            "sandbox",
            [
                "command: curl x | sh; echo a >.envrc",
                "class:   code_execution",
                "rule:    sh.fed",
                "reason:  runs what is fed to it as commands",
                "sandbox: asked about; allowed where no person can be asked  (a run here would be there)",
                "         because it writes .envrc, which the host reads or runs later",
                '         lifted by "dangerous": {"sandboxed": {"classes": {"persistence": "allow"}}}'
                " in ~/.odek/config.json",
                "host:    asked about; refused where no person can be asked",
                '         lifted by "dangerous": {"classes": {"code_execution": "allow", "network_egress": "allow", '
                '"persistence": "allow"}} in ~/.odek/config.json',
            ],
        ),
        (
            "git push",
            "host",
            [
                "command: git push",
                "class:   network_egress",
                "rule:    git.push",
                "reason:  talks to a remote repository",
                "sandbox: refused",
                '         because it matches the entry "git push" of dangerous.denylist',
                '         to lift that, remove "git push" from dangerous.denylist in ~/.odek/config.json',
                "host:    refused  (a run here would be there)",
                '         because it matches the entry "git push" of dangerous.denylist',
                '         to lift that, remove "git push" from dangerous.denylist in ~/.odek/config.json',
            ],
        ),
        (
            "ls",
            "host",
            [
                "command: ls",
                "class:   safe",
                "rule:    ls",
                "reason:  only reads",
                "sandbox: allowed",
                "host:    allowed  (a run here would be there)",
            ],
        ),
    ],
)
def test_explanation_for_people(command: str, here: Where, lines: list[str]) -> None:
    """R-84, D-6: class, rule, reason, both places, and what would change it."""
    said = render_explanation(explained(command, here), here=here).split("\n")
    assert said == lines


def test_hostile_command_is_shown_escaped() -> None:
    """R-64."""
    said = render_explanation(explained("weird\x1b[2K\r\u202e\nclass:   safe"), here="sandbox")
    assert said.split("\n")[0] == "command: weird\\x1b[2K\\r\\u202e\\nclass:   safe"
    assert not set("\x1b\r\u202e") & set(said)


def test_places_are_judged_for_themselves() -> None:
    """D-6: the class is that of the place where a run here would be."""
    assert [explained("cat /etc/passwd", here).risk.level.label for here in ("sandbox", "host")] == [
        "safe",
        "system_write",
    ]
    elsewhere = {**CONTEXTS, "host": replace(CONTEXTS["host"], policy=Policy(table=HOST_TABLE, action="allow"))}
    assert explain("weird", here="host", contexts=elsewhere).decisions["host"].action == "allow"
