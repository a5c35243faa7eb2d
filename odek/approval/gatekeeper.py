"""The gatekeeper of a session: decides on the commands and files of its tools (R-84, D-6).

It asks the classifier, then, if need be, the person. A refusal is text for the model and the person; it names the
class, the reason and the setting with which the operator can lift it. What several calls of a turn need is asked on
one card beforehand; the answer is a `Grant` for each call, which holds for exactly the operations on the card.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from odek.approval.card import Answer, Card, CardOrigin, PendingOperation, Person, Unanswered, card_to_json
from odek.approval.operation import NO_GRANT, Basis, Grant, Operation
from odek.events import ApprovalAnswered, ApprovalRequested, Sink, ignore
from odek.text import visible

if TYPE_CHECKING:
    from odek.danger.policy import Decision, PolicyContext

HOST = "HOST – no sandbox"
QUESTION_LIMIT = 256 << 10  # characters: more than can be read before saying yes
FRICTION_COUNT = 3
FRICTION_WINDOW_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where the operations of a session happen."""

    place: str
    """shown to the person: "sandbox odek-1-1, network=none" """
    boundary: str
    """the same for several operations at once: "sandbox network=none", or HOST"""
    sandboxed: bool
    shared: str = ""
    """added for files in the sandbox that the host sees: "in the folder that …"; "" on the host"""
    origin: CardOrigin | None = None
    """the sub-agent whose operations they are; None: the agent itself"""
    real_path: Callable[[str], str]
    """a path in the workspace, absolute or relative → the same with links resolved, as far as they can be"""


@dataclass(slots=True)
class Trust:
    """What the person trusts until odek ends."""

    classes: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)
    """commands of which a part is not understood, as they are written"""


class Friction:
    """Slows haste down: after three approvals of a class within a minute, the next one is harder to give.

    It is of a person: sub-agents share that of their parent, so that many of them are no way around it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds and never runs backwards."""
        self._clock = clock
        self._lock = Lock()
        self._approved: list[tuple[float, str]] = []

    def applies(self, classes: Iterable[str]) -> bool:
        """Return whether one of `classes` was approved that often lately."""
        since = self._clock() - FRICTION_WINDOW_S
        with self._lock:
            self._approved = [(moment, name) for moment, name in self._approved if moment > since]
            names = [name for _, name in self._approved]
        return any(names.count(name) >= FRICTION_COUNT for name in classes)

    def count(self, classes: Iterable[str]) -> None:
        """Note one approval of each of `classes`."""
        with self._lock:
            self._approved += [(self._clock(), name) for name in classes]


class Gatekeeper:
    """Lets operations through, or says why not."""

    def __init__(
        self,
        *,
        load: Callable[[], PolicyContext],
        surroundings: Surroundings,
        person: Person | None,
        trusted: Trust | None = None,
        refused: dict[str, int] | None = None,
        clock: Callable[[], float] = time.monotonic,
        emit: Sink = ignore,
        new_id: Callable[[], str] = lambda: f"a-{os.urandom(6).hex()}",
        friction: Friction | None = None,
    ) -> None:
        """`load` imports the classifier; it is called when something has to be decided for the first time.

        `person` is None where there is none to ask; the policy says so, too. `trusted` is what the person
        trusts until odek ends: the next gatekeeper gets the same. `refused` counts refusals by class. `emit` gets
        each question and its answer. `friction` is the parent's, of a sub-agent.
        """
        self._refused = {} if refused is None else refused
        self._trusted = Trust() if trusted is None else trusted
        self._load = load
        self._context: PolicyContext | None = None
        self._around = surroundings
        self._person = person
        self.friction = friction or Friction(clock)
        self._emit = emit
        self._new_id = new_id
        self._decided: dict[Operation, Decision] = {}
        self._unanswered = ""
        """why there was no answer about several operations of this reply"""
        self._allowed: dict[tuple[str, str], Basis] = {}

    def check(self, operation: Operation, grant: Grant = NO_GRANT) -> str | None:
        """Return None to let `operation` happen, else the refusal for the model. May ask and wait.

        `grant` is the one that `preapprove` gave for the call that `operation` belongs to. It answers a question that a
        card may ask, and lifts no refusal of the policy.
        """
        decision = self._decide(operation)
        if decision.action == "prompt":
            why = self._ask(operation, decision, grant)
            refusal = why and self._refusal(f"operation denied {why}", operation, decision)
            how = "person, with others" if operation in grant.operations else "person"
        else:
            refusal = self._forbidden(operation, decision)
            how = "person, trusted" if self._is_trusted(operation, decision) else "policy"
        if refusal is None:
            self._allowed[operation.kind, operation.subject] = Basis(classes=_classes(decision), how=how)
        for name in _classes(decision) if refusal else ():
            self._refused[name] = self._refused.get(name, 0) + 1
        return refusal

    def basis(self, operation: Operation) -> Basis | None:
        """Return why an operation of that kind and subject was allowed last; None when none was."""
        return self._allowed.get((operation.kind, operation.subject))

    def is_denied(self, operation: Operation) -> str | None:
        """Return the refusal for the model when the policy refuses `operation` without a question; does not ask."""
        return self._forbidden(operation, self._decide(operation))

    def allows(self, operation: Operation) -> bool:
        """Return whether `operation` happens without a question; does not ask."""
        return self._classify(operation).action == "allow"

    def preapprove(self, calls: Sequence[Sequence[Operation]]) -> tuple[Grant, ...]:
        """Ask on one card about what several operations of a turn need (R-72); return a grant for each call.

        Each of `calls` holds the operations of one call; one of which the policy refuses an operation is left out.
        What is destructive, unknown or matches the denylist is not covered: it is asked about by itself.
        """
        self._decided, self._unanswered = {}, ""
        pending = [self._batchable(call) for call in calls]
        answers = {on_host: self._ask_together(pending, on_host=on_host) for on_host in (False, True)}
        grants = []
        for call in pending:
            covered = [item.operation for item in call if answers[item.operation.on_host] != "singly"]
            allowed = all(answers[operation.on_host] == "all" for operation in covered)
            grants.append(Grant(frozenset(covered), allowed) if covered else NO_GRANT)
        return tuple(grants)

    def _ask_together(self, calls: Sequence[Sequence[PendingOperation]], *, on_host: bool) -> Answer:
        """Ask on one card about what happens in one place, if that is several operations."""
        items = tuple(item for call in calls for item in call if item.operation.on_host is on_host)
        size = sum(len(item.operation.text) for item in items)
        if self._person is None or len(items) < 2 or size > QUESTION_LIMIT:
            return "singly"
        try:
            return self._put(items, HOST if on_host else self._around.boundary, ("all", "singly", "none"))
        except Unanswered as reason:
            self._unanswered = f"({reason})"
            return "none"

    def _batchable(self, call: Sequence[Operation]) -> tuple[PendingOperation, ...]:
        """Return the operations of `call` that a card can ask about."""
        if any(self.is_denied(operation) for operation in call):
            return ()
        decided = [(operation, self._decide(operation)) for operation in call]
        return tuple(
            _pending(operation, decision)
            for operation, decision in decided
            if decision.action == "prompt" and decision.batchable
        )

    def _put(self, items: tuple[PendingOperation, ...], place: str, answers: tuple[Answer, ...]) -> Answer:
        """Let the person decide on `items`; an answer that was not offered is the refusal."""
        assert self._person is not None
        classes = tuple(dict.fromkeys(name for item in items for name in item.classes))
        hasty = self.friction.applies(classes)
        if hasty:
            answers = tuple(answer for answer in answers if answer != "trust")
        host = not self._around.sandboxed or any(item.operation.on_host for item in items)
        card = Card(
            id=self._new_id(), items=items, place=place, answers=answers, hasty=hasty, host=host,
            origin=self._around.origin,
        )  # fmt: skip
        self._emit(ApprovalRequested(approval=card_to_json(card)))
        try:
            answer = self._person.decide(card)
        except Unanswered:
            self._emit(ApprovalAnswered(id=card.id, answer=card.refusal, how="unanswered"))
            raise
        except BaseException:
            self._emit(ApprovalAnswered(id=card.id, answer=card.refusal, how="cancelled"))
            raise
        answer = answer if answer in answers else card.refusal
        self._emit(ApprovalAnswered(id=card.id, answer=answer))
        if answer in ("once", "trust", "all"):
            self.friction.count(classes)
        return answer

    def _decide(self, operation: Operation) -> Decision:
        if operation not in self._decided:
            self._decided[operation] = self._classify(operation)
        return self._decided[operation]

    def _classify(self, operation: Operation) -> Decision:
        if operation.on_host:
            from odek.danger.policy import decide_host_call  # few sessions have a tool that runs there

            interactive = self._person is not None
            return decide_host_call(allowed=operation.allowed, interactive=interactive, setting=operation.setting)
        if self._context is None:
            self._context = self._load().trusting(tuple(sorted(self._trusted.classes)))
            for command in sorted(self._trusted.commands):
                self._context = self._context.trusting_command(command)
        match operation.kind:
            case "command":
                return self._context.decide_command(operation.subject)
            case "read":
                return self._context.decide_read(self._around.real_path(operation.subject))
            case "write":
                return self._context.decide_write(operation.subject)
            case "call":
                return self._context.decide_call()

    def _ask(self, operation: Operation, decision: Decision, grant: Grant) -> str | None:
        """Return None for a yes, else why not."""
        if operation in grant.operations and not grant.allowed:
            return self._unanswered or "by user"
        if operation in grant.operations and decision.batchable:  # as it is now, a link may have been exchanged
            return None
        if len(operation.text) > QUESTION_LIMIT:
            return f"(longer than the {QUESTION_LIMIT} characters that can be asked about)"
        if self._person is None:
            return "(non-interactive mode)"
        place = HOST if operation.on_host else self._around.place
        if operation.kind == "write" and self._around.shared:
            place = f"{place}, {self._around.shared}"
        answers: tuple[Answer, ...] = ("once", "trust", "deny") if decision.rememberable else ("once", "deny")
        try:
            answer = self._put((_pending(operation, decision),), place, answers)
        except Unanswered as reason:
            return f"({reason})"
        if answer == "trust":
            self._trust(operation, decision)
        return "by user" if answer == "deny" else None

    def _trust(self, operation: Operation, decision: Decision) -> None:
        assert self._context is not None
        if decision.exact:
            self._trusted.commands.add(operation.subject)
            self._context = self._context.trusting_command(operation.subject)
        else:
            self._trusted.classes.update(decision.classes_to_approve)
            self._context = self._context.trusting(decision.classes_to_approve)
        self._decided = {}

    def _is_trusted(self, operation: Operation, decision: Decision) -> bool:
        trusted = self._trusted
        return operation.subject in trusted.commands or not trusted.classes.isdisjoint(_classes(decision))

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
        if not self._around.sandboxed or operation.on_host:
            lines.append("It would happen on the host, without a sandbox.")
        if (
            decision.denied_non_interactively
            and self._context is not None
            and self._context.policy.non_interactive == "allow"
        ):
            lines.append("dangerous.non_interactive does not cover that class.")
        return "\n".join((*lines, _remedy(decision.setting)))


def _pending(operation: Operation, decision: Decision) -> PendingOperation:
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
