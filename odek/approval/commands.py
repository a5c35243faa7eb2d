"""May this command of the model run? Two answers, one for each place where it would.

Until commands are sorted into classes, every one on the host is of class "unknown" (R-84), and the
real sandbox is the wall for those inside it (D-6). A refusal is text for the model; it names the
setting with which the operator can lift it.
"""

from __future__ import annotations

from typing import Literal, Protocol

from odek.approval.question import CommandQuestion
from odek.text import clip, visible

Action = Literal["allow", "prompt", "deny"]

HOST = "HOST – no sandbox"
UNKNOWN = "unknown"
QUESTION_LIMIT = 256 << 10  # characters: more than anybody reads before saying yes
_SHOWN = 200  # characters of a refused command that are repeated to the model
_OPERATOR_FILE = "~/.odek/config.json"


class CommandGate(Protocol):
    """Decides about one command at a time."""

    def check(self, command: str, *, reason: str) -> str | None:
        """Return None when `command` may run, else why not, for the model.

        `reason` is the model's own description, "" when it gave none. May ask somebody and wait.
        """
        ...


class SandboxGate:
    """For commands that run inside a real sandbox: allowed, unless the operator says otherwise."""

    def __init__(
        self,
        *,
        place: str,
        action: Action | None,
        sandboxed_action: Action | None,
        question: CommandQuestion | None,
    ) -> None:
        """`place` tells the person where it runs ("sandbox odek-1-1, network=none").

        `action` is `dangerous.action`, `sandboxed_action` is `dangerous.sandboxed.action`, which wins;
        None: not set. `question` is None where nobody can be asked.
        """
        self._place = place
        self._action: Action = sandboxed_action or action or "allow"
        self._question = question

    def check(self, command: str, *, reason: str) -> str | None:
        """See CommandGate."""
        refusal = _decide(command, self._action, self._question, place=self._place, reason=reason)
        return None if refusal is None else f"{refusal}\n{remedy('dangerous.sandboxed.action')}"


class HostGate:
    """For commands that run on the host, where nothing but this question stands in between."""

    def __init__(
        self, *, action: Action | None, non_interactive: Action | None, question: CommandQuestion | None
    ) -> None:
        """`action` is `dangerous.action`; None asks. `question` is None where nobody can be asked.

        `non_interactive` (`dangerous.non_interactive`) never lifts the class "unknown" (F-96), so
        "allow" only changes what the refusal explains.
        """
        self._action: Action = action or "prompt"
        self._non_interactive = non_interactive
        self._question = question

    def check(self, command: str, *, reason: str) -> str | None:
        """See CommandGate."""
        refusal = _decide(command, self._action, self._question, place=HOST, reason=reason)
        if refusal is None:
            return None
        lines = [refusal, f"It is of class {UNKNOWN} and would run on the host, without a sandbox."]
        if self._question is None and self._non_interactive == "allow":
            lines.append(f"dangerous.non_interactive does not cover the class {UNKNOWN}.")
        return "\n".join((*lines, remedy("dangerous.action"), "In the sandbox it needs no approval."))


def _decide(command: str, action: Action, question: CommandQuestion | None, *, place: str, reason: str) -> str | None:
    """Return None to let it run, or the first line of the refusal."""
    if action == "allow":
        return None
    shown = visible(clip(command, _SHOWN))
    if action == "deny":
        return f"operation denied by policy: {shown}"
    if question is None:
        return f"operation denied (non-interactive mode): {shown}"
    if len(command) > QUESTION_LIMIT:
        return f"operation denied (longer than the {QUESTION_LIMIT} characters that can be asked about): {shown}"
    if question.ask(command, risk=UNKNOWN, place=place, reason=reason):
        return None
    return f"operation denied by user: {shown}"


def remedy(setting: str) -> str:
    """Return the sentence that names how the operator lifts a refusal, `setting` being "dangerous.action" or alike."""
    *outer, key = setting.split(".")
    nested = f'"{key}": "allow"'
    for name in reversed(outer):
        nested = f'"{name}": {{{nested}}}'
    return f"The operator can allow it with {nested} in {_OPERATOR_FILE}."
