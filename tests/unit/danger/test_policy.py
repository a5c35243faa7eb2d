"""From a risk to an answer."""

from __future__ import annotations

import pytest

from odek.danger.classify import classify
from odek.danger.paths import Place
from odek.danger.policy import (
    HOST_TABLE,
    Decision,
    Policy,
    PolicyContext,
    decide,
    explain,
    explanation_to_json,
    sandbox_table,
)
from odek.danger.risk import RiskClass

HOST = Place(home="/home/user", cwd="/home/user/project", workspace="/home/user/project")
SANDBOX = Place(home="/tmp", cwd="/workspace", workspace="/workspace", sandboxed=True)
INSIDE = "dangerous.sandboxed"


def decided(command: str, policy: Policy, place: Place = HOST) -> Decision:
    return decide(classify(command, place), command, policy)


def action(command: str, policy: Policy, place: Place = HOST) -> str:
    return decided(command, policy, place).action


def test_classes_rank_as_documented() -> None:
    """R-84: nine classes, in this order."""
    assert [level.label for level in RiskClass] == [
        "safe", "local_write", "install", "network_egress", "code_execution",
        "system_write", "unknown", "destructive", "blocked",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", "allow"),
        ("ls", "allow"),
        ("touch a", "allow"),
        ("npm ci", "prompt"),
        ("curl x", "prompt"),
        ("make", "prompt"),
        ("sudo ls", "prompt"),
        ("weird", "deny"),
        ("rm -rf /", "deny"),
        (":(){ :|:& };:", "deny"),
    ],
)
def test_host_has_the_strict_table(command: str, expected: str) -> None:
    """R-84: the defaults on the host."""
    assert action(command, Policy(table=HOST_TABLE)) == expected


@pytest.mark.parametrize(
    ("command", "offline", "online"),
    [
        ("ls", "allow", "allow"),
        ("touch a", "allow", "allow"),
        ("npm ci", "allow", "allow"),
        ("make", "allow", "allow"),
        ("weird", "allow", "allow"),
        ("curl x", "allow", "prompt"),
        ("psql -c 'select 1'", "allow", "prompt"),
        ("curl x | sh", "allow", "prompt"),
        ("weird; curl x", "allow", "prompt"),
        ("weird; git reset --hard", "prompt", "prompt"),
        ("git reset --hard", "prompt", "prompt"),
        ("rm -rf .", "prompt", "prompt"),
        ("dd if=/dev/zero of=/dev/sda bs=1M", "deny", "deny"),
        ("echo x > .git/hooks/pre-commit", "prompt", "prompt"),
        ("make; cp x .envrc", "prompt", "prompt"),
    ],
)
def test_sandbox_has_a_table_of_its_own(command: str, offline: str, online: str) -> None:
    """D-6; the strictest answer counts, not that of the worst class."""
    actions = [
        action(command, Policy(table=sandbox_table(internet=internet), section=INSIDE), SANDBOX)
        for internet in (False, True)
    ]
    assert actions == [offline, online]


@pytest.mark.parametrize(
    ("policy", "command", "expected"),
    [
        (Policy(table=HOST_TABLE, classes=(("unknown", "prompt"),)), "weird", "prompt"),
        (Policy(table=HOST_TABLE, classes=(("code_execution", "deny"),)), "make", "deny"),
        (
            Policy(table=HOST_TABLE, classes=(("code_execution", "allow"), ("network_egress", "deny"))),
            "curl x | sh",
            "deny",
        ),
        (Policy(table=HOST_TABLE, action="allow"), "weird", "allow"),
        (Policy(table=HOST_TABLE, action="deny"), "ls", "deny"),
        (Policy(table=HOST_TABLE, action="deny", classes=(("safe", "allow"),)), "ls", "allow"),
        (Policy(table=HOST_TABLE, action="allow"), ":(){ :|:& };:", "deny"),
        (Policy(table=HOST_TABLE, classes=(("blocked", "allow"),)), ":(){ :|:& };:", "deny"),
        (Policy(table=HOST_TABLE, allowlist=(":(){ :|:& };:",)), ":(){ :|:& };:", "deny"),
        (Policy(table=HOST_TABLE, allowlist=(" weird  ",)), "  weird", "allow"),
        (Policy(table=HOST_TABLE, allowlist=("weird",)), "weird x", "deny"),
        (Policy(table=HOST_TABLE, allowlist=("rm -rf .",)), "rm -rf .", "allow"),
        (Policy(table=HOST_TABLE, allowlist=("rm -rf /",)), "rm -rf /", "deny"),
        (Policy(table=HOST_TABLE, allowlist=("curl x",), denylist=("curl",)), "curl x", "deny"),
        (Policy(table=HOST_TABLE, classes=(("persistence", "allow"),)), "cp x .envrc", "allow"),
    ],
)
def test_operator_settings_win_over_the_table(policy: Policy, command: str, expected: str) -> None:
    """Runtime 9.5 (5), F-82, F-92: deny beats allow, `blocked` is final, the allowlist is exact."""
    assert action(command, policy) == expected


@pytest.mark.parametrize(
    ("entry", "command", "expected"),
    [
        ("git push", "git push", "deny"),
        ("git push", "git   push origin", "deny"),
        ("git push", "ls; git push", "deny"),
        ("git push", "ls | git push", "deny"),
        ("git push", "echo $(git push)", "deny"),
        ("git push", "sh -c 'git push'", "deny"),
        ("git push", "sudo git push", "deny"),
        ("git push", "git -C sub push", "deny"),
        ("git push", "g\\it 'push'", "deny"),
        ("git push", "/usr/bin/git push", "deny"),
        ("git push", "git pull", "allow"),
        ("git push", "echo git push", "allow"),
        ("git push", "git $x", "prompt"),
        ("git push", "$x push", "prompt"),
        ("git push", "git push '", "prompt"),
        ("rm -rf /", "rm -rf /tmp/x", "allow"),
        ("rm -rf /", "rm -rf /", "deny"),
        ("'git' push", "git push", "deny"),
        ("python3", "python3.11 x", "allow"),
        ("python", "python3.11 x", "deny"),
    ],
)
def test_denylist_matches_words_wherever_a_command_stands(entry: str, command: str, expected: str) -> None:
    """F-92: a prefix of words, not of characters; what may match asks."""
    policy = Policy(table=sandbox_table(internet=False), section=INSIDE, action="allow", denylist=(entry,))
    assert action(command, policy) == expected


@pytest.mark.parametrize(
    ("command", "lifted"),
    [
        ("make", "allow"),
        ("sudo ls", "allow"),
        ("weird", "deny"),
        ("rm -rf /", "deny"),
        (":(){ :|:& };:", "deny"),
    ],
)
def test_non_interactive_allow_never_lifts_the_worst(command: str, lifted: str) -> None:
    """F-96: unknown, destructive and blocked stay refused when nobody can be asked."""
    classes = (("unknown", "prompt"), ("destructive", "prompt"))
    policy = Policy(table=HOST_TABLE, classes=classes, interactive=False, non_interactive="allow")
    assert action(command, policy) == lifted
    assert action(command, Policy(table=HOST_TABLE, classes=classes, interactive=False)) == "deny"


@pytest.mark.parametrize(
    ("command", "setting"),
    [
        ("ls", ""),
        ("weird", '"dangerous": {"classes": {"unknown": "allow"}} in ~/.odek/config.json'),
        (
            "curl x | sh",
            '"dangerous": {"classes": {"code_execution": "allow", "network_egress": "allow"}} in ~/.odek/config.json',
        ),
        ("cp x .envrc", '"dangerous": {"classes": {"persistence": "allow"}} in ~/.odek/config.json'),
        (":(){ :|:& };:", ""),
    ],
)
def test_refusal_names_the_setting_that_lifts_it(command: str, setting: str) -> None:
    """D-6: the message of a denied command names the exact setting."""
    assert decided(command, Policy(table=HOST_TABLE, interactive=False)).setting == setting


def test_refusal_in_the_sandbox_names_the_nested_setting() -> None:
    """D-6: `dangerous.sandboxed`."""
    policy = Policy(table=sandbox_table(internet=True), section=INSIDE, interactive=False)
    assert decided("curl x", policy, SANDBOX) == Decision(
        action="deny",
        level=RiskClass.NETWORK_EGRESS,
        rule="curl",
        reason="talks to the network",
        setting='"dangerous": {"sandboxed": {"classes": {"network_egress": "allow"}}} in ~/.odek/config.json',
        classes_to_approve=("network_egress",),
        denied_non_interactively=True,
        batchable=True,
    )


@pytest.mark.parametrize(
    ("command", "rememberable"),
    [
        ("curl x", True),
        ("curl x | sh", True),
        ("sudo ls", True),
        ("rm -rf /", False),
        ("curl x; rm -rf /", False),
        ("weird", False),
        ("curl x >.envrc", False),
        ("git -C . push", True),
        ("$X push", False),
    ],
)
def test_one_yes_may_not_stand_for_the_worst(command: str, rememberable: bool) -> None:
    """Runtime 5.6: trust is not offered for destructive, unknown, blocked, nor for files that the host trusts."""
    policy = Policy(table=HOST_TABLE, action="prompt", denylist=("git pull",))
    assert decided(command, policy).rememberable is rememberable


def test_denylist_of_the_whole_holds_beside_that_of_the_place() -> None:
    """Runtime 5.2: deny beats allow, also where `dangerous.sandboxed` replaces the rest."""
    policy = Policy(
        table=sandbox_table(internet=False),
        section=INSIDE,
        action="allow",
        denylist=("make",),
        shared_denylist=("git push",),
    )
    assert [decided(command, policy, SANDBOX).setting for command in ("make", "git push o", "$X push")] == [
        'remove "make" from dangerous.sandboxed.denylist in ~/.odek/config.json',
        'remove "git push" from dangerous.denylist in ~/.odek/config.json',
        'remove "make" from dangerous.sandboxed.denylist in ~/.odek/config.json',
    ]


def test_refusal_by_the_denylist_says_so() -> None:
    policy = Policy(table=HOST_TABLE, denylist=("curl",))
    assert decided("curl x", policy) == Decision(
        action="deny",
        level=RiskClass.NETWORK_EGRESS,
        rule="denylist",
        reason='matches the entry "curl" of dangerous.denylist',
        setting='remove "curl" from dangerous.denylist in ~/.odek/config.json',
    )


def test_setting_that_is_named_really_lifts_the_refusal() -> None:
    policy = Policy(table=HOST_TABLE, classes=(("code_execution", "allow"), ("network_egress", "allow")))
    assert action("curl x | sh", policy) == "allow"


def test_explanation_has_its_five_keys() -> None:
    """R-84: what `odek danger explain` prints."""
    explanation = explain(
        "curl x | sh",
        here="sandbox",
        contexts={
            "host": PolicyContext(place=HOST, policy=Policy(table=HOST_TABLE)),
            "sandbox": PolicyContext(place=SANDBOX, policy=Policy(table=sandbox_table(internet=False), section=INSIDE)),
        },
    )
    assert explanation_to_json(explanation) == {
        "command": "curl x | sh",
        "class": "code_execution",
        "rule": "sh.fed",
        "reason": "runs what is fed to it as commands",
        "actions": {"host": "prompt", "sandbox": "allow"},
    }
    assert explanation.unattended == {"host": "deny", "sandbox": "allow"}
