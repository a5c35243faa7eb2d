"""The gates for commands."""

from __future__ import annotations

import pytest
from fakes.approver import Answers

from odek.approval.commands import QUESTION_LIMIT, Action, HostGate, SandboxGate
from odek.approval.question import CommandQuestion

SANDBOX_REMEDY = (
    '\nThe operator can allow it with "dangerous": {"sandboxed": {"action": "allow"}} in ~/.odek/config.json.'
)
HOST_CLASS = "\nIt is of class unknown and would run on the host, without a sandbox."
HOST_REMEDY = (
    '\nThe operator can allow it with "dangerous": {"action": "allow"} in ~/.odek/config.json.'
    "\nIn the sandbox it needs no approval."
)


def question(*answers: str | None) -> tuple[Answers, CommandQuestion]:
    approver = Answers(*answers)
    return approver, CommandQuestion(approver, clock=lambda: 0.0, sleep=lambda _: None)


@pytest.mark.parametrize(
    ("action", "sandboxed", "answers", "refusal"),
    [
        (None, None, (), None),
        ("allow", None, (), None),
        ("deny", "allow", (), None),
        ("prompt", "allow", (), None),
        ("deny", None, (), "operation denied by policy: ls"),
        ("allow", "deny", (), "operation denied by policy: ls"),
        ("prompt", None, ("a",), None),
        ("prompt", None, ("n",), "operation denied by user: ls"),
        (None, "prompt", (None,), "operation denied by user: ls"),
        ("allow", "prompt", ("a",), None),
    ],
)
def test_sandbox_gate(
    action: Action | None, sandboxed: Action | None, answers: tuple[str | None, ...], refusal: str | None
) -> None:
    """D-6: allowed inside, unless the operator says otherwise; dangerous.sandboxed wins."""
    approver, asking = question(*answers)
    gate = SandboxGate(
        place="sandbox odek-1-1, network=none", action=action, sandboxed_action=sandboxed, question=asking
    )
    expected = None if refusal is None else refusal + SANDBOX_REMEDY
    assert gate.check("ls", reason="r") == expected
    approver.assert_all_used()
    assert all("\n  runs on: sandbox odek-1-1, network=none\n  reason:  r\n" in text for text in approver.prompts)


def test_sandbox_gate_without_a_terminal_refuses_what_it_would_ask() -> None:
    gate = SandboxGate(place="sandbox", action="prompt", sandboxed_action=None, question=None)
    assert gate.check("ls", reason="") == "operation denied (non-interactive mode): ls" + SANDBOX_REMEDY


@pytest.mark.parametrize(
    ("action", "answers", "refusal"),
    [
        ("allow", (), None),
        ("deny", (), "operation denied by policy: ls"),
        ("prompt", ("a",), None),
        (None, ("a",), None),
        (None, ("n",), "operation denied by user: ls"),
        (None, (None,), "operation denied by user: ls"),
    ],
)
def test_host_gate(action: Action | None, answers: tuple[str | None, ...], refusal: str | None) -> None:
    """R-84, D-6: every command on the host is unknown; the refusal names the setting."""
    approver, asking = question(*answers)
    gate = HostGate(action=action, non_interactive="deny", question=asking)
    expected = None if refusal is None else refusal + HOST_CLASS + HOST_REMEDY
    assert gate.check("ls", reason="r") == expected
    approver.assert_all_used()
    assert all("class unknown)\n  runs on: HOST – no sandbox\n" in text for text in approver.prompts)


@pytest.mark.parametrize("action", [None, "prompt"])
@pytest.mark.parametrize("non_interactive", [None, "deny", "allow"])
def test_host_gate_without_a_terminal_refuses(action: Action | None, non_interactive: Action | None) -> None:
    """F-96: `non_interactive: allow` never covers the class unknown."""
    gate = HostGate(action=action, non_interactive=non_interactive, question=None)
    note = "\ndangerous.non_interactive does not cover the class unknown." if non_interactive == "allow" else ""
    assert gate.check("ls", reason="") == (
        "operation denied (non-interactive mode): ls" + HOST_CLASS + note + HOST_REMEDY
    )


def test_refusal_repeats_a_hostile_command_escaped_and_clipped() -> None:
    """R-64."""
    gate = HostGate(action="deny", non_interactive=None, question=None)
    refusal = gate.check("x\x1b[2K\n" + "y" * 1000, reason="")
    assert refusal is not None
    assert refusal.split("\n")[0] == "operation denied by policy: x\\x1b[2K\\n" + "y" * 193 + "…"


def test_command_longer_than_anybody_reads_is_refused_and_not_asked() -> None:
    """B14, B34: three megabytes cannot be read before saying yes."""
    approver, asking = question("n")
    gate = HostGate(action=None, non_interactive=None, question=asking)
    assert gate.check("x" * QUESTION_LIMIT, reason="") is not None
    approver.assert_all_used()
    refusal = gate.check("x" * (QUESTION_LIMIT + 1), reason="")
    assert refusal is not None
    assert refusal.startswith("operation denied (longer than the 262144 characters that can be asked about): xxx")
