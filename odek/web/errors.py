"""How a request is refused: what every part of the server raises, and what a client gets to read (R-127)."""

from __future__ import annotations

from collections.abc import Mapping

from odek.errors import OdekError


class Refused(OdekError):
    """A request that is not carried out, as an HTTP status and a code for programs."""

    def __init__(
        self, status: int, code: str, message: str, hint: str = "", *, extra: Mapping[str, object] | None = None
    ) -> None:
        """`extra` holds further JSON values that stand next to code, message and hint."""
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.extra: Mapping[str, object] = extra or {}

    @classmethod
    def because(cls, error: OdekError, *, status: int, code: str) -> Refused:
        """Return the refusal in the words of `error`, which the command line shows as well."""
        return cls(status, code, error.message, error.hint)
