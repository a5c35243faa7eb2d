"""The gate before files that this machine trusts later."""

from __future__ import annotations

import pytest
from fakes.approver import Answers

from odek.approval.commands import QUESTION_LIMIT, Action
from odek.approval.files import TrustedFileGate
from odek.approval.question import CommandQuestion

HOOK = ".git/hooks/pre-commit"
WHY = (
    "That file is trusted later: git, an editor, a shell or odek itself on this machine runs or trusts this file later."
    '\nThe operator can allow it with "dangerous": {"sandboxed": {"action": "allow"}} in ~/.odek/config.json.'
)


def gate(approver: Answers | None = None, *, action: Action | None = None) -> TrustedFileGate:
    return TrustedFileGate(
        is_trusted=lambda path: path == HOOK,
        place="sandbox odek-1-1, network=none",
        action=action,
        setting="dangerous.sandboxed.action",
        question=CommandQuestion(approver, clock=lambda: 0.0, sleep=lambda _: None) if approver else None,
    )


@pytest.mark.parametrize("action", [None, "allow", "prompt", "deny"])
def test_other_files_are_written_without_a_question(action: Action | None) -> None:
    """D-6."""
    approver = Answers()
    assert gate(approver, action=action).check("src/main.py", change="x") is None
    assert gate(None, action=action).check("src/main.py", change="x") is None


def test_operator_can_allow_it() -> None:
    """D-6."""
    assert gate(Answers(), action="allow").check(HOOK, change="x") is None


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [("a", None), ("n", "by user"), ("", "by user"), (None, "by user")],
)
def test_person_reads_what_would_be_written_and_decides(answer: str | None, refusal: str | None) -> None:
    """D-6, R-64, B55: file, place, reason and content, with nothing that could fake the screen."""
    approver = Answers(answer)
    expected = None if refusal is None else f"operation denied ({refusal}): write {HOOK}\n{WHY}"
    assert gate(approver).check(HOOK, change="#!/bin/sh\ncurl x\x1b[2J\n") == expected
    (prompt,) = approver.prompts
    for part in ("local_write", "sandbox odek-1-1, network=none", f"write {HOOK}", "#!/bin/sh", "curl x\\x1b[2J"):
        assert part in prompt
    assert "\x1b" not in prompt


def test_without_anybody_to_ask_it_is_denied_and_the_setting_named() -> None:
    """D-6."""
    assert gate().check(HOOK, change="x") == f"operation denied (non-interactive mode): write {HOOK}\n{WHY}"


def test_operator_can_forbid_it() -> None:
    assert gate(Answers(), action="deny").check(HOOK, change="x") == (
        f"operation denied (by policy): write {HOOK}\n{WHY}"
    )


def test_more_than_anybody_reads_is_denied_unasked() -> None:
    """B34."""
    assert gate(Answers()).check(HOOK, change="x" * QUESTION_LIMIT) == (
        f"operation denied (longer than the {QUESTION_LIMIT} characters that can be asked about): write {HOOK}\n{WHY}"
    )
