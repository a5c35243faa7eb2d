"""A place and its policy together."""

from __future__ import annotations

import pytest

from odek.danger.paths import Place
from odek.danger.policy import HOST_TABLE, Decision, Policy, PolicyContext, sandbox_table
from odek.danger.risk import RiskClass

HOST = PolicyContext(
    place=Place(home="/home/user", cwd="/home/user/project", workspace="/home/user/project"),
    policy=Policy(table=HOST_TABLE),
)
AT_HOME = PolicyContext(
    place=Place(home="/home/user", cwd="/home/user", workspace="/home/user"), policy=Policy(table=HOST_TABLE)
)
SANDBOX = PolicyContext(
    place=Place(home="/tmp", cwd="/workspace", workspace="/workspace", sandboxed=True),
    policy=Policy(table=sandbox_table(internet=True), section="dangerous.sandboxed"),
)


def said(decision: Decision) -> tuple[str, str]:
    return decision.action, decision.level.label


@pytest.mark.parametrize("context", [HOST, SANDBOX], ids=["host", "sandbox"])
@pytest.mark.parametrize(
    ("path", "read", "write"),
    [
        ("src/a.py", ("allow", "safe"), ("allow", "local_write")),
        (".env.example", ("allow", "safe"), ("allow", "local_write")),
        (".env", ("prompt", "system_write"), ("allow", "local_write")),
        ("deploy/.ssh/id_rsa", ("prompt", "system_write"), ("allow", "local_write")),
        (".git/hooks/pre-commit", ("allow", "safe"), ("prompt", "local_write")),
        ("odek.json", ("allow", "safe"), ("prompt", "local_write")),
    ],
)
def test_files_that_tools_use(context: PolicyContext, path: str, read: tuple[str, str], write: tuple[str, str]) -> None:
    """Runtime 5.4, D-6: the same rules as for commands."""
    assert (said(context.decide_read(path)), said(context.decide_write(path))) == (read, write)


@pytest.mark.parametrize("path", [".bashrc", ".ssh/authorized_keys", ".odek/config.json", ".config/autostart/x"])
def test_start_files_and_anchors_of_a_home_that_is_the_workspace(path: str) -> None:
    """F-70, runtime 5.4."""
    assert said(AT_HOME.decide_write(path)) == ("prompt", "system_write")


def test_file_that_a_server_trusts_is_asked_about() -> None:
    """D-6, B55."""
    decision = SANDBOX.decide_write(".github/workflows/ci.yml")
    assert decision == Decision(
        action="prompt",
        level=RiskClass.LOCAL_WRITE,
        rule="path.trusted",
        reason="writes .github/workflows/ci.yml, which the host reads or runs later",
        setting='"dangerous": {"sandboxed": {"classes": {"persistence": "allow"}}} in ~/.odek/config.json',
        classes_to_approve=("persistence",),
        batchable=True,
    )


def test_trust_covers_its_classes_and_no_others() -> None:
    """Runtime 5.6: until the process ends."""
    trusting = SANDBOX.trusting(("network_egress",))
    assert [SANDBOX.decide_command("curl x").action, trusting.decide_command("curl x").action] == ["prompt", "allow"]
    assert [
        trusting.decide_command(command).action for command in ("curl x; rm -rf /workspace", "curl x; cat .env")
    ] == [
        "prompt",
        "prompt",
    ]


def test_command_is_decided_for_its_place() -> None:
    """D-6: what the host refuses is the sandbox's daily work."""
    assert [context.decide_command("weird-tool --x").action for context in (HOST, SANDBOX)] == ["deny", "allow"]
