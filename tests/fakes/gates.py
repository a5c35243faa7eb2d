"""A gate that answers from tables and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odek.approval.operation import NO_GRANT, Grant, Operation


class FakeGate:
    """Satisfies tools.workspace.Gate; lets through what no table names, unless `answer` refuses everything."""

    def __init__(
        self,
        refused: Mapping[str, str] | None = None,
        forbidden: Mapping[str, str] | None = None,
        *,
        answer: str | None = None,
    ) -> None:
        """`refused` and `forbidden`: command or path → what the model is told by `check` and `forbids`."""
        self._answer = answer
        self._refused = dict(refused or {})
        self._forbidden = dict(forbidden or {})
        self.asked: list[Operation] = []
        """what `check` was called with"""
        self.preapproved: list[Sequence[Sequence[Operation]]] = []

    def check(self, operation: Operation, grant: Grant = NO_GRANT) -> str | None:
        del grant
        self.asked.append(operation)
        return self._forbidden.get(operation.subject) or self._refused.get(operation.subject, self._answer)

    def is_denied(self, operation: Operation) -> str | None:
        return self._forbidden.get(operation.subject)

    def allows(self, operation: Operation) -> bool:
        named = operation.subject in self._forbidden or operation.subject in self._refused
        return not named and self._answer is None

    def preapprove(self, calls: Sequence[Sequence[Operation]]) -> tuple[Grant, ...]:
        self.preapproved.append(calls)
        return (NO_GRANT,) * len(calls)

    @property
    def subjects(self) -> list[str]:
        """commands and paths that `check` was asked about"""
        return [operation.subject for operation in self.asked]


class WriteGate(FakeGate):
    """A FakeGate that lets everything be read, and remembers writes and commands alone."""

    def check(self, operation: Operation, grant: Grant = NO_GRANT) -> str | None:
        return None if operation.kind == "read" else super().check(operation, grant)
