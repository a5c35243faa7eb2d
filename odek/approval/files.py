"""May a file tool write this file? Only files that this machine runs or trusts later are asked about (D-6).

What a command writes is the command's affair and named when the session ends; here the file is
known before it is written, and a person can read what will be in it.
"""

from __future__ import annotations

from collections.abc import Callable

from odek.approval.commands import QUESTION_LIMIT, Action, remedy
from odek.approval.question import CommandQuestion
from odek.text import clip, visible

_RISK = "local_write"
_REASON = "git, an editor, a shell or odek itself on this machine runs or trusts this file later"
_SHOWN = 200


class TrustedFileGate:
    """Asks before a file is written that will be trusted; lets all others through."""

    def __init__(
        self,
        *,
        is_trusted: Callable[[str], bool],
        place: str,
        action: Action | None,
        setting: str,
        question: CommandQuestion | None,
    ) -> None:
        """`is_trusted` gets a path relative to the workspace; `place` tells the person where it is written.

        `action` is what the operator set under the name `setting`, None asks. `question` is None where
        nobody can be asked.
        """
        self._is_trusted = is_trusted
        self._place = place
        self._action: Action = action or "prompt"
        self._setting = setting
        self._question = question

    def check(self, path: str, *, change: str) -> str | None:
        """Return None to let `path` be written, else what the model is told; `change` is shown to the person."""
        if not self._is_trusted(path) or self._action == "allow":
            return None
        why = self._refusal(path, change)
        if why is None:
            return None
        return (
            f"operation denied ({why}): write {visible(clip(path, _SHOWN))}\n"
            f"That file is trusted later: {_REASON}.\n{remedy(self._setting)}"
        )

    def _refusal(self, path: str, change: str) -> str | None:
        if self._action == "deny":
            return "by policy"
        if self._question is None:
            return "non-interactive mode"
        text = f"write {path}\n{change}"
        if len(text) > QUESTION_LIMIT:
            return f"longer than the {QUESTION_LIMIT} characters that can be asked about"
        if self._question.ask(text, risk=_RISK, place=self._place, reason=_REASON):
            return None
        return "by user"
