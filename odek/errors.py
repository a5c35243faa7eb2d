"""The errors a user can see, and their exit codes.

Everything that stops odek on purpose is an OdekError. `message` says what is wrong and where it
came from (lower case, no full stop); `hint` says the one thing to do about it. Anything else that
escapes is a bug and leaves with EXIT_BUG.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_BUG = 3
EXIT_BUDGET = 4
EXIT_REFUSED = 5
EXIT_MISFIT = 6
EXIT_NEWER = 10
EXIT_SIGNAL_BASE = 128  # a run ended by signal N leaves with 128 + N, as shells report it


class OdekError(Exception):
    """An ending that the user can understand and act on."""

    exit_code = EXIT_ERROR
    source = "odek"
    """which part of a run it comes from, for programs that read --json"""
    code = "failed"
    """what happened, in a word that stays the same when the message is improved"""

    def __init__(self, message: str, *, hint: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail
        """the words of Docker or a provider, quoted below the message"""

    def redact(self, redact: Callable[[str], str]) -> None:
        """Take the secrets out of what it says: others' words are in it (R-395)."""
        self.message, self.hint, self.detail = redact(self.message), redact(self.hint), redact(self.detail)


class UsageError(OdekError):
    """Flags or arguments that make no sense, alone or together."""

    exit_code = EXIT_USAGE
    source = "command line"
    code = "usage"


class ConfigError(OdekError):
    """A setting that cannot be read, parsed or accepted; the message names its origin."""

    source = code = "settings"


class KeyMissing(ConfigError):
    """The model's server wants a key, and none is set."""

    code = "key_missing"


class StateFileError(OdekError):
    """A file below ~/.odek that cannot be trusted, read or written."""

    source = code = "state"


class StateFileInUse(StateFileError):
    """A file whose lock another process holds."""

    code = "in_use"

    def __init__(self, message: str, *, hint: str, holder: str) -> None:
        super().__init__(message, hint=hint)
        self.holder = holder
        """its process ID; "" where that is not known"""


class ApprovalDenied(OdekError):
    """The operator said no, or there is no one to ask."""

    source, code = "approval", "not_approved"


class FileAccessDenied(OdekError):
    """A file that a tool may not, or cannot, read or write; the model gets the message, the run goes on."""


class ExecutableMissing(OdekError):
    """A program that is not there, or may not be executed."""

    source, code = "host", "program_missing"


class SpawnFailed(ExecutableMissing):
    """A program that cannot be started at present: too many processes, no memory, no free descriptor.

    It says nothing about whether the program is there.
    """


class BudgetExhausted(OdekError):
    """A task has used up what it was given: time, tool calls or tokens; `detail` is what it came to."""

    exit_code = EXIT_BUDGET
    source, code = "limits", "budget"


class IterationLimitReached(OdekError):
    """The model was asked as often as it may be, without an answer; `detail` is what it came to."""

    source, code = "limits", "max_iterations"


class NoAnswer(OdekError):
    """The model has ended its work without an answer that can be used; `detail` is what it said."""

    source, code = "model", "no_answer"


class AnswerMisfit(NoAnswer):
    """The model's answers do not have the form that was asked for; `detail` is the last one."""

    exit_code = EXIT_MISFIT
    code = "misfit"


class Cancelled(BaseException):
    """The work that is under way is to end (cancel.py).

    Derives from BaseException, as KeyboardInterrupt does, so that no handler of ordinary errors
    swallows it.
    """


class Interrupted(Cancelled):
    """A signal asked this process to end (or, in a conversation, the present turn)."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number
        self.echoed = True
        """whether a terminal may show it, as ^C"""

    @property
    def exit_code(self) -> int:
        return EXIT_SIGNAL_BASE + self.signal_number


class TimeLimitReached(Cancelled):
    """The time that a task was given is over."""
