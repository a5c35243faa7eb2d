"""The last line that a command with --json prints: `finished` of one that has its answer, `error` of any other (R-290).

There is exactly one. A run that has its answer may still fail, when its session cannot be stored, say; so `finished`
waits until the command is over, and an `error` behind an answer carries that answer.
"""

from __future__ import annotations

import json
import os
import select
from contextlib import suppress
from signal import Signals
from typing import TYPE_CHECKING, Protocol

from odek.cli import signals
from odek.errors import BudgetExhausted, Interrupted, OdekError

if TYPE_CHECKING:
    from odek.events import Finished
    from odek.model.types import Usage


class Output(Protocol):
    """Where the line is printed: a Terminal."""

    @property
    def stdout_descriptor(self) -> int: ...
    def answer(self, text: str) -> None: ...
    def redact(self, text: str, /) -> str: ...


class LastEvent:
    """Keeps what a run came to until the command is over."""

    def __init__(self, terminal: Output) -> None:
        self._terminal = terminal
        self._is_printed = False
        signals.last_words = self._end_at_once
        self.finished: Finished | None = None
        self.usage: Usage | None = None
        """of a turn that has ended"""
        self.refused: tuple[tuple[str, int], ...] = ()
        """classes of danger, and how many operations of each were refused"""

    def succeed(self) -> None:
        """Print the answer of a run, if there was one. Raises OdekError and BrokenPipeError as Terminal.answer does."""
        if self.finished is not None:
            from odek.events import to_json

            with signals.turn():  # a signal must not come between the line and the note that it is printed
                self._is_printed = True
                self._terminal.answer(json.dumps(to_json(self.finished)))

    def fail(self, error: OdekError) -> int:
        """Print what went wrong and return the exit code; a stdout that takes nothing changes nothing."""
        if not self._is_printed:
            self._is_printed = True
            with suppress(OdekError):
                error.redact(self._terminal.redact)
            with suppress(OSError, OdekError, Interrupted):
                self._terminal.answer(json.dumps(self._error_fields(error)))
        return error.exit_code

    def interrupt(self, interruption: Interrupted) -> int:
        """As `fail`, for a signal."""
        name = Signals(interruption.signal_number).name
        return self.fail(_Ended(f"stopped by {name}", source="signal", code=name, exit_code=interruption.exit_code))

    def crash(self, error: BaseException, exit_code: int) -> int:
        """As `fail`, for a bug of odek."""
        message = f"internal error: {type(error).__name__}: {error}"
        return self.fail(_Ended(message, source="odek", code="bug", exit_code=exit_code))

    def _end_at_once(self, name: str, exit_code: int) -> None:
        """Write the line past the buffer, if stdout takes it without a wait: this process is about to be gone."""
        if self._is_printed:
            return
        self._is_printed = True
        error = _Ended(f"stopped at once by {name}", source="signal", code=name, exit_code=exit_code)
        if not name:
            error = _Ended("the time of the task is over, and it did not end", **_TIME, exit_code=exit_code)
        fields = self._error_fields(error)
        line = json.dumps(fields)
        if len(line) >= select.PIPE_BUF:
            line = json.dumps({**fields, "answer": None})
        with suppress(OSError, ValueError):
            descriptor = self._terminal.stdout_descriptor
            if select.select([], [descriptor], [], 0)[1]:
                os.write(descriptor, f"{line}\n".encode())

    def _error_fields(self, error: OdekError) -> dict[str, object]:
        from odek.events import cost_field, refused_fields, usage_fields

        return {
            "event": "error",
            "message": error.message,
            "hint": error.hint,
            "detail": error.detail,
            "source": error.source,
            "code": error.code,
            "exit_code": error.exit_code,
            "answer": self.finished.answer if self.finished else None,
            "usage": usage_fields(self.usage) if self.usage else None,
            "cost_usd": cost_field(self.usage) if self.usage else None,
            "refused": refused_fields(self.refused),
        }


_TIME = {"source": BudgetExhausted.source, "code": BudgetExhausted.code}


class _Ended(OdekError):
    def __init__(self, message: str, *, source: str, code: str, exit_code: int) -> None:
        super().__init__(message)
        self.source, self.code, self.exit_code = source, code, exit_code
