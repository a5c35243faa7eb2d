"""May this happen? One gatekeeper a session, for its commands and for the files that its tools use (R-84, D-6).

It asks the classifier, then, if need be, the person. A refusal is text for the model and the person; it
names the class, the reason and the setting with which the operator can lift it. What was answered on a
card holds for exactly the operations on it, once each, until the next turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odek.approval.operation import Operation
from odek.approval.question import ApprovalPrompt, PendingOperation
from odek.text import visible

if TYPE_CHECKING:
    from odek.danger.policy import Decision, PolicyContext

HOST = "HOST – no sandbox"
QUESTION_LIMIT = 256 << 10  # characters: more than anybody reads before saying yes


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a gatekeeper knows of the place of its session."""

    place: str
    """told to the person: "sandbox odek-1-1, network=none" """
    boundary: str
    """the same for a card: "sandbox network=none", or HOST"""
    sandboxed: bool
    shared: str = ""
    """said of files in the sandbox that the host sees: "in the folder that …"; "" on the host"""
    real_path: Callable[[str], str]
    """a path relative to the workspace, absolute or not → the same free of links, as far as can be told"""


class Gatekeeper:
    """Lets operations through, or says why not."""

    def __init__(
        self,
        *,
        load: Callable[[], PolicyContext],
        surroundings: Surroundings,
        question: ApprovalPrompt | None,
        trusted: set[str] | None = None,
        refused: dict[str, int] | None = None,
    ) -> None:
        """`load` imports the classifier; it is called when something has to be decided for the first time.

        `question` is None where nobody can be asked; the policy of the regime says so, too. `trusted`
        are the classes that somebody trusts until odek ends: the next gatekeeper gets the same set. In `refused`
        it counts, by class, what it has refused.
        """
        self._refused = {} if refused is None else refused
        self._trusted = set() if trusted is None else trusted
        self._load = load
        self._regime: PolicyContext | None = None
        self._around = surroundings
        self._question = question
        self._decided: dict[Operation, Decision] = {}
        self._answered: dict[Operation, list[bool]] = {}

    def check(self, operation: Operation) -> str | None:
        """Return None to let `operation` happen, else what the model is told. May ask and wait."""
        decision = self._decide(operation)
        if decision.action == "prompt":
            why = self._ask(operation, decision)
            refusal = why and self._refusal(f"operation denied {why}", operation, decision)
        else:
            refusal = self._forbidden(operation, decision)
        for name in _classes(decision) if refusal else ():
            self._refused[name] = self._refused.get(name, 0) + 1
        return refusal

    def is_denied(self, operation: Operation) -> str | None:
        """Return what the model is told when `operation` is refused whatever anybody says; asks nobody."""
        return self._forbidden(operation, self._decide(operation))

    def allows(self, operation: Operation) -> bool:
        """Return whether `operation` happens without a question; asks nobody."""
        return self._classify(operation).action == "allow"

    def foresee(self, calls: Sequence[Sequence[Operation]]) -> None:
        """Put on one card what several operations of a turn need (R-72); `check` then follows the answer.

        Each of `calls` holds what one call will do; it does nothing at all if one of that is refused. What
        is destructive, unknown or matches the denylist is not covered: it is asked about by itself.
        """
        self._answered, self._decided = {}, {}
        allowed = (call for call in calls if not any(self.is_denied(operation) for operation in call))
        card = tuple(
            _asked(operation, decision)
            for call in allowed
            for operation in call
            if (decision := self._decide(operation)).action == "prompt" and decision.batchable
        )
        size = sum(len(asked.operation.text) for asked in card)
        if self._question is None or len(card) < 2 or size > QUESTION_LIMIT:
            return
        answer = self._question.ask_together(card, boundary=self._around.boundary)
        if answer != "singly":
            for asked in card:
                self._answered.setdefault(asked.operation, []).append(answer == "all")

    def _decide(self, operation: Operation) -> Decision:
        if operation not in self._decided:
            self._decided[operation] = self._classify(operation)
        return self._decided[operation]

    def _classify(self, operation: Operation) -> Decision:
        if self._regime is None:
            self._regime = self._load().trusting(tuple(sorted(self._trusted)))
        match operation.kind:
            case "command":
                return self._regime.decide_command(operation.subject)
            case "read":
                return self._regime.decide_read(self._around.real_path(operation.subject))
            case "write":
                return self._regime.decide_write(operation.subject)

    def _ask(self, operation: Operation, decision: Decision) -> str | None:
        """Return None for a yes, else why not."""
        answers = self._answered.get(operation)
        if answers:
            return None if answers.pop(0) else "by user"
        if len(operation.text) > QUESTION_LIMIT:
            return f"(longer than the {QUESTION_LIMIT} characters that can be asked about)"
        if self._question is None:
            return "(non-interactive mode)"
        place = self._around.place
        if operation.kind == "write" and self._around.shared:
            place = f"{place}, {self._around.shared}"
        answer = self._question.ask(_asked(operation, decision), place=place)
        if answer == "trust" and self._regime is not None:
            if decision.exact:
                self._regime = self._regime.trusting_command(operation.subject)
            else:
                self._trusted.update(decision.classes_to_approve)
                self._regime = self._regime.trusting(decision.classes_to_approve)
            self._decided = {}
        return "by user" if answer == "no" else None

    def _forbidden(self, operation: Operation, decision: Decision) -> str | None:
        if decision.action != "deny":
            return None
        why = "(non-interactive mode)" if decision.denied_non_interactively else "by policy"
        return self._refusal(f"operation denied {why}", operation, decision)

    def _refusal(self, what: str, operation: Operation, decision: Decision) -> str:
        lines = [
            f"{what}: {operation.short}",
            f"It is of class {', '.join(_classes(decision))}: {visible(decision.reason)}.",
        ]
        if not self._around.sandboxed:
            lines.append("It would happen on the host, without a sandbox.")
        if (
            decision.denied_non_interactively
            and self._regime is not None
            and self._regime.policy.non_interactive == "allow"
        ):
            lines.append("dangerous.non_interactive does not cover that class.")
        return "\n".join((*lines, _remedy(decision.setting)))


def _asked(operation: Operation, decision: Decision) -> PendingOperation:
    return PendingOperation(
        operation=operation,
        classes=_classes(decision),
        risk=decision.reason,
        rule=decision.rule,
        setting=decision.setting,
        trustable=decision.rememberable,
        exact=decision.exact,
    )


def _classes(decision: Decision) -> tuple[str, ...]:
    return decision.classes_to_approve or (decision.level.label,)


def _remedy(setting: str) -> str:
    if not setting:
        return "No setting lifts that class."
    if setting.startswith("remove "):
        return f"The operator can {setting}."
    return f"The operator can allow it with {setting}."
